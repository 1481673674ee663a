"""MariaDB (and MySQL, which was not tried): a lock wait of zero makes the claim never wait."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, ClassVar

from django.apps import apps
from django.db.utils import OperationalError

from orbit_django.dialects.base import Claimed, table_of
from orbit_django.dialects.guard import SavepointGuard, Statement, Told
from orbit_django.models import IdempotencyRecord

LOCK_WAIT_TIMEOUT = 1205
PACKET_TOO_LARGE = 1153
MULTI_STATEMENTS = 1 << 16  # a flag of the client: several statements in one packet; the driver's ``multi_statements``
LONG_TEXT = 16_384  # characters; escaped they are at most eight times as many bytes
AWAY = {1040, 1044, 1045, 1053, 1152, 1158, 1159, 1160, 1161, 1203, 1226, 1290, 1927}  # codes below the client's own


NARROW = (
    "SELECT table_name, MIN(character_set_name) FROM information_schema.columns WHERE table_schema = DATABASE()"
    " AND table_name IN %(names)s AND character_set_name NOT IN ('utf8mb4', 'ascii', 'binary') GROUP BY table_name"
)
SHORT = (
    "SELECT table_name, row_format FROM information_schema.tables WHERE table_schema = DATABASE()"
    " AND table_name IN %(names)s AND row_format IN ('Compact', 'Redundant')"
)


class MysqlDialect(SavepointGuard):
    """Statements and codes of MariaDB 10.5 and newer."""

    minimum = (10, 5)
    now_ms_sql = "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000)"
    transient_codes: ClassVar[frozenset[Any]] = frozenset({LOCK_WAIT_TIMEOUT, 1213, 1020})

    def claim(self, record: IdempotencyRecord, lease_seconds: float | None) -> Claimed:
        """Insert unless present; a key that another transaction owns answers at once instead of waiting.

        INSERT IGNORE would also cut a text that is too long, so every bounded column is given a text that fits.
        """
        return self._claim(record, lease_seconds)

    def claim_guarded(self, record: IdempotencyRecord) -> Claimed:
        """Claim and set the guard in one packet; a guard around a claim that was not made disturbs nobody."""
        if self._can_pack:
            return self._claim(record, None, Statement(f"SAVEPOINT {self.guard_name}", []))
        return super().claim_guarded(record)

    def _claim(self, record: IdempotencyRecord, lease_seconds: float | None, *others: Statement) -> Claimed:
        names, marks, values = self._claimed_columns(record, lease_seconds)
        sql = (
            f"{self._no_wait()}INSERT IGNORE INTO {table_of(self.connection)} ({', '.join(names)})"
            f" VALUES ({', '.join(marks)})"
        )
        try:
            inserted = self._say([Statement(sql, values), *others])[0]
        except OperationalError as error:
            if self.code_of(error) != LOCK_WAIT_TIMEOUT:
                raise
            return Claimed.BUSY
        record.pk = inserted.key if inserted.rows else None
        return Claimed.NEW if inserted.rows else Claimed.PRESENT

    @property
    def _can_pack(self) -> bool:
        """Return whether several statements may go in one packet, where no wrapper of the project looks at each."""
        raw = self.connection.connection
        return bool(getattr(raw, "client_flag", 0) & MULTI_STATEMENTS) and not self.connection.execute_wrappers

    def _say(self, statements: list[Statement]) -> list[Told]:
        """Run statements in one packet, which ends with the error of the first that fails.

        A long text goes alone: beside another one it might be too much for max_allowed_packet.
        """
        values = [value for statement in statements for value in statement.values]
        if not self._can_pack or any(isinstance(value, str) and len(value) > LONG_TEXT for value in values):
            return super()._say(statements)
        with self.connection.cursor() as cursor:
            cursor.execute("; ".join(statement.sql for statement in statements), values)
            told = [Told(cursor.rowcount, cursor.lastrowid)]
            while cursor.nextset():
                told.append(Told(cursor.rowcount, cursor.lastrowid))
        return told

    def lock(self, key_hash: str) -> IdempotencyRecord | None:
        """Lock the row, skipping one that is locked; without SKIP LOCKED by a lock wait of zero."""
        if self.connection.features.has_select_for_update_skip_locked:
            rows = IdempotencyRecord.objects.using(self.connection.alias)
            return rows.select_for_update(skip_locked=True).filter(key_hash=key_hash).first()
        return self._lock_one("key_hash", key_hash)

    def lock_free(self, keys: Collection[int]) -> list[int]:
        """Lock rows, skipping those that are locked; without SKIP LOCKED one after the other."""
        if self.connection.features.has_select_for_update_skip_locked:
            return super().lock_free(keys)
        return [key for key in sorted(keys) if self._lock_one("id", key) is not None]

    def _lock_one(self, column: str, value: object) -> IdempotencyRecord | None:
        """Lock a row by a lock wait of zero."""
        rows = IdempotencyRecord.objects.using(self.connection.alias)
        try:
            sql = f"{self._no_wait()}SELECT * FROM {table_of(self.connection)} WHERE {column} = %s FOR UPDATE"
            return next(iter(rows.raw(sql, [value])), None)
        except OperationalError as error:
            if self.code_of(error) != LOCK_WAIT_TIMEOUT:
                raise
            return None

    def is_too_large(self, error: BaseException) -> bool:
        """Return whether a statement was longer than max_allowed_packet."""
        return bool(self.code_of(error) == PACKET_TOO_LARGE)

    def is_in_transaction(self, *, may_ask: bool) -> bool:
        """Ask, since the driver is told but does not tell; MySQL has no word for it.

        Past Django, which lets a test use some databases only, while connections to others may be open.
        """
        if not may_ask or not self._is_mariadb:
            return False
        with self.connection.wrap_database_errors, self.connection.connection.cursor() as cursor:
            cursor.execute("SELECT @@in_transaction")
            return bool(cursor.fetchone()[0])

    def max_connections(self) -> int | None:
        """Return how many connections the server allows."""
        return int(self._value("SELECT @@max_connections"))

    def table_faults(self) -> Iterator[tuple[str, str]]:
        """Yield what cannot carry or keep every character, and tables whose rows cannot hold long keys in an index."""
        if (charset := str(self._value("SELECT @@character_set_connection"))) != "utf8mb4":
            yield f"connections speak {charset}, which lacks characters", 'say "charset": "utf8mb4" in its OPTIONS'
        names = {"names": tuple(table._meta.db_table for table in apps.get_app_config("orbit_django").get_models())}
        with self.connection.cursor() as cursor:
            cursor.execute(NARROW, names)
            for table, charset in cursor.fetchall():
                advice = f"ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb4"
                yield f"the table {table} has columns in {charset}, which lacks characters", advice
            cursor.execute(SHORT, names)
            for table, form in cursor.fetchall():
                yield f"the table {table} has the row format {form}", f"ALTER TABLE {table} ROW_FORMAT=DYNAMIC"

    def _isolation(self) -> str:
        name = "tx_isolation" if self._is_mariadb else "transaction_isolation"
        return str(self._value(f"SELECT @@{name}")).lower().replace("-", " ")

    def code_of(self, error: BaseException) -> Any:
        """Return the server's or the client's error number."""
        return error.args[0] if error.args and isinstance(error.args[0], int) else None

    def _is_lost(self, code: Any) -> bool:
        return not code or code in AWAY or 2000 <= code < 2100

    @property
    def _is_mariadb(self) -> bool:
        return bool(getattr(self.connection, "mysql_is_mariadb", False))

    def _no_wait(self) -> str:
        return "SET STATEMENT innodb_lock_wait_timeout=0 FOR " if self._is_mariadb else ""
