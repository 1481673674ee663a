"""The suite's own footing: the chosen database is the one in use, and separate from everybody else's."""

import os
import subprocess
import sys

import pytest
from django.db import connection

from tests import databases
from tests.testapp.models import Charge

VENDORS = {"sqlite": "sqlite", "postgres": "postgresql", "mariadb": "mysql"}


@pytest.mark.databases
@pytest.mark.django_db
def test_the_chosen_database_is_in_use_under_a_name_of_this_run() -> None:
    Charge.objects.create(key="first", amount=2**40, nonce="ñ✓")

    assert connection.vendor == VENDORS[databases.chosen()]
    assert databases.run() in str(connection.settings_dict["NAME"])
    assert Charge.objects.get(key="first").nonce == "ñ✓"


@pytest.mark.databases
def test_a_child_process_sees_committed_rows(child_environment: dict[str, str]) -> None:
    Charge.objects.create(key="seen", amount=7)

    command = "import django; django.setup(); from tests.testapp.models import Charge; print(Charge.objects.get().key)"
    arguments = [sys.executable, "-c", command]
    output = subprocess.run(arguments, env=child_environment, capture_output=True, text=True, check=False)

    assert output.stdout == "seen\n", output.stderr


@pytest.mark.databases
@pytest.mark.django_db(databases=["default", "other"])
def test_the_second_alias_is_another_database() -> None:
    Charge.objects.using("other").create(key="there")

    assert not Charge.objects.filter(key="there").exists()


def test_leftovers_are_those_of_dead_processes_of_this_checkout() -> None:
    alive, dead = os.getpid(), 2**22 + 1

    assert databases._is_abandoned(f"{databases.checkout()}_{dead}")
    assert databases._is_abandoned(f"{databases.checkout()}_{dead}_other_gw0")
    assert not databases._is_abandoned(f"{databases.checkout()}_{alive}")
    assert not databases._is_abandoned(f"test_orbit_00000000_{dead}")


@pytest.mark.django_db
def test_a_database_that_does_not_answer_is_told_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORBIT_TEST_POSTGRES_URL", "postgres://postgres@127.0.0.1:1/postgres")

    assert "127.0.0.1" in databases.trouble("postgres")
    assert databases.trouble("sqlite") == ""
