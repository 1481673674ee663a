from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from orbit_django.conf import OrbitSettings
from orbit_django.doctor.findings import Level
from orbit_django.doctor.project import (
    expiry_of,
    look_at_client_certificate,
    look_at_contracts,
    look_at_settings,
    look_at_tasks,
    told_expiry,
)
from orbit_django.tasks import Registry, registry, task
from tests.transports.certificates import Authority, openssl


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ours")


def test_settings_that_can_be_used(settings) -> None:
    settings.ORBIT = {}
    (found,) = look_at_settings()
    assert found.level is Level.OK


def test_wrong_settings_and_unknown_keys(settings) -> None:
    settings.ORBIT = {"CONCURRENCY": 0, "POLL_WAIT_MS": "x"}
    assert [found.text[:12] for found in look_at_settings() if found.level is Level.WRONG] == [
        "CONCURRENCY:",
        "POLL_WAIT_MS",
    ]
    settings.ORBIT = {"CONCURENCY": 2}
    (found,) = look_at_settings()
    assert (found.level, found.advice) == (Level.WRONG, "did you mean 'CONCURRENCY'?")
    settings.ORBIT = {}
    assert [found.text[:12] for found in look_at_settings(concurrency="x")] == ["CONCURRENCY:"]


def test_tasks() -> None:
    registry = Registry()
    (found,) = look_at_tasks(registry)
    assert (found.level, found.text) == (Level.WRONG, "none found")
    registry.faults.append("two handlers for one task")
    (found,) = look_at_tasks(registry)
    assert (found.level, found.text) == (Level.WRONG, "two handlers for one task")


def test_handlers_that_differ_from_their_contracts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(registry, "_tasks", {})
    assert list(look_at_contracts(OrbitSettings(), registry)) == []

    @task("shop.pay", version="1.0.0")
    def pay(input, ctx) -> None: ...

    file = tmp_path / "shop.orbit"
    settings = OrbitSettings(contracts=(str(file),))
    for text, level, told in (
        ('task "shop.pay" { version "1.0.0" }', Level.OK, "handlers and CONTRACTS agree"),
        ('task "shop.pay" { version "2.0.0" }', Level.NOTE, "W004 shop.pay: the handler is of version 1.0.0"),
        ('task "shop.pay" { version "1.0.0" output { paid: Int } }', Level.WRONG, "E006 "),
        ("task", Level.WRONG, f"{file}:1:5"),
    ):
        file.write_text(text, encoding="utf-8")
        (found,) = look_at_contracts(settings, registry)
        assert (found.level, found.text.startswith(told)) == (level, True), found


def test_beside_a_handler_that_cannot_be_served_nothing_is_called_missing_nor_agreed(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(registry, "_tasks", {})
    file = tmp_path / "shop.orbit"
    file.write_text('task "shop.pay" { version "1.0.0" }', encoding="utf-8")
    settings = OrbitSettings(contracts=(str(file),))
    (found,) = look_at_contracts(settings, registry)
    assert found.text.startswith("W005 ")
    monkeypatch.setattr(registry, "faults", ["shop.tasks_orbit: ImportError"])
    assert list(look_at_contracts(settings, registry)) == []


def test_the_end_of_a_certificate_is_what_openssl_says(authority: Authority, tmp_path: Path) -> None:
    certificate, _ = authority.issue("client")
    end = expiry_of(certificate.read_text())
    assert timedelta(days=1, hours=23) < end - datetime.now(UTC) < timedelta(days=2, minutes=1)
    far = tmp_path / "far.pem"  # after 2049 the time has another form
    openssl("req", "-x509", "-new", "-key", authority.key, "-subj", "/CN=far", "-days", "20000", "-out", far)
    assert expiry_of(far.read_text()).date() == (datetime.now(UTC) + timedelta(days=20000)).date()


@pytest.mark.parametrize("text", ["", "nonsense", "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----"])
def test_what_is_no_certificate(text: str) -> None:
    with pytest.raises(ValueError, match=r"certificate"):
        expiry_of(text)


@pytest.mark.parametrize(
    ("days", "level", "word"), [(-1, Level.WRONG, "expired"), (5, Level.NOTE, "expires"), (90, Level.OK, "valid until")]
)
def test_an_expiry_is_told_in_time(days: float, level: Level, word: str) -> None:
    found = told_expiry("TLS", "it", datetime.now(UTC) + timedelta(days=days, hours=1))
    assert (found.level, word in found.text) == (level, True)


def test_a_client_certificate(authority: Authority, tmp_path: Path) -> None:
    assert list(look_at_client_certificate(OrbitSettings())) == []
    certificate, _ = authority.issue("client")
    (found,) = look_at_client_certificate(OrbitSettings(client_cert=str(certificate)))
    assert (found.level, "expires on" in found.text) == (Level.NOTE, True)
    (found,) = look_at_client_certificate(OrbitSettings(client_cert=str(tmp_path / "none.pem")))
    assert found.level is Level.NOTE
