"""Databases that cannot name a transaction: a savepoint tells whether it is the same, and its release opens the finish.

Nothing here knows how a database claims a key, or whether several of its statements may travel together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from django.db import models

from orbit_django.dialects.base import Dialect, Finish, table_of


class Statement(NamedTuple):
    """A statement that gives back no rows, and its values."""

    sql: str
    values: list[Any]


class Told(NamedTuple):
    """What the server says of one statement."""

    rows: int  # inserted or found
    key: int  # that it gave to a new row


class SavepointGuard(Dialect):
    """A guard made of a savepoint, which dies with its transaction; for databases that can not name one."""

    def set_guard(self) -> None:
        """Set the savepoint, right after the claim."""
        with self.connection.cursor() as cursor:
            cursor.execute(f"SAVEPOINT {self.guard_name}")

    def check_guard(self) -> models.Q | None:
        """Release the savepoint; the database raises when it is gone."""
        with self.connection.cursor() as cursor:
            cursor.execute(f"RELEASE SAVEPOINT {self.guard_name}")
        return None

    def finish_and_report(self, finish: Finish) -> bool | None:
        """Release the guard, change the record and insert the message, past Django's queries, which cost more."""
        record, message = finish.record, finish.message
        message.record_id = record.pk
        sets, given = self._changes(record, finish.changes)
        names, marks, values = self._columns(message)
        update = (
            f"UPDATE {table_of(self.connection)} SET {', '.join(sets)}"
            " WHERE id = %s AND owner = %s AND status = 'running'"
        )
        table = self.connection.ops.quote_name(message._meta.db_table)
        insert = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(marks)})"
        statements = [Statement(update, [*given, record.pk, record.owner]), Statement(insert, values)]
        if finish.is_guarded:
            statements.insert(0, Statement(f"RELEASE SAVEPOINT {self.guard_name}", []))
        *_, updated, inserted = self._say(statements)
        if updated.rows:
            self._is_written(message, inserted.key)
        return bool(updated.rows)

    def _say(self, statements: list[Statement]) -> list[Told]:
        """Run statements one after the other."""
        told = []
        with self.connection.cursor() as cursor:
            for sql, values in statements:
                cursor.execute(sql, values)
                told.append(Told(cursor.rowcount, cursor.lastrowid))
        return told
