"""PostgreSQL: an advisory lock makes the claim never wait, the row's xmin tells whether the transaction is the same."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.db.models.expressions import RawSQL
from django.db.utils import DatabaseError, OperationalError

from orbit_django.dialects.base import Claimed, Dialect, table_of
from orbit_django.dialects.prepared import UNPREPARED, Prepared
from orbit_django.models import IdempotencyRecord, OutboxMessage

SAME_TRANSACTION = "xmin = pg_current_xact_id()::xid"  # the open one wrote the row
POOL_SIZE = 4  # of psycopg's pool, when nothing is said
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
        sql = (
            f"INSERT INTO {table_of(self.connection)} ({', '.join(names)}) SELECT {', '.join(marks)} "
            "FROM (SELECT %s::varchar AS key OFFSET 0) AS wanted "
            f"WHERE pg_try_advisory_xact_lock(hashtextextended(wanted.key, {LOCK_SEED})) "
            "ON CONFLICT DO NOTHING RETURNING id"
        )
        return self._insert_if_absent(sql, record, [*values, record.key_hash])

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

    def finish_and_report(
        self, record: IdempotencyRecord, changes: dict[str, Any], message: OutboxMessage, *, is_guarded: bool
    ) -> bool | None:
        """Let the INSERT read the key that the UPDATE gives back: no row, no message."""
        message.record_id = record.pk
        names, marks, values = self._columns(message)
        sets, given = self._changes(record, changes)
        same = f" AND {SAME_TRANSACTION}" if is_guarded and not self.connection.savepoint_ids else ""
        sql = (
            f"WITH finished AS (UPDATE {table_of(self.connection)} SET {', '.join(sets)} "
            f"WHERE id = %s AND owner = %s AND status = 'running'{same} RETURNING id) "
            f"INSERT INTO {self.connection.ops.quote_name(message._meta.db_table)} ({', '.join(names)}) "
            f"SELECT {', '.join(marks)} FROM finished RETURNING id"
        )
        row = self._hot_row(sql, [*given, record.pk, record.owner, *values])
        if row is not None:
            self._is_written(message, row[0])
        return row is not None

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

    def _hot_row(self, sql: str, values: list[Any]) -> tuple[Any, ...] | None:
        """Run a kept statement, where no log and no wrapper of the project wants to see it; else say it in full.

        In full, too, from the moment that somebody removed the kept ones.
        """
        wrapper = self.connection
        prepared: Prepared | None = getattr(wrapper.connection, "orbit_prepared", None)
        if prepared is None or wrapper.execute_wrappers or wrapper.queries_logged:
            return super()._hot_row(sql, values)
        wrapper.validate_thread_sharing()
        wrapper.validate_no_broken_transaction()
        try:
            with wrapper.wrap_database_errors:
                return prepared.run(sql, values)
        except DatabaseError as error:
            if self.code_of(error) != UNPREPARED:
                raise
            wrapper.connection.orbit_prepared = None
            raise OperationalError(*error.args) from error.__cause__  # it passes: the same again will do

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
            or code in {"57P01", "57P02", "57P03", "53300", "57P05", "25P03", "40003"}
        )

    def _mark(self, field: models.Field[Any, Any]) -> str:
        return f"%s::{field.db_type(self.connection)}"
