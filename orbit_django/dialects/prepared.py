"""Statements that the server of PostgreSQL keeps for a connection, and that are sent by the driver's lower half.

Reading and planning a long statement costs the server more than running it, and so does every value that the driver
looks at anew. What is here serves statements of our own alone, which give back one number or nothing.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

UNPREPARED = "26000"  # the server does not know the statement (any more)


class Prepared:
    """The statements that one connection keeps; for the thread that the connection belongs to."""

    def __init__(self, driver: Any, raw: Any) -> None:
        self._raw = raw
        self._driver = driver
        self._names: dict[str, bytes] = {}
        level = raw.isolation_level
        self._begin = b"BEGIN" if level is None else f"BEGIN ISOLATION LEVEL {level.name.replace('_', ' ')}".encode()

    def run(self, sql: str, values: list[Any]) -> tuple[int] | None:
        """Run a statement in the transaction that is open or due; return its one value; raise the driver's errors."""
        link = self._raw.pgconn
        texts = [self._text(value) for value in values]
        if link.transaction_status == self._driver.pq.TransactionStatus.IDLE and not self._raw.autocommit:
            self._demand(link.exec_(self._begin))
        name = self._names.get(sql) or self._prepare(sql)
        result = self._demand(link.exec_prepared(name, texts))
        return (int(result.get_value(0, 0)),) if result.ntuples else None

    def _prepare(self, sql: str) -> bytes:
        name = b"orbit_%d" % len(self._names)
        first, *others = sql.split("%s")
        text = first + "".join(f"${number}{piece}" for number, piece in enumerate(others, 1))
        self._demand(self._raw.pgconn.prepare(name, text.encode()))
        self._names[sql] = name
        return name

    def _demand(self, result: Any) -> Any:
        """Return a result that is none of an error."""
        status = self._driver.pq.ExecStatus
        if result.status in (status.TUPLES_OK, status.COMMAND_OK):
            return result
        if not result.error_field(self._driver.pq.DiagnosticField.SQLSTATE):  # said by the driver: the server is gone
            raise self._driver.OperationalError(result.error_message.decode(errors="replace"))
        raise self._driver.errors.error_from_result(result)

    def _text(self, value: Any) -> bytes:
        """Return a value as the server reads it, for which U+0000 would be the end."""
        if isinstance(value, str):
            if "\x00" in value:
                raise self._driver.DataError("a text of PostgreSQL cannot contain U+0000")
            return value.encode()
        return value.isoformat().encode() if isinstance(value, datetime) else b"%d" % value
