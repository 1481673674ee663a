"""Statements that the server of PostgreSQL keeps for a connection, and that are sent by the driver's lower half.

Reading and planning a long statement costs the server more than running it, and so does every value that the driver
looks at anew. What is here serves statements of our own alone, which give back one number or nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

UNPREPARED = "26000"  # the server does not know the statement (any more)
FIRST_USES = 16  # after so many uses a plan is made anew, then after four times as many, and so on
MOST_USES = 1_024


@dataclass(slots=True)
class Kept:
    """A statement that the server keeps, and for how many uses its plan is good."""

    name: bytes
    uses: int
    left: int


class Prepared:
    """The statements that one connection keeps; for the thread that the connection belongs to."""

    def __init__(self, driver: Any, raw: Any) -> None:
        self._raw = raw
        self._driver = driver
        self._quote = driver.pq.Escaping(raw.pgconn).escape_literal
        self._kept: dict[str, Kept] = {}
        self._count = 0
        level = raw.isolation_level
        self._begin = b"BEGIN" if level is None else f"BEGIN ISOLATION LEVEL {level.name.replace('_', ' ')}".encode()

    def run(self, sql: str, values: list[Any]) -> tuple[int] | None:
        """Run a statement in the transaction that is open or due; return its one value; raise the driver's errors."""
        link = self._raw.pgconn
        texts = [self._text(value) for value in values]
        name = self._name(sql)
        if link.transaction_status == self._driver.pq.TransactionStatus.IDLE and not self._raw.autocommit:
            quoted = b",".join([bytes(self._quote(text)) for text in texts])
            result = self._demand(link.exec_(b"%b; EXECUTE %b(%b)" % (self._begin, name, quoted)))  # one way, not two
        else:
            result = self._demand(link.exec_prepared(name, texts))
        return (int(result.get_value(0, 0)),) if result.ntuples else None

    def _name(self, sql: str) -> bytes:
        """Return the name of a statement, planned anew now and then.

        A plan made while a table was tiny reads all of it, and the server stays with it until the table is analysed
        again; a new plan sees how much the table has grown.
        """
        kept = self._kept.get(sql)
        if kept is not None and kept.left > 0:
            kept.left -= 1
            return kept.name
        uses = FIRST_USES if kept is None else min(kept.uses * 4, MOST_USES)
        if kept is not None:
            self._demand(self._raw.pgconn.exec_(b"DEALLOCATE " + kept.name))
        self._kept[sql] = Kept(self._prepare(sql), uses, uses - 1)
        return self._kept[sql].name

    def _prepare(self, sql: str) -> bytes:
        name = b"orbit_%d" % self._count
        self._count += 1
        first, *others = sql.split("%s")
        text = first + "".join(f"${number}{piece}" for number, piece in enumerate(others, 1))
        self._demand(self._raw.pgconn.prepare(name, text.encode()))
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
