"""Statements that the server of PostgreSQL keeps for a connection, and that are sent by the driver's lower half.

Reading and planning a long statement costs the server more than running it, and so does every value that the driver
looks at anew. What is here serves statements of our own alone, which give back a row of numbers or nothing.

The last statement of a transaction goes to the server with its COMMIT. The answer is the COMMIT's alone, so such a
statement has to fail where it finds nothing, and takes the key of its row along instead of telling it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

UNPREPARED = "26000"  # the server does not know the statement (any more)
FIRST_USES = 16  # after so many uses a plan is made anew, then after four times as many, and so on
MOST_USES = 1_024
JOINT = "\x1f"  # between values on their way into quotes


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
        self.spare_key: int | None = None  # for the report of the next task that ends
        level = raw.isolation_level
        self._begin = b"BEGIN" if level is None else f"BEGIN ISOLATION LEVEL {level.name.replace('_', ' ')}".encode()

    def run(self, sql: str, values: list[Any]) -> tuple[int | None, ...] | None:
        """Run a statement in the transaction that is open or due; return its row; raise the driver's errors."""
        link, name = self._raw.pgconn, self._name(sql)
        if self._is_in(self._driver.pq.TransactionStatus.IDLE) and not self._raw.autocommit:
            result = self._demand(link.exec_(b"%b; %b" % (self._begin, self._call(name, values))))  # one way, not two
        else:
            result = self._demand(link.exec_prepared(name, [text.encode() for text in self._texts(values)]))
        if not result.ntuples:
            return None
        found = [result.get_value(0, column) for column in range(result.nfields)]
        return tuple([None if value is None else int(value) for value in found])

    def run_and_commit(self, sql: str, values: list[Any]) -> bool:
        """Run the last statement of the open transaction and commit; return False where none is open, or a broken one.

        Raises the driver's errors: with the transaction still open when the statement was refused, with none open when
        the COMMIT was, and when the connection was lost on the way nobody knows.
        """
        states = self._driver.pq.TransactionStatus
        if self._is_in(states.IDLE) or self._is_in(states.INERROR):
            return False
        call = self._call(self._name(sql), values)
        result = self._demand(self._raw.pgconn.exec_(call + b"; COMMIT"))
        return bool(result.command_status == b"COMMIT")

    def take_spare_key(self) -> int:
        """Return the key that a row was given, which no other may have."""
        key, self.spare_key = self.spare_key, None
        return cast(int, key)

    def is_understood(self) -> bool:
        """Return whether the server takes what is sent for UTF-8, which a handler may have changed.

        What is closed understands anything: whoever speaks to it is told that it is closed.
        """
        return self._raw.closed or bool(self._raw.pgconn.parameter_status(b"client_encoding") == b"UTF8")

    def has_ended(self) -> bool:
        """Return whether no transaction is open on the server, which is still there."""
        return self._is_in(self._driver.pq.TransactionStatus.IDLE)

    def _is_in(self, status: Any) -> bool:
        return bool(self._raw.pgconn.transaction_status == status)

    def _call(self, name: bytes, values: list[Any]) -> bytes:
        """Return a call with its values quoted, all in one go where none of them needs more than that."""
        joined = JOINT.join(texts := self._texts(values))
        if "\\" in joined or joined.count(JOINT) >= len(texts):
            return b"EXECUTE %b(%b)" % (name, b",".join([bytes(self._quote(text.encode())) for text in texts]))
        quoted = joined.replace("'", "''").replace(JOINT, "','")
        return b"EXECUTE %b('%b')" % (name, quoted.encode())

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

    def _texts(self, values: list[Any]) -> list[str]:
        """Return values as the server reads them; U+0000 would be the end of a text."""
        texts = [value if isinstance(value, str) else str(value) for value in values]
        if "\x00" in "".join(texts):
            raise self._driver.DataError("a text of PostgreSQL cannot contain U+0000")
        return texts
