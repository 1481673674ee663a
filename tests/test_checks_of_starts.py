"""Workflows that a project declares and that nobody in it could start."""

from pathlib import Path
from typing import Any

import pytest
from django.core.checks import run_checks

from orbit_django.tasks import registry, task

TASK = 'task "a.b" { version "1.0.0" }'


@pytest.fixture
def contract(tmp_path, monkeypatch, settings) -> Path:
    """Return a file with one workflow, whose one task alone has a handler."""
    settings.ORBIT = {}
    monkeypatch.setattr(registry, "_tasks", {})
    monkeypatch.setattr(registry, "faults", [])
    task("a.b", version="1.0.0")(lambda input: None)
    path = tmp_path / "pay.orbit"
    path.write_text(
        f'{TASK} workflow Pay {{ version "1.0.0" step only {{ worker "a.b" }} return {{}} }}', encoding="utf-8"
    )
    return path


def of_starts(**options: Any) -> list[str]:
    return [found.id for found in run_checks(tags=["orbit_django"], **options)]


def test_workflows_that_nobody_here_could_start_are_warned_of_before_a_deployment(settings, contract):
    settings.ORBIT = {"CONTRACTS": [contract], "WORKER_TOKEN": "w"}
    assert of_starts(include_deployment_checks=True) == ["orbit_django.W001"]
    assert of_starts() == [], "at no other time"
    settings.ORBIT |= {"TOKEN": "a"}
    assert of_starts(include_deployment_checks=True) == []


def test_without_any_credential_a_worker_sends_starts_so_nothing_is_warned_of(settings, contract):
    settings.ORBIT = {"CONTRACTS": [contract]}
    assert of_starts(include_deployment_checks=True) == []
    settings.ORBIT |= {"WORKER_TOKEN_FILE": str(contract.with_name("not-there-yet"))}
    assert of_starts(include_deployment_checks=True) == ["orbit_django.W001"]


def test_a_project_without_workflows_is_not_warned_of_starts(settings, contract):
    assert of_starts(include_deployment_checks=True) == []
    contract.write_text(TASK, encoding="utf-8")
    settings.ORBIT = {"CONTRACTS": [contract]}
    assert of_starts(include_deployment_checks=True) == []


def test_contracts_that_cannot_be_read_are_no_matter_of_starts(settings, contract):
    contract.write_text("nonsense", encoding="utf-8")
    settings.ORBIT = {"CONTRACTS": [contract]}
    assert of_starts(include_deployment_checks=True) == ["orbit_django.E005"]
