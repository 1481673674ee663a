"""The databases of a run: one for each case, named after this process, made at its start and dropped at its end."""

from __future__ import annotations

import atexit
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import ConnectionHandler

KINDS = ("postgres", "mariadb", "sqlite")
SERVERS = {
    "postgres": ("ORBIT_BENCH_POSTGRES_URL", "postgres://postgres@127.0.0.1:5432/postgres"),
    "mariadb": ("ORBIT_BENCH_MARIADB_URL", "mysql://root@127.0.0.1:3306/mysql"),
}
VERSIONS = {"postgresql": "SHOW server_version", "mysql": "SELECT VERSION()", "sqlite": "SELECT sqlite_version()"}
WORKING = {
    "postgres": "SELECT pid FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
    "mariadb": "SELECT tid FROM information_schema.processlist WHERE db = %s AND id = connection_id()",
}
TICKS = os.sysconf("SC_CLK_TCK")


class Database:
    """One database and what the harness asks it; not used by what is measured."""

    def __init__(self, kind: str, name: str, url: str) -> None:
        self.kind = kind
        self.name = name
        self.url = url
        self.connection = connect(url)

    def value(self, sql: str, *parameters: Any) -> Any:
        """Return the first value that a statement finds."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetchone()[0]

    def run(self, sql: str, *parameters: Any) -> None:
        """Run a statement that finds nothing."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, parameters or None)

    def count(self, table: str, where: str = "TRUE") -> int:
        """Return how many rows of a table there are."""
        return int(self.value(f"SELECT count(*) FROM {table} WHERE {where}"))  # noqa: S608  (our own names)

    def commits(self) -> int | None:
        """Return the transactions that PostgreSQL has counted in this database; a second late."""
        if self.kind != "postgres":
            return None
        sql = "SELECT xact_commit FROM pg_stat_database WHERE datname = %s"
        self.run("SELECT pg_stat_force_next_flush()")
        return int(self.value(sql, self.name))

    def cpu_seconds(self) -> float | None:
        """Return what PostgreSQL's processes for this database, or all of MariaDB, have used on this machine.

        MariaDB gives a new connection the thread of an old one, so that its threads tell nothing of a database.
        """
        if self.kind not in WORKING:
            return None
        with self.connection.cursor() as cursor:
            cursor.execute(WORKING[self.kind], [self.name])
            found = [number for (number,) in cursor.fetchall()]
        return sum(cpu_of(process_of(number)) for number in found)


def process_of(thread: int) -> int:
    """Return the process that a thread belongs to; itself for one that is gone, and for a process."""
    try:
        status = Path(f"/proc/{thread}/status").read_text()
    except OSError:
        return thread
    return int(status.partition("Tgid:")[2].split(maxsplit=1)[0])


def cpu_of(pid: int) -> float:
    """Return the seconds of CPU that a process has used; 0 for one that is gone."""
    return sum(cpu_split(pid))


def cpu_split(pid: int) -> tuple[float, float]:
    """Return the seconds of CPU that a process has used itself, and in system calls; 0 for one that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0, 0.0
    return int(fields[11]) / TICKS, int(fields[12]) / TICKS


def connect(url: str) -> BaseDatabaseWrapper:
    """Return a connection of the harness."""
    import environ

    found: dict[str, Any] = dict(environ.Env.db_url_config(url))
    return ConnectionHandler({"default": found})["default"]


@cache
def scratch() -> Path:
    """Return the folder of this run, for logs and the like; it goes with the process."""
    folder = tempfile.TemporaryDirectory(prefix="orbit-bench-")
    atexit.register(folder.cleanup)
    return Path(folder.name)


@contextmanager
def made(kind: str, label: str, environment: dict[str, str]) -> Iterator[Database]:
    """Make a database with the tables of a case; drop it afterwards."""
    name = f"orbit_bench_{os.getpid()}_{label}"
    with _created(kind, name) as url:
        command = [sys.executable, "-m", "django", "migrate", "--verbosity", "0"]
        subprocess.run(command, env=environment | {"DATABASE_URL": url}, check=True)
        database = Database(kind, name, url)
        try:
            yield database
        finally:
            database.connection.close()


@contextmanager
def _created(kind: str, name: str) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{scratch()}/{name}.sqlite3"
        return
    _run_on_server(kind, f"CREATE DATABASE {name}")
    try:
        yield f"{server_url(kind).rpartition('/')[0]}/{name}"
    finally:
        drop(kind, name)


def drop(kind: str, name: str) -> None:
    """Drop a database whoever is connected to it."""
    _run_on_server(kind, f"DROP DATABASE IF EXISTS {name}{' WITH (FORCE)' if kind == 'postgres' else ''}")


def sweep(kind: str) -> None:
    """Drop what runs left behind that were killed."""
    if kind == "sqlite":
        return
    listing = "SELECT datname FROM pg_database" if kind == "postgres" else "SHOW DATABASES"
    for (name,) in _run_on_server(kind, listing):
        found = re.fullmatch(r"orbit_bench_(\d+)_\w+", name)
        if found and not Path(f"/proc/{found[1]}").exists():
            drop(kind, name)


def server_url(kind: str) -> str:
    """Return where a server answers."""
    variable, default = SERVERS[kind]
    return os.environ.get(variable) or default


def _run_on_server(kind: str, sql: str) -> list[Any]:
    """Run one statement outside the measured databases, over a connection that is not kept."""
    connection = connect(server_url(kind))
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall()) if cursor.description else []
    finally:
        connection.close()


def version(kind: str) -> str:
    """Return the name and version of the database; end the run with one line when it does not answer."""
    url = "sqlite://:memory:" if kind == "sqlite" else server_url(kind)
    try:
        connection = connect(url)
        with connection.cursor() as cursor:
            cursor.execute(VERSIONS[connection.vendor])
            found = str(cursor.fetchone()[0])
        connection.close()
    except Exception as error:  # noqa: BLE001  (a driver that is missing, a server that is down: told the same way)
        raise SystemExit(f"{kind} cannot be used: {error}") from None
    return f"{kind} {found.split(' ', maxsplit=1)[0]}"
