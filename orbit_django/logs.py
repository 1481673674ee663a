"""Log records with constant texts: what changes from record to record is in named extras, and no secret is in it."""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TextIO

from orbit_django.exceptions import AbandonedError

PIPE_BYTES = 4_096  # what a pipe takes without another writer in between
BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")  # what ends a line, or steers a terminal
STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
INDENT = "    "
MESSAGE = "message"  # no extra can have this name
QUOTING = ("django.db.backends",)  # shows statements with their values, tokens among them, when it is asked to


class Named(Protocol):
    """What a delivery and its record have in common: which attempt of which step it is."""

    @property
    def execution_id(self) -> str: ...  # noqa: D102  (as everywhere)
    @property
    def step_id(self) -> str: ...  # noqa: D102
    @property
    def task_name(self) -> str: ...  # noqa: D102
    @property
    def attempt(self) -> int: ...  # noqa: D102


def about(seen: Named, **more: Any) -> dict[str, Any]:
    """Return the extras that name a delivery, or the latest of a record; never its token."""
    return {
        "execution": seen.execution_id,
        "step": seen.step_id,
        "task": seen.task_name,
        "attempt": seen.attempt,
        **more,
    }


class SteadyLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger that never takes down who logs: a record that a project's handler fails to write is lost, no more.

    Every module of this package logs through one. What was lost is told on stderr, as logging itself does, unless
    ``logging.raiseExceptions`` is off; the text of the error is not, since it may quote what the record holds.
    """

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Leave a call as it is."""
        return msg, kwargs

    def log(self, level: int, msg: Any, *args: Any, **kwargs: Any) -> None:
        """Log a record, if that can be done."""
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1  # the record names the caller, not this method
        try:
            super().log(level, msg, *args, **kwargs)
        except AbandonedError:
            raise
        except BaseException as error:  # noqa: BLE001  (handlers, filters and formatters are the project's code)
            if logging.raiseExceptions:
                with suppress(Exception):
                    sys.stderr.write(f"{self.name}: a record was lost to {type(error).__name__}: {msg}\n")


class BoundLogger(SteadyLogger):
    """A logger that adds fixed extras to each record and keeps those of the call."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Merge the bound extras with the call's; the call wins."""
        bound: Mapping[str, object] = self.extra or {}
        kwargs["extra"] = {**bound, **(kwargs.get("extra") or {})}
        return msg, kwargs


class ExtrasFormatter(logging.Formatter):
    """One line a record, extras at its end as ``name=value``; no text can forge a second record.

    The lines of a traceback follow, each with an indent that no record has.
    """

    def __init__(self, head: str = "%(asctime)s %(process)d %(levelname)s %(name)s %(message)s") -> None:
        super().__init__(head)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and those of its traceback."""
        whole = super().format(record)
        if not (record.exc_text or record.stack_info):
            return whole
        line, *traced = whole.splitlines()
        return "\n".join([line, *(INDENT + _escaped(each) for each in traced)])

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (the name is logging's)
        """Return the line without its traceback."""
        extras = {name: value for name, value in vars(record).items() if name not in STANDARD}
        shown = "".join(f" {name}={value}" for name, value in extras.items())
        return _escaped(super().formatMessage(record) + shown)


def _escaped(line: str) -> str:
    return line if line.isprintable() else BREAKS.sub(lambda found: ascii(found[0])[1:-1], line)


class Redaction(logging.Filter):
    """Takes secrets out of a record before any handler sees it, a project's own ones included.

    Records stay as they are where there is nothing to hide: a traceback that quotes a secret becomes its text.
    """

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__()
        self._redact = redact

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, without its secrets."""
        try:
            self._hide(record)
        except AbandonedError:
            raise
        except BaseException:  # noqa: BLE001  (the values of a record are the handler's code, and may even exit)
            record.msg, record.args, record.exc_info = "a record that could not be read was left out", None, None
            for name in set(vars(record)) - STANDARD:
                delattr(record, name)
        return True

    def _hide(self, record: logging.LogRecord) -> None:
        told = {name: str(value) for name, value in vars(record).items() if name not in STANDARD}
        told[MESSAGE] = record.getMessage()
        whole = "\0".join(told.values())
        if (clean := self._redact(whole)) != whole:  # one look for most records, which have nothing to hide
            self._replace(record, told, clean.split("\0"))
        if record.exc_info and record.exc_info[0]:
            text = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
            if (clean := self._redact(text)) != text:
                record.exc_info, record.exc_text = None, clean
        if record.stack_info:
            record.stack_info = self._redact(record.stack_info)

    def _replace(self, record: logging.LogRecord, told: dict[str, str], clean: list[str]) -> None:
        if len(clean) != len(told):  # a text with U+0000 in it: each by itself
            clean = [self._redact(text) for text in told.values()]
        for (name, text), shown in zip(told.items(), clean, strict=True):
            if shown == text:
                continue
            if name == MESSAGE:
                record.msg, record.args = shown, None
            else:
                setattr(record, name, shown)


@contextmanager
def redacting(redact: Callable[[str], str]) -> Iterator[None]:
    """Take secrets out of what this package and the database layer log meanwhile.

    A filter of a logger does not see the records of those below it, so each logger gets it.
    """
    hiding = Redaction(redact)
    known = logging.root.manager.loggerDict
    names = [name for name in (*known, *QUOTING) if name.partition(".")[0] == "orbit_django" or name in QUOTING]
    loggers = [logging.getLogger(name) for name in names]
    for logger in loggers:
        logger.addFilter(hiding)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(hiding)


class LineHandler(logging.StreamHandler[TextIO]):
    """Writes whole lines at once, so that processes that share a pipe or a file do not write into each other's."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; what is longer than a pipe takes at once is written in as few pieces as it has to be."""
        try:
            for piece in pieces(self.format(record) + self.terminator):
                self.stream.write(piece)
                self.flush()
        except Exception:  # noqa: BLE001  (as every handler of logging: it must not disturb who logs)
            with suppress(ValueError):  # a handler of a task may have closed stderr, where this would be told
                self.handleError(record)


def pieces(text: str, limit: int = PIPE_BYTES) -> Iterator[str]:
    """Yield a text in pieces of whole lines, none longer than the limit unless a single line is."""
    if text.isascii() and len(text) <= limit and text:
        yield text
        return
    piece, size = "", 0
    for line in text.splitlines(keepends=True):
        length = len(line.encode(errors="replace"))
        if piece and size + length > limit:
            yield piece
            piece, size = "", 0
        piece, size = piece + line, size + length
    if piece:
        yield piece
