"""SQLite: one writer at a time, so writers queue here instead of inside the database, which is not fair."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, ClassVar

try:
    import fcntl
except ImportError:  # a platform without file locks: one worker process at a time is fair, more are merely slow
    fcntl = None  # type: ignore[assignment]

from orbit_django.dialects.base import Claimed, table_of
from orbit_django.dialects.guard import SavepointGuard
from orbit_django.models import IdempotencyRecord

BUSY_TIMEOUT_MS = 20_000
LONG_WAIT_SECONDS = 1.0
MOMENT_SECONDS = 1.0  # how long after its turn a thread may still look late because of it
_locks: dict[str, threading.Lock] = {}
_locks_lock = threading.Lock()
_queued: dict[int, float] = {}  # threads that wait for their turn as a writer, and until when that explains them


class _Mine(threading.local):
    """The databases whose queue this thread has passed already."""

    def __init__(self) -> None:
        self.paths: set[str] = set()


_mine = _Mine()


def is_queued(thread: int | None) -> bool:
    """Return whether a thread waits for its turn as a writer, or just did: no trouble, however long it takes."""
    return thread is not None and _queued.get(thread, 0.0) > time.monotonic()


class SqliteDialect(SavepointGuard):
    """Statements and codes of SQLite 3.37 and newer."""

    minimum = (3, 37)
    now_ms_sql = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"

    def claim(self, record: IdempotencyRecord, lease_seconds: float | None) -> Claimed:
        """Insert unless present; as first statement it also makes this transaction the one writer."""
        names, marks, values = self._claimed_columns(record, lease_seconds)
        sql = (
            f"INSERT OR IGNORE INTO {table_of(self.connection)} ({', '.join(names)}) "
            f"VALUES ({', '.join(marks)}) RETURNING id"
        )
        return self._insert_if_absent(sql, record, values)

    def lock(self, key_hash: str) -> IdempotencyRecord | None:
        """Return the row: the one writer needs no lock."""
        return IdempotencyRecord.objects.using(self.connection.alias).filter(key_hash=key_hash).first()

    def lock_free(self, keys: Collection[int]) -> list[int]:
        """Become the one writer, by an UPDATE that changes nothing; a SELECT could not be followed by a write."""
        with self.connection.cursor() as cursor:
            cursor.execute(f"UPDATE {table_of(self.connection)} SET id = id WHERE 0")
        return sorted(keys)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Queue writers: first the threads of this process, then processes, by a lock file beside the database."""
        path = str(self.connection.settings_dict["NAME"])
        if self.connection.in_atomic_block or self.is_in_memory() or path in _mine.paths:
            yield
            return
        began = time.monotonic()
        with _locks_lock:
            lock = _locks.setdefault(path, threading.Lock())
        with ExitStack() as stack:
            _queued[threading.get_ident()] = math.inf
            try:
                stack.enter_context(lock)
                file = stack.enter_context(_open_lock_file(path))
                if file is not None and fcntl is not None:
                    fcntl.flock(file, fcntl.LOCK_EX)
            finally:
                _queued[threading.get_ident()] = time.monotonic() + MOMENT_SECONDS
            self.connection.orbit_waited = time.monotonic() - began  # type: ignore[attr-defined]  # ours alone
            _mine.paths.add(path)
            try:
                yield
            finally:
                _mine.paths.discard(path)

    def is_in_transaction(self, *, may_ask: bool) -> bool:
        """Ask the driver, which is the database."""
        return bool(self.connection.connection.in_transaction)

    def forget(self) -> None:
        """Remove the lock file; the next writer makes it anew."""
        if not self.is_in_memory():
            _lock_path(str(self.connection.settings_dict["NAME"])).unlink(missing_ok=True)

    def has_waited(self) -> bool:
        """Return whether a long transaction kept all writers waiting: others may not have renewed what is theirs."""
        return float(getattr(self.connection, "orbit_waited", 0.0)) > LONG_WAIT_SECONDS

    def prepare(self) -> None:
        """Let readers and the writer work side by side, and wait for other programs instead of failing."""
        with self.connection.cursor() as cursor:
            cursor.execute("PRAGMA journal_mode=WAL")
            cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")

    def traits(self) -> list[str]:
        """Return what is worth knowing; a worker switches to write-ahead logging and waits by itself."""
        journal, wait = self._value("PRAGMA journal_mode"), self._value("PRAGMA busy_timeout")
        return [*super().traits()[:1], f"journal {journal}", f"busy timeout {wait} ms", "one writer at a time"]

    def is_in_memory(self) -> bool:
        """Return whether the database lives in one connection only."""
        name = str(self.connection.settings_dict["NAME"])
        return name == "" or ":memory:" in name or "mode=memory" in name

    transient_words: ClassVar[tuple[str, ...]] = ("locked", "busy")

    def is_transient(self, error: BaseException) -> bool:
        """Return whether another writer was in the way."""
        return any(word in str(error) for word in self.transient_words) and super().is_connection_lost(error)

    def is_connection_lost(self, error: BaseException) -> bool:
        """Return False: a file is not lost on the way."""
        return False

    def code_of(self, error: BaseException) -> Any:
        """Return the extended error code's name."""
        return getattr(error.__cause__, "sqlite_errorname", None)

    def _is_lost(self, code: Any) -> bool:
        return True


def _lock_path(path: str) -> Path:
    return Path(f"{path}.orbit-lock")


@contextmanager
def _open_lock_file(path: str) -> Iterator[IO[bytes] | None]:
    try:
        file = _lock_path(path).open("ab")
    except OSError:  # a folder that must not be written: the database's own lock remains
        yield None
        return
    with file:
        yield file
