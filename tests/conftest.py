"""House-keeping that every test gets: separate databases, and no folder left behind."""

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django.plugin import DjangoDbBlocker

from orbit_django.redaction import MET, TokenMemory
from tests import databases

TERMINATE = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Before the test databases are dropped, end what a crashed process or a stray thread left connected."""
    from django.db import connections

    yield
    for connection in connections.all():
        is_ours = str(connection.settings_dict["NAME"]).startswith(databases.checkout())
        if connection.vendor == "postgresql" and is_ours:
            with django_db_blocker.unblock(), connection._nodb_cursor() as cursor:
                cursor.execute(TERMINATE, [connection.settings_dict["NAME"]])


@pytest.fixture(autouse=True)
def tokens_met(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no token of another test be taken out of this one's texts: some are words."""
    for name, value in vars(TokenMemory()).items():
        monkeypatch.setattr(MET, name, value)


@pytest.fixture
def child_environment(transactional_db: None) -> dict[str, str]:
    """Return the environment in which a process works on this test's own databases."""
    from django.db import connections

    names = {f"ORBIT_TEST_DATABASE_{c.alias.upper()}": str(c.settings_dict["NAME"]) for c in connections.all()}
    python_path = os.pathsep.join(filter(None, [str(databases.ROOT), os.environ.get("PYTHONPATH")]))
    return os.environ | names | {"DJANGO_SETTINGS_MODULE": "tests.settings", "PYTHONPATH": python_path}


def pytest_unconfigure(config: Any) -> None:
    """Remove the temporary folder when the run ends; workers of a parallel run leave that to their parent."""
    if not hasattr(config, "workerinput"):
        shutil.rmtree(databases.folder(), ignore_errors=True)
