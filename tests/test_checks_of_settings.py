"""A setting that nobody reads, and a token that nobody can read."""

import sys

import pytest
from django.core.management import call_command

from orbit_django import checks


@pytest.mark.parametrize(
    ("name", "value", "is_told"),
    [
        ("ORBT", {"SERVER": "http://a"}, True),
        ("ORBITS", {"CONCURRENCY": 2}, True),
        ("ORBIT_DJANGO", {"TOKEN": "x"}, True),
        ("ORBIT_OTHER", {"MINE": 1}, False),
        ("ORBITS", ["SERVER"], False),
        ("CACHES", {"SERVER": "x"}, False),
    ],
)
def test_a_setting_named_like_ours_is_told_where_ours_is_missing(settings, name, value, is_told) -> None:
    settings.ORBIT = {}
    del settings.ORBIT
    setattr(settings, name, value)
    said = f"settings.{name} is not read, and there is no settings.ORBIT: every setting has its default."
    assert [(each.id, each.msg) for each in checks.check_name()] == [("orbit_django.W009", said)] * is_told
    settings.ORBIT = {}
    assert checks.check_name() == []


@pytest.mark.promise("W8")
def test_a_token_file_that_is_not_there_is_told_by_check_alone(settings, monkeypatch, capsys) -> None:
    settings.ORBIT = {"WORKER_TOKEN_FILE": "/nowhere/token"}
    assert checks.check_credential() == []
    monkeypatch.setattr(sys, "argv", ["manage.py", "check"])
    call_command("check", "--tag", checks.TAG)
    said = "(orbit_django.W010) WORKER_TOKEN_FILE: /nowhere/token cannot be read: No such file or directory"
    assert said in capsys.readouterr().err
    settings.ORBIT = {"WORKER_TOKEN": "t"}
    assert checks.check_credential() == []
