import io
import logging
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import orbit_django
from orbit_django.exceptions import AbandonedError
from orbit_django.logs import BoundLogger, ExtrasFormatter, LineHandler, SteadyLogger, about, pieces, redacting
from orbit_django.protocol import Assignment

DELIVERY = Assignment(
    "tok-SECRET-1", "e-1", "Pay", "1", "charge", "shop.pay", "1", {"card": "4111"}, "key-1", attempt=2
)


def line(text: str, *arguments: object, error: BaseException | None = None, **extra: object) -> str:
    """Return what the formatter makes of one record, without its time."""
    info = (type(error), error, None) if error else None
    record = logging.getLogger("orbit").makeRecord("orbit", logging.INFO, "x.py", 1, text, arguments, info, extra=extra)
    return ExtrasFormatter().format(record).partition(" INFO orbit ")[2]


def test_extras_follow_the_text() -> None:
    assert line("a task %s", "ended", step="charge", n=5) == "a task ended step=charge n=5"


@pytest.mark.parametrize("char", ["\n", "\r", "\x0b", "\x0c", "\x1b", "\x85", "\u2028", "\u2029", "\x00", "\t"])
def test_no_text_can_forge_a_line_or_steer_a_terminal(char: str) -> None:
    found = line(f"a{char}b %s", f"c{char}d", step=f"e{char}f")
    assert len(found.splitlines()) == 1
    assert char not in found
    assert found == line(f"a{ascii(char)[1:-1]}b %s", f"c{ascii(char)[1:-1]}d", step=f"e{ascii(char)[1:-1]}f")


def test_other_letters_stay_as_they_are() -> None:
    assert line("naïve → ✓ 100% {x}", step="größe") == "naïve → ✓ 100% {x} step=größe"


def test_a_traceback_follows_its_line() -> None:
    assert line("failed", error=ValueError("no"), step="x").splitlines() == ["failed step=x", "    ValueError: no"]


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\x0b", "\x1c", "\x85", "\u2028"])
def test_no_text_of_an_error_can_forge_a_record(end: str) -> None:
    forged = "2026-01-01 00:00:00,000 1 INFO orbit_django FORGED"
    found = line("failed", error=ValueError(f"a{end}{forged}{end}\x1b[2J"))
    assert found.splitlines() == ["failed", "    ValueError: a", f"    {forged}", r"    \x1b[2J"]


def test_no_line_of_a_stack_looks_like_a_record() -> None:
    record = logging.makeLogRecord({"msg": "told", "stack_info": "Stack:\nline 1\nline 2"})
    assert ExtrasFormatter("%(message)s").format(record) == "told\n    Stack:\n    line 1\n    line 2"


@pytest.mark.promise("W9")
def test_a_delivery_is_named_without_its_token_input_and_key() -> None:
    assert about(DELIVERY, n=1) == {"execution": "e-1", "step": "charge", "task": "shop.pay", "attempt": 2, "n": 1}


def test_a_bound_logger_adds_its_extras_and_the_call_wins(caplog) -> None:
    bound = BoundLogger(logging.getLogger("orbit.test"), {"step": "charge", "n": 1})
    bound.warning("told", extra={"n": 2})
    bound.warning("told")
    assert [(record.step, record.n) for record in caplog.records] == [("charge", 2), ("charge", 1)]


def test_a_bound_logger_may_be_without_extras(caplog) -> None:
    BoundLogger(logging.getLogger("orbit.test")).warning("told")
    assert caplog.messages == ["told"]


SECRET = "tok-SECRET-1"


class Shown(logging.Handler):
    """A project's own handler: keeps what the formatter makes of each record, and the record."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
        self.lines.append(self.format(record))


@pytest.fixture
def shown() -> Iterator[Shown]:
    """Yield what the root's handler shows, while secrets are taken out."""
    handler, root = Shown(), logging.getLogger()
    logging.getLogger("orbit_django.worker.ledger")  # which its module makes when it is imported
    root.addHandler(handler)
    with redacting(lambda text: text.replace(SECRET, "****")):
        yield handler
    root.removeHandler(handler)


class Odd:
    """A value that says something, or raises when it is looked at."""

    def __init__(self, text: str | None) -> None:
        self.text = text

    def __str__(self) -> str:
        if self.text is None:
            raise RuntimeError("no")
        return self.text


@pytest.mark.promise("W9")
@pytest.mark.parametrize("name", ["orbit_django.worker.ledger", "orbit_django.handlers", "django.db.backends"])
def test_no_handler_sees_a_secret(shown: Shown, name: str) -> None:
    log = logging.getLogger(name)
    log.setLevel(logging.DEBUG)
    log.error("a %s b", SECRET, extra={"error": f"c {SECRET}", "odd": Odd(SECRET), "n": 1})
    log.error("with stack %s", "x", stack_info=True)
    try:
        raise ValueError(f"inner {SECRET}") from KeyError(SECRET)
    except ValueError:
        log.exception("failed")

    (record, _, failed) = shown.records
    assert SECRET not in "".join([*shown.lines, str([vars(record) for record in shown.records])])
    assert (record.error, record.odd, record.n) == ("c ****", "****", 1)
    assert shown.lines[2].startswith("failed\n")
    assert "ValueError: inner ****" in shown.lines[2]
    assert "Traceback" in shown.lines[2]
    assert failed.exc_info is None


def test_a_record_without_secrets_stays_as_it_is(shown: Shown) -> None:
    log, odd = logging.getLogger("orbit_django.worker.ledger"), Odd("x")
    error = ValueError("plain")
    log.error("a %s", "b", extra={"odd": odd}, exc_info=error)
    (record,) = shown.records
    assert (record.msg, record.args, record.odd) == ("a %s", ("b",), odd)
    assert record.exc_info[1] is error


def test_a_record_whose_values_raise_takes_nobody_down(shown: Shown) -> None:
    logging.getLogger("orbit_django.handlers").warning("a %s", SECRET, extra={"odd": Odd(None)})
    assert shown.lines == ["a record that could not be read was left out"]


def test_afterwards_records_are_left_alone(shown: Shown) -> None:
    with redacting(lambda text: "hidden"):
        pass
    logging.getLogger("orbit_django.handlers").warning("seen")
    assert shown.lines == ["seen"]


def test_each_line_names_its_process() -> None:
    record = logging.getLogger("orbit").makeRecord("orbit", logging.INFO, "x.py", 1, "told", (), None)
    assert f" {os.getpid()} INFO orbit told" in ExtrasFormatter().format(record)


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("", 10, []),
        ("short\n", 10, ["short\n"]),
        ("one\ntwo\nthree\n", 8, ["one\ntwo\n", "three\n"]),
        ("a line too long\nb\n", 8, ["a line too long\n", "b\n"]),
        ("größe\nx\n", 8, ["größe\n", "x\n"]),
    ],
)
def test_a_long_record_is_written_in_pieces_of_whole_lines(text: str, limit: int, expected: list[str]) -> None:
    assert list(pieces(text, limit)) == expected


class Writes(io.StringIO):
    """A stream that keeps what was written between two flushes."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []

    def flush(self) -> None:
        self.pieces.append(self.getvalue())
        self.seek(0)
        self.truncate()


def test_a_handler_flushes_whole_lines() -> None:
    stream, many = Writes(), "\n".join(["x" * 1_000] * 9)
    LineHandler(stream).handle(logging.makeLogRecord({"msg": many}))
    assert len(stream.pieces) == 3
    assert all(piece.endswith("x\n") and len(piece) <= 4_096 for piece in stream.pieces)
    assert "".join(stream.pieces) == many + "\n"


def test_a_handler_survives_a_stream_that_is_closed(monkeypatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    stream = io.StringIO()
    stream.close()
    LineHandler(stream).handle(logging.makeLogRecord({"msg": "told"}))


class Broken(logging.Handler):
    """A project's own handler that cannot write."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._error = error

    def emit(self, record: logging.LogRecord) -> None:
        raise self._error


@pytest.fixture(params=[RuntimeError(f"quotes {SECRET}"), SystemExit(3)], ids=["error", "exit"])
def broken(request: pytest.FixtureRequest) -> Iterator[logging.Logger]:
    """Yield a logger whose records no handler can write."""
    logger, handler = logging.getLogger("orbit_django.broken"), Broken(request.param)
    logger.addHandler(handler)
    yield logger
    logger.removeHandler(handler)


@pytest.mark.promise("W1")
@pytest.mark.parametrize("kind", [SteadyLogger, BoundLogger])
def test_a_record_that_cannot_be_written_takes_nobody_down(kind, broken, capsys) -> None:
    kind(broken).error("a task failed", extra={"step": SECRET})
    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith("orbit_django.broken: a record was lost to ")
    assert told.endswith(": a task failed")
    assert SECRET not in told


def test_a_project_may_want_no_word_of_lost_records(broken, capsys, monkeypatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    SteadyLogger(broken).error("a task failed")
    assert capsys.readouterr().err == ""


@pytest.mark.promise("W5")
def test_a_worker_that_must_end_ends_while_it_logs() -> None:
    logger, handler = logging.getLogger("orbit_django.broken"), Broken(AbandonedError())
    logger.addHandler(handler)
    try:
        with pytest.raises(AbandonedError):
            SteadyLogger(logger).error("a task failed")
    finally:
        logger.removeHandler(handler)


def test_a_record_names_who_logged_it(caplog) -> None:
    SteadyLogger(logging.getLogger("orbit.test")).warning("told", extra={"n": 2})
    try:
        raise ValueError("no")
    except ValueError:
        BoundLogger(logging.getLogger("orbit.test"), {"n": 3}).exception("failed")
    assert [(record.filename, record.funcName, record.n) for record in caplog.records] == [
        ("test_logs.py", "test_a_record_names_who_logged_it", 2),
        ("test_logs.py", "test_a_record_names_who_logged_it", 3),
    ]
    assert caplog.records[1].exc_info[0] is ValueError


@pytest.mark.promise("W1")
def test_every_module_logs_through_such_a_logger() -> None:
    package = Path(orbit_django.__file__).parent
    plain = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if re.search(r"(?<!SteadyLogger\()logging\.getLogger\(", path.read_text(encoding="utf-8"))
    }
    setting_up = {"logs.py", "management/shown.py", "management/commands/orbit_runtime.py"}
    assert plain == setting_up | {"context.py"}, "the latter's is under the BoundLogger of each task"


def test_values_that_exit_take_nobody_down(shown: Shown) -> None:
    class Exiting:
        def __str__(self) -> str:
            raise SystemExit(3)

    logging.getLogger("orbit_django.handlers").warning("a", extra={"odd": Exiting()})
    assert shown.lines == ["a record that could not be read was left out"]


@pytest.mark.promise("W6")
def test_a_task_that_closes_stderr_takes_nobody_down(monkeypatch) -> None:
    stream = io.StringIO()
    stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    LineHandler(stream).handle(logging.makeLogRecord({"msg": "told"}))
    logger, handler = logging.getLogger("orbit_django.broken"), logging.StreamHandler(stream)
    logger.addHandler(handler)
    try:
        SteadyLogger(logger).error("told")
    finally:
        logger.removeHandler(handler)
