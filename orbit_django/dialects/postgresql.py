"""PostgreSQL: an advisory lock makes the claim never wait, the row's xmin tells whether the transaction is the same."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.db.models.expressions import RawSQL

from orbit_django.dialects.base import Claimed, Dialect, table_of
from orbit_django.models import IdempotencyRecord, OutboxMessage

SAME_TRANSACTION = "xmin = pg_current_xact_id()::xid"  # the open one wrote the row
LOCK_SEED = 0x0B17  # keeps our advisory locks apart from other uses of the same texts


class PostgresqlDialect(Dialect):
    """Statements and codes of PostgreSQL 14 and newer."""

    minimum = (14,)
    now_ms_sql = "(extract(epoch from statement_timestamp()) * 1000)::bigint"  # stable, so that it bounds an index
    transient_codes: ClassVar[frozenset[Any]] = frozenset({"40001", "40P01", "55P03", "57014"})

    def claim(self, record: IdempotencyRecord, lease_seconds: float | None) -> Claimed:
        """Insert under an advisory lock that is only tried; no row means present or busy, ``lock`` tells which.

        An owner that died has lost the lock with its transaction. Only inserts of this very form never wait for
        each other, so no other statement may insert records.
        """
        names, marks, values = self._claimed_columns(record, lease_seconds)
        sql = (
            f"INSERT INTO {table_of(self.connection)} ({', '.join(names)}) SELECT {', '.join(marks)} "
            "FROM (SELECT %s::varchar AS key OFFSET 0) AS wanted "
            "WHERE pg_try_advisory_xact_lock(hashtextextended(wanted.key, %s)) "
            "ON CONFLICT DO NOTHING RETURNING id"
        )
        return self._insert_if_absent(sql, record, [*values, record.key_hash, LOCK_SEED])

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
        with self.connection.cursor() as cursor:
            cursor.execute(sql, [*given, record.pk, record.owner, *values])
            row = cursor.fetchone()
        if row is not None:
            message.pk = row[0]
            message._state.db, message._state.adding = self.connection.alias, False
        return row is not None

    def _changes(self, record: IdempotencyRecord, changes: dict[str, Any]) -> tuple[list[str], list[Any]]:
        """Return the assignments of an UPDATE, and their values."""
        sets, values = [], []
        for column in self._layout(type(record)):
            if column.attname in changes:
                sets.append(f"{column.name} = %s")
                values.append(column.field.get_db_prep_save(changes[column.attname], self.connection))
        return sets, values

    def prepare(self) -> None:
        """Let the server notice within half a minute that this machine has vanished."""
        with self.connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config('tcp_keepalives_idle', '15', false),"
                " set_config('tcp_keepalives_interval', '5', false), set_config('tcp_keepalives_count', '3', false)"
            )

    def max_connections(self) -> int | None:
        """Return how many connections are left to others than superusers."""
        return int(self._value("SHOW max_connections")) - int(self._value("SHOW superuser_reserved_connections"))

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
