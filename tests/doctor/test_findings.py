import threading
import time
from collections.abc import Iterator

from orbit_django.doctor.findings import Finding, Level, note, ok, within, wrong


def test_findings_come_as_they_are_found() -> None:
    first, go_on = ok("a", "1"), threading.Event()

    def look() -> Iterator[Finding]:
        yield first
        assert go_on.wait(5)
        yield note("a", "2")

    found = within(5, "a", look)
    assert next(found) == first
    go_on.set()
    assert list(found) == [note("a", "2")]


def test_what_hangs_is_left_behind() -> None:
    leave = threading.Event()

    def look() -> Iterator[Finding]:
        yield ok("a", "1")
        leave.wait(30)

    began = time.monotonic()
    first, last = within(0.2, "a", look)
    assert time.monotonic() - began < 2
    assert (first.level, last.level, last.text) == (Level.OK, Level.WRONG, "no answer within 0.2 s")
    leave.set()


def test_what_fails_is_a_finding() -> None:
    def look() -> Iterator[Finding]:
        yield ok("a", "1")
        raise ValueError("odd\nthing")

    _, last = within(5, "a", look)
    assert last == wrong("a", "ValueError: odd thing", "this was not expected; please report it")
