import pytest

from orbit_django.embedded.faults import KINDS, Fault, explain, parse_fault
from orbit_django.embedded.faults.syntax import FORM
from orbit_django.exceptions import ConfigurationError


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("lost:complete", Fault("lost", "complete")),
        ("lost:*x*", Fault("lost", "*", times=None)),
        ("lost:assignment+2x3", Fault("lost", "assignment", times=3, skip=2)),
        ("status:poll", Fault("status", "poll")),
        ("status:poll:500x3", Fault("status", "poll", (500, ""), 3)),
        ("status:register:400/RESERVED_TASK", Fault("status", "register", (400, "RESERVED_TASK"))),
        ("html:poll:502", Fault("html", "poll", 502)),
        ("delay:fail:2s", Fault("delay", "fail", 2_000)),
        ("delay:fail:150msx2", Fault("delay", "fail", 150, 2)),
        ("expire:heartbeat", Fault("expire", "heartbeat")),
        ("redirect:poll:http://127.0.0.3:9", Fault("redirect", "poll", "http://127.0.0.3:9")),
        (
            'set:assignment:{"deadline_ms": 5, "x": "a:b"}+1x2',
            Fault("set", "assignment", {"deadline_ms": 5, "x": "a:b"}, 2, 1),
        ),
        ("answer:poll:[1]", Fault("answer", "poll", [1])),
        ("version:heartbeat:nonex*", Fault("version", "heartbeat", "none", None)),
    ],
)
def test_faults_on_the_command_line(text: str, fault: Fault) -> None:
    assert parse_fault(text) == fault


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lost", "expected KIND:CALL"),
        ("explode:poll", "kinds are lost, drop, refuse, restart, status"),
        ("lost:polls", "calls are register, poll,"),
        ("lost:poll:5", "`5` is no value for lost"),
        ("status:poll:9", "`9` is no value for status"),
        ("status:poll:500/", "`500/` is no value for status"),
        ("delay:poll:5", "`5` is no value for delay"),
        ("redirect:poll:elsewhere", "`elsewhere` is no value for redirect"),
        ("set:poll:[]", "is no value for set"),
        ("answer:poll:{", "is no value for answer"),
        ("version:poll:a b", "`a b` is no value for version"),
        ("drop:assignment", "before there is a task"),
    ],
)
def test_faults_that_make_no_sense(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        parse_fault(text)


def test_the_help_names_every_kind() -> None:
    text = explain()

    assert FORM in text
    assert all(f"  {name}" in text for name in KINDS)
