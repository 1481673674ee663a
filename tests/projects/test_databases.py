"""What the connections of a project can be told."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections

from tests import databases
from tests.projects.project import Project


@pytest.fixture
def database(django_db_setup, django_db_blocker) -> Iterator[dict[str, Any]]:
    """Return the settings of an empty database on the server that is tested."""
    connection = connections["default"]
    name = f"{databases.run()}_project_{os.getpid()}"
    with django_db_blocker.unblock(), connection._nodb_cursor() as cursor:
        quoted = connection.ops.quote_name(name)
        cursor.execute(f"DROP DATABASE IF EXISTS {quoted}")
        cursor.execute(f"CREATE DATABASE {quoted}")
        known = {key: connection.settings_dict[key] for key in ("ENGINE", "HOST", "PORT", "USER", "PASSWORD")}
        yield known | {"NAME": name, "OPTIONS": dict(databases.OPTIONS[databases.chosen()])}
        cursor.execute(f"DROP DATABASE {quoted}")


@pytest.fixture
def project(tmp_path, request) -> Project:
    on_server = databases.chosen() != "sqlite"
    return Project(tmp_path, request.getfixturevalue("database") if on_server else None)


POSTGRES = {
    "a pool, in another time zone": 'TIME_ZONE = "Europe/Paris"\nOPTIONS["pool"] = {"max_size": 16}\n',
    "parameters bound by the server, no cursors there, serializable": """
from psycopg import IsolationLevel

OPTIONS |= {"server_side_binding": True, "isolation_level": IsolationLevel.SERIALIZABLE}
DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"] = True
""",
}
MARIADB = {  # no test may load the time zones into the server, so none of it works by them
    "no time zones, a strict mode": """
TIME_ZONE = "Europe/Paris"
OPTIONS["init_command"] = "SET sql_mode='STRICT_ALL_TABLES,ONLY_FULL_GROUP_BY,ANSI_QUOTES'"
""",
    "serializable": 'OPTIONS["isolation_level"] = "serializable"\n',
}
SQLITE = {
    "immediate transactions, a path": """
OPTIONS["transaction_mode"] = "IMMEDIATE"
DATABASES["default"]["NAME"] = Path(__file__).parent / "other.sqlite3"
""",
}
TRAITS = {"sqlite": SQLITE, "postgres": POSTGRES, "mariadb": MARIADB}[databases.chosen()]


@pytest.mark.databases
@pytest.mark.parametrize("trait", TRAITS.values(), ids=TRAITS)
def test_everything_works_with(project, trait: str) -> None:
    project.with_admin().settings('OPTIONS = DATABASES["default"].setdefault("OPTIONS", {})\n', trait)
    project.play("check", "migrate", "work", "admin", "prune")


@pytest.mark.databases
@pytest.mark.skipif(databases.chosen() != "mariadb", reason="only there a connection may lack characters")
def test_a_connection_that_lacks_characters_is_told_and_stops_a_worker(project) -> None:
    project.settings('DATABASES["default"]["OPTIONS"]["charset"] = "utf8mb3"\n')
    project.manage("migrate", "-v0")
    told = "connections speak utf8mb3, which lacks characters"
    assert told in " ".join(project.manage("check", "--database", "default").split())
    assert told in project.manage("orbit_worker", "--check", code=2)
