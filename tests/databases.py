"""The databases that the suite runs on: how each one is reached, and whether it answers.

A run keeps to databases named after this checkout and its own process, so that two runs never meet.
"""

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import environ

NAMES = ("sqlite", "postgres", "mariadb")
ROOT = Path(__file__).resolve().parent.parent
URLS = {
    "postgres": ("ORBIT_TEST_POSTGRES_URL", "postgres://postgres@127.0.0.1:5432/postgres"),
    "mariadb": ("ORBIT_TEST_MARIADB_URL", "mysql://root@127.0.0.1:3306/mysql"),
}
LISTING = {"postgres": "SELECT datname FROM pg_database", "mariadb": "SHOW DATABASES"}
OPTIONS: dict[str, dict[str, Any]] = {
    "postgres": {"connect_timeout": 5},
    "mariadb": {"connect_timeout": 5, "charset": "utf8mb4"},
}


def checkout() -> str:
    """Return what every database of this checkout has in its name."""
    return "test_orbit_" + hashlib.sha256(str(ROOT).encode()).hexdigest()[:8]


def run() -> str:
    """Return the name of this run; processes started by it inherit the name from the environment."""
    return os.environ.setdefault("ORBIT_TEST_RUN", f"{checkout()}_{os.getpid()}")


def folder() -> Path:
    """Return the temporary folder of this run."""
    return Path(tempfile.gettempdir()) / run()


def chosen() -> str:
    """Return the database that this process tests, by `ORBIT_TEST_DB`."""
    name = os.environ.get("ORBIT_TEST_DB") or "sqlite"
    if name not in NAMES:
        raise SystemExit(f"ORBIT_TEST_DB is {name!r}, expected one of {', '.join(NAMES)}")
    return name


def configuration(name: str, alias: str = "default") -> dict[str, Any]:
    """Return Django's settings of one database.

    `ORBIT_TEST_DATABASE_<ALIAS>` names an existing database: a process that a test starts works on the test's own.
    """
    database = _file(alias) if name == "sqlite" else _server(name, alias)
    if existing := os.environ.get(f"ORBIT_TEST_DATABASE_{alias.upper()}"):
        database["NAME"] = existing
    return database | {"CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True}


def _file(alias: str) -> dict[str, Any]:
    """A file, since threads cannot share a database that lives in the memory of one connection."""
    folder().mkdir(exist_ok=True)
    path = folder() / alias
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": f"{path}.sqlite3",
        "TEST": {"NAME": f"{path}_test.sqlite3"},
    }


def _server(name: str, alias: str) -> dict[str, Any]:
    variable, default = URLS[name]
    database: dict[str, Any] = dict(environ.Env.db_url_config(os.environ.get(variable) or default))
    test_name = run() if alias == "default" else f"{run()}_{alias}"
    return database | {"TEST": {"NAME": test_name}, "OPTIONS": OPTIONS[name] | database.get("OPTIONS", {})}


def trouble(name: str) -> str:
    """Return why a database cannot be tested, or an empty text when it answers."""
    from django.core.exceptions import ImproperlyConfigured
    from django.db.utils import ConnectionHandler, Error

    try:
        connection = ConnectionHandler({"default": configuration(name)})["default"]
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        connection.close()
    except (ImproperlyConfigured, Error) as error:
        return " ".join(str(error).split("\n")[0].split())
    return ""


def sweep(name: str) -> None:
    """Drop what earlier runs of this checkout left behind when they were killed."""
    from django.db.utils import ConnectionHandler, Error

    if name == "sqlite":
        _sweep_folders()
        return
    connection = ConnectionHandler({"default": configuration(name)})["default"]
    with connection.cursor() as cursor:
        cursor.execute(LISTING[name])
        for (database,) in cursor.fetchall():
            if _is_abandoned(database):
                with contextlib.suppress(Error):
                    cursor.execute(f"DROP DATABASE {connection.ops.quote_name(database)}")
    connection.close()


def _sweep_folders() -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{checkout()}_*"):
        if _is_abandoned(path.name):
            shutil.rmtree(path, ignore_errors=True)


def _is_abandoned(name: str) -> bool:
    """Tell whether a name belongs to a run of this checkout whose process is gone."""
    found = re.fullmatch(rf"{checkout()}_(\d+)(_\w+)?", name)
    return found is not None and not _is_running(int(found[1]))


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
