"""Where the runtime keeps its history, so that it survives the process.

The events are the whole truth: state is built by reading them again. A store only appends and reads; it is called by
one thread at a time.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from orbit_django.exceptions import ConfigurationError

_SCHEMA = """
CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY,
    execution_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    data TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS events_of_execution ON events (execution_id, id);
"""
_COLUMNS = ["id", "execution_id", "kind", "at_ms", "data"]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to an execution."""

    execution_id: str
    kind: str  # WorkflowStarted, StepScheduled, StepDispatched, …
    at_ms: int  # Unix epoch, milliseconds
    data: dict[str, Any]


class Store(Protocol):
    """What the runtime asks of a store."""

    def append(self, events: Iterable[Event]) -> None:
        """Keep the events, all or none."""
        ...

    def events(self, execution_id: str | None = None) -> Iterator[Event]:
        """Yield the events of one execution, or of all, in the order in which they were appended."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


class MemoryStore:
    """A store that lasts as long as its object."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._by_execution: dict[str, list[Event]] = {}

    def append(self, events: Iterable[Event]) -> None:
        """Keep the events."""
        for event in events:
            self._events.append(event)
            self._by_execution.setdefault(event.execution_id, []).append(event)

    def events(self, execution_id: str | None = None) -> Iterator[Event]:
        """Yield events in order."""
        return iter(self._events if execution_id is None else self._by_execution.get(execution_id, ()))

    def close(self) -> None:
        """Do nothing: there is no file."""


class SqliteStore:
    """A store in one SQLite file: one commit for each call that changed something, safe against ``kill -9``."""

    def __init__(self, path: str | Path) -> None:
        self._connection = _open(path)

    def append(self, events: Iterable[Event]) -> None:
        """Keep the events in one transaction."""
        rows = [(event.execution_id, event.kind, event.at_ms, json.dumps(event.data)) for event in events]
        with self._connection:
            self._connection.executemany("INSERT INTO events (execution_id, kind, at_ms, data) VALUES (?,?,?,?)", rows)

    def events(self, execution_id: str | None = None) -> Iterator[Event]:
        """Yield events in order."""
        where, values = ("", ()) if execution_id is None else ("WHERE execution_id = ?", (execution_id,))
        query = f"SELECT execution_id, kind, at_ms, data FROM events {where} ORDER BY id"  # noqa: S608 (two constants)
        for row in self._connection.execute(query, values):
            yield Event(row[0], row[1], row[2], json.loads(row[3]))

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def _open(path: str | Path) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(path, timeout=0.5, check_same_thread=False)
        try:
            _check_owner(connection, path)
            # Two runtimes on one file would each believe that every attempt is theirs.
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.executescript(_SCHEMA)
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
            text = f"another orbit_runtime already uses {path}: stop it, or give --db and --port"
            raise ConfigurationError(text) from None
        raise ConfigurationError(f"{path}: cannot be used as the runtime's database: {error}") from None
    return connection


def _check_owner(connection: sqlite3.Connection, path: str | Path) -> None:
    """Refuse a file in which others keep their tables, before anything in it is changed."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    columns = [row[1] for row in connection.execute("PRAGMA table_info(events)")]
    if tables and (tables != {"events"} or columns != _COLUMNS):
        text = f"{path} is a database of something else, with the table {min(tables)}; give --db another file"
        raise ConfigurationError(text)
