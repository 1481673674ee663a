"""The contract of a dialect: the few statements and error codes that differ between databases.

A dialect never decides what happens to a key; it says whether the database let us have it, and what an error of
the database means.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.expressions import RawSQL
from django.db.utils import DatabaseError, InterfaceError, InternalError, OperationalError

from orbit_django.dialects.columns import Columns
from orbit_django.models import IdempotencyRecord, OutboxMessage

UNHINDERED = nullcontext()


class Claimed(Enum):
    """What became of the INSERT that claims a key."""

    NEW = "new"  # inserted: the key is this transaction's
    PRESENT = "present"  # not inserted: there is a row, or somebody else's transaction may be making one
    BUSY = "busy"  # somebody else's open transaction owns the key


@lru_cache
def _moment(now_sql: str, plus_ms: int) -> RawSQL:
    return RawSQL(f"({now_sql} + {plus_ms})", [], output_field=models.BigIntegerField())


class Finish(NamedTuple):
    """How a record is to end, and the report that goes with it."""

    record: IdempotencyRecord
    changes: dict[str, Any]
    message: OutboxMessage
    is_guarded: bool  # the claim lives and dies with the open transaction
    is_last: bool  # nothing but the COMMIT follows, which may be done along


class Dialect(Columns, ABC):
    """One database's way, bound to one connection."""

    now_ms_sql: ClassVar[str]  # milliseconds since the epoch by the database's clock, at this moment
    minimum: ClassVar[tuple[int, ...]]  # the oldest version that will do
    guard_name = "orbit_guard"

    def now_ms(self, plus_seconds: float = 0) -> RawSQL:
        """Return an expression: the database's clock in milliseconds, plus some seconds."""
        return _moment(self.now_ms_sql, int(plus_seconds * 1000))

    def among(self, keys: Iterable[int]) -> models.Q:
        """Return a condition: the row has one of these keys; a driver would look at each of them anew.

        Only the list is raw: where booleans are numbers, Django compares a raw condition with 1, and no index helps.
        """
        return models.Q(pk__in=RawSQL(", ".join(map(str, keys)), []))

    def read_now_ms(self) -> int:
        """Return the database's clock in milliseconds."""
        with self.connection.cursor() as cursor:
            cursor.execute(f"SELECT {self.now_ms_sql}")
            return int(cursor.fetchone()[0])

    @abstractmethod
    def claim(self, record: IdempotencyRecord, lease_seconds: float | None) -> Claimed:
        """Insert the record unless its key exists; never wait for another transaction.

        To be the first statement of its transaction. Sets ``record.pk`` when it was inserted. With
        ``lease_seconds`` the claim ends that long from now by the database's clock.
        """

    def claim_guarded(self, record: IdempotencyRecord) -> Claimed:
        """Claim for as long as the open transaction lives, and set the guard of a claim that was made."""
        claimed = self.claim(record, None)
        if claimed is Claimed.NEW:
            self.set_guard()
        return claimed

    @abstractmethod
    def lock(self, key_hash: str) -> IdempotencyRecord | None:
        """Return the row of a key, locked; None when another transaction has it or it is gone. Never waits."""

    def lock_free(self, keys: Collection[int]) -> list[int]:
        """Lock those of these records that no other transaction has; return their keys. Never waits.

        To be the first statement of its transaction.
        """
        rows = IdempotencyRecord.objects.using(self.connection.alias).filter(pk__in=sorted(keys)).order_by("pk")
        return list(rows.select_for_update(skip_locked=True).values_list("pk", flat=True))

    @abstractmethod
    def set_guard(self) -> None:
        """Mark the open transaction, so that ``check_guard`` can tell whether it is still the same one."""

    @abstractmethod
    def check_guard(self) -> models.Q | None:
        """Raise DatabaseError when the marked transaction has ended; return what the finish must demand as well."""

    def mark(self) -> str:
        """Mark the open transaction; return what ``is_marked`` has to be shown."""
        self.set_guard()
        return ""

    def is_marked(self, mark: str) -> bool:
        """Return whether the open transaction is the one that was marked; asked once."""
        try:
            return self._has_mark(mark)
        except DatabaseError as error:
            if self.is_connection_lost(error):
                raise
            return False

    def is_in_transaction(self, *, may_ask: bool) -> bool:
        """Return whether a transaction is open, whoever opened it; what only the server knows, if it may be asked."""
        return False

    def can_commit_along(self) -> bool:
        """Return whether a finish that is the last of its transaction would bring the COMMIT along."""
        return False

    def has_ended(self) -> bool:
        """Return whether it is known without asking that the server has no transaction open: its COMMIT was refused."""
        return False

    def finish_and_report(self, finish: Finish) -> bool | None:
        """Change a record that runs under its owner, and insert the report, in one go; None where it takes several.

        Sets the key of the message. Returns False when the owner is another by now: then the caller has to roll back.
        """
        return None

    def writing(self) -> AbstractContextManager[None]:
        """Hold whatever serialises writers of this database while a transaction that writes is open."""
        return UNHINDERED

    def forget(self) -> None:
        """Remove what is kept beside the database, which nobody uses at this moment."""

    def has_waited(self) -> bool:
        """Return whether this writer waited so long that what looks expired may only have been kept from renewal."""
        return False

    def prepare(self) -> None:
        """Set up a fresh connection of a worker."""

    def traits(self) -> list[str]:
        """Return what is worth knowing of this database: product and version, isolation, how rows are locked."""
        version = ".".join(map(str, self.connection.get_database_version()))
        can_skip = self.connection.features.has_select_for_update_skip_locked
        skipping = "SKIP LOCKED" if can_skip else "no SKIP LOCKED"
        return [f"{self.connection.display_name} {version}", f"isolation {self._isolation()}", skipping]

    def max_connections(self) -> int | None:
        """Return how many connections the server allows; None where there is no server."""
        return None

    def pool_size(self) -> int | None:
        """Return how many connections this process can have at a time from Django's own pool; None without one."""
        return None

    def table_faults(self) -> Iterable[tuple[str, str]]:
        """Yield what keeps the tables from keeping what they are given, with what to do about it."""
        return ()

    def _isolation(self) -> str:
        return "serializable"

    def _value(self, sql: str) -> Any:
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchone()[0]

    def is_in_memory(self) -> bool:
        """Return whether every thread would see a database of its own."""
        return False

    def is_transient(self, error: BaseException) -> bool:
        """Return whether the database undid the work for a reason that passes: a deadlock, a lock, a conflict."""
        return isinstance(error, OperationalError) and self.code_of(error) in self.transient_codes

    def is_too_large(self, error: BaseException) -> bool:
        """Return whether the database refused a statement for its size alone."""
        return False

    def is_connection_lost(self, error: BaseException) -> bool:
        """Return whether the database cannot be reached, or was lost on the way."""
        code = self.code_of(error)
        if isinstance(error, InternalError) and code is None:
            return False
        return isinstance(error, OperationalError | InterfaceError | InternalError) and self._is_lost(code)

    def is_definite(self, error: BaseException) -> bool:
        """Return whether an error out of COMMIT proves that nothing was committed."""
        return isinstance(error, DatabaseError) and not self.is_connection_lost(error)

    transient_codes: ClassVar[frozenset[Any]] = frozenset()

    @abstractmethod
    def code_of(self, error: BaseException) -> Any:
        """Return the database's own code of an error; None when it has none."""

    @abstractmethod
    def _is_lost(self, code: Any) -> bool: ...

    def _has_mark(self, mark: str) -> bool:
        self.check_guard()
        return True

    def _claimed_columns(
        self, record: IdempotencyRecord, lease_seconds: float | None
    ) -> tuple[list[str], list[str], list[Any]]:
        """Return column names, placeholders and values of an INSERT of the record, whose lease begins now."""
        record.lease_ms = None if lease_seconds is None else self.now_ms(lease_seconds)
        return self._columns(record)

    def _insert_if_absent(self, sql: str, record: IdempotencyRecord, values: list[Any]) -> Claimed:
        """Run an INSERT that gives back the new key or nothing."""
        row = self._hot_row(sql, values)
        if row is None:
            return Claimed.PRESENT
        record.pk = row[0]
        return Claimed.NEW

    def _is_written(self, message: OutboxMessage, key: int) -> None:
        """Note the key that the database gave a message which went in past Django."""
        message.pk = key
        message._state.db, message._state.adding = self.connection.alias, False

    def _hot_row(self, sql: str, values: list[Any]) -> tuple[Any, ...] | None:
        """Run a statement that every task takes, inside its transaction; return the row that it gives back."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, values)
            row: tuple[Any, ...] | None = cursor.fetchone()
        return row


def table_of(connection: BaseDatabaseWrapper) -> str:
    """Return the quoted name of the records' table."""
    return connection.ops.quote_name(IdempotencyRecord._meta.db_table)
