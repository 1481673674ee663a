import logging

import pytest

from orbit_django.logs import BoundLogger, ExtrasFormatter, about
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
    assert line("failed", error=ValueError("no"), step="x").splitlines() == ["failed step=x", "ValueError: no"]


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
