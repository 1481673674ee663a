"""PostgreSQL: an advisory lock makes the claim never wait, the row's xmin tells whether the transaction is the same."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar, TypeVar

from django.db import models
from django.db.models.expressions import RawSQL
from django.db.utils import DatabaseError, OperationalError

from orbit_django.dialects.base import Claimed, Dialect, Finish, table_of
from orbit_django.dialects.prepared import UNPREPARED, Prepared
from orbit_django.models import IdempotencyRecord, OutboxMessage

T = TypeVar("T")

SAME_TRANSACTION = "xmin = pg_current_xact_id()::xid"  # the open one wrote the row
POOL_SIZE = 4  # of psycopg's pool, when nothing is said
OPEN = (1, 2, 3)  # states of a connection, as both drivers count them: active, in a transaction, in a broken one
LOCK_SEED = 0x0B17  # keeps our advisory locks apart from other uses of the same texts


class PostgresqlDialect(Dialect):
    """Statements and codes of PostgreSQL 14 and newer."""

    minimum = (14,)
    now_ms_sql = "(extract(epoch from statement_timestamp()) * 1000)::bigint"  # stable, so that it bounds an index
    transient_codes: ClassVar[frozenset[Any]] = frozenset({"40001", "40P01", "55P03", "57014", UNPREPARED})

    def claim(self, record: IdempotencyRecord, lease_seconds: float | None) -> Claimed:
        """Insert under an advisory lock that is only tried; no row means present or busy, ``lock`` tells which.

        An owner that died has lost the lock with its transaction. Only inserts of this very form never wait for
        each other, so no other statement may insert records.
        """
        names, marks, values = self._claimed_columns(record, lease_seconds)
        kept = self._kept() if lease_seconds is None else None
        sql = (
            f"INSERT INTO {table_of(self.connection)} ({', '.join(names)}) SELECT {', '.join(marks)} "
            "FROM (SELECT %s::varchar AS key OFFSET 0) AS wanted "
            f"WHERE pg_try_advisory_xact_lock(hashtextextended(wanted.key, {LOCK_SEED})) "
            f"ON CONFLICT DO NOTHING RETURNING id{', ' + self._next_key() if kept else ''}"
        )
        row = self._hot_row(sql, [*values, record.key_hash])
        if row is None:
            return Claimed.PRESENT
        record.pk, *spare = row
        if kept:
            (kept.spare_key,) = spare
        return Claimed.NEW

    def lock(self, key_hash: str) -> IdempotencyRecord | None:
        """Lock the row, skipping one that is locked."""
        rows = IdempotencyRecord.objects.using(self.connection.alias).select_for_update(skip_locked=True)
        return rows.filter(key_hash=key_hash).first()

    def set_guard(self) -> None:
        """Nothing to set: the row that this transaction wrote carries its number."""

    def check_guard(self) -> models.Q | None:
        """Demand that the row was written by the transaction that finishes it; inside a savepoint there is no way."""
        if self.connection.savepoint_ids:
            return None
        same = RawSQL(f"({SAME_TRANSACTION})", [], output_field=models.BooleanField())
        return models.Q(same)

    def mark(self) -> str:
        """Take the number of the transaction for its mark: the row of the claim was written by another one."""
        return str(self._value("SELECT pg_current_xact_id()::text"))

    def is_in_transaction(self, *, may_ask: bool) -> bool:
        """Believe the driver, which is told with every answer."""
        return int(self.connection.connection.info.transaction_status) in OPEN

    def can_commit_along(self) -> bool:
        """Return whether a finish now may go in one message with the COMMIT: a key for the report is there."""
        wrapper, kept = self.connection, self._kept()
        is_alone = len(wrapper.atomic_blocks) == 1 and wrapper.commit_on_exit and not wrapper.savepoint_ids
        return is_alone and kept is not None and kept.spare_key is not None

    def finish_and_report(self, finish: Finish) -> bool | None:
        """Let the INSERT read the key that the UPDATE gives back: no row, no message.

        With the COMMIT along nothing but its own answer comes back, so the message brings a key of its own, which is
        missing when there is no row: the server refuses the INSERT and with it the COMMIT.
        """
        record, message = finish.record, finish.message
        message.record_id = record.pk
        names, marks, values = self._columns(message)
        sets, given = self._changes(record, finish.changes)
        same = f" AND {SAME_TRANSACTION}" if finish.is_guarded and not self.connection.savepoint_ids else ""
        finished = (
            f"WITH finished AS (UPDATE {table_of(self.connection)} SET {', '.join(sets)} "
            f"WHERE id = %s AND owner = %s AND status = 'running'{same} RETURNING id) "
            f"INSERT INTO {self.connection.ops.quote_name(message._meta.db_table)} "
        )
        given += [record.pk, record.owner]
        if finish.is_last and self.can_commit_along():
            brought = f"(id, {', '.join(names)}) SELECT (SELECT %s::bigint FROM finished), {', '.join(marks)}"
            return self._finish_and_commit(message, finished + brought, given, values)
        found = f"({', '.join(names)}) SELECT {', '.join(marks)} FROM finished RETURNING id"
        row = self._hot_row(finished + found, [*given, *values])
        if row is not None:
            self._is_written(message, row[0])
        return row is not None

    def is_definite(self, error: BaseException) -> bool:
        """Believe whatever a server says that is still there: a trigger may refuse a COMMIT with any code."""
        return super().is_definite(error) or self.has_ended()

    def _finish_and_commit(self, message: OutboxMessage, sql: str, given: list[Any], values: list[Any]) -> bool:
        """Commit along with the last statement; Django's own COMMIT then finds nothing open and says nothing."""
        kept: Prepared = self.connection.connection.orbit_prepared
        is_committed = self._through(kept.run_and_commit, sql, [*given, kept.spare_key, *values])
        if is_committed:
            self._is_written(message, kept.take_spare_key())
        return is_committed

    def has_ended(self) -> bool:
        """Look at what the driver was told last."""
        kept = self._kept()
        return kept is not None and kept.has_ended()

    def prepare(self) -> None:
        """Let the server notice within half a minute that this machine has vanished, and keep what every task says."""
        with self.connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_backend_pid(), set_config('tcp_keepalives_idle', '15', false),"
                " set_config('tcp_keepalives_interval', '5', false), set_config('tcp_keepalives_count', '3', false)"
            )
            self.keep_statements(cursor.fetchone()[0])

    def keep_statements(self, backend_pid: int) -> None:
        """Have the server keep the statements of every task, if this is a connection to the server itself.

        A pooler that hands the server's connections around gives a client a process number of its own making. A
        project that has decided about ``prepare_threshold`` is left with what it decided.
        """
        raw, is_decided = self.connection.connection, "prepare_threshold" in self.connection.settings_dict["OPTIONS"]
        is_fit = hasattr(raw, "prepare_threshold") and raw.info.encoding == "utf-8"  # psycopg2 has no such way
        is_known = hasattr(raw, "orbit_prepared")  # it comes out of a pool of the process
        if is_fit and not is_known and not is_decided and raw.info.backend_pid == backend_pid:
            raw.orbit_prepared = Prepared(self.connection.Database, raw)  # type: ignore[attr-defined]

    def _kept(self) -> Prepared | None:
        """Return the statements that the server keeps, where no log and no wrapper of the project wants to see them.

        None, too, from the moment that somebody removed them.
        """
        wrapper = self.connection
        if wrapper.execute_wrappers or wrapper.queries_logged:
            return None
        kept: Prepared | None = getattr(wrapper.connection, "orbit_prepared", None)
        return kept if kept is not None and kept.is_understood() else None

    def _hot_row(self, sql: str, values: list[Any]) -> tuple[Any, ...] | None:
        """Run a kept statement, or say it in full."""
        kept = self._kept()
        if kept is None:
            return super()._hot_row(sql, values)
        return self._through(kept.run, sql, values)

    def _through(self, run: Callable[[str, list[Any]], T], sql: str, values: list[Any]) -> T:
        """Look as Django does whether a statement may run; raise what comes of it in Django's words."""
        wrapper = self.connection
        wrapper.validate_thread_sharing()
        wrapper.validate_no_broken_transaction()
        try:
            with wrapper.wrap_database_errors:
                return run(sql, values)
        except DatabaseError as error:
            if self.code_of(error) != UNPREPARED:
                raise
            wrapper.connection.orbit_prepared = None
            raise OperationalError(*error.args) from error.__cause__  # it passes: the same again will do

    def _has_mark(self, mark: str) -> bool:
        """Compare the numbers; outside of a transaction each statement has a new one."""
        return self.mark() == mark

    def _adapted(self, value: Any, field: models.Field[Any, Any]) -> Any:
        """Spare the fields a look at a moment: the driver takes any, and reads a naive one as Django has told it to."""
        return value if isinstance(value, datetime) else super()._adapted(value, field)

    def _next_key(self) -> str:
        """Return an expression: a key for a message, where this role may take one; an INSERT alone asks for less."""
        table = self.connection.ops.quote_name(OutboxMessage._meta.db_table).replace("'", "''")
        return (
            f"(SELECT nextval(keys) FROM pg_get_serial_sequence('{table}', 'id') AS keys "
            "WHERE has_sequence_privilege(keys, 'USAGE'))"
        )

    def max_connections(self) -> int | None:
        """Return how many connections are left to others than superusers."""
        return int(self._value("SHOW max_connections")) - int(self._value("SHOW superuser_reserved_connections"))

    def pool_size(self) -> int | None:
        """Return the most that the pool holds: without ``max_size`` its fixed size, which is 4 when it has none."""
        pool = self.connection.settings_dict.get("OPTIONS", {}).get("pool")
        if not pool:
            return None
        given = {} if pool is True else pool
        return int(given.get("max_size") or given.get("min_size", POOL_SIZE))

    def _isolation(self) -> str:
        return str(self._value("SHOW transaction_isolation"))

    def code_of(self, error: BaseException) -> Any:
        """Return the SQLSTATE; None for an error of the connection itself."""
        return getattr(error.__cause__, "sqlstate", None)

    def _is_lost(self, code: Any) -> bool:
        return (
            code is None
            or code.startswith("08")
            or code in {"57P01", "57P02", "57P03", "53300", "57P05", "25P03", "25P04", "40003"}
        )

    def _mark(self, field: models.Field[Any, Any]) -> str:
        return f"%s::{field.db_type(self.connection)}"
