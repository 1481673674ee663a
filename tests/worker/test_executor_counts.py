import pytest

from orbit_django import TaskError
from tests.ledger import Desk, charge

pytestmark = [pytest.mark.databases, pytest.mark.django_db(transaction=True)]

ATOMIC = pytest.mark.parametrize("atomic", [True, False])


def declined(input, ctx):
    raise TaskError("CARD_DECLINED", "no money")


def broken(input, ctx):
    raise ValueError("x")


def counts(desk: Desk) -> dict[str, int]:
    """Return what was counted, by name and labels."""
    return {" ".join(labels): count for *labels, count in desk.vitals.numbers().counts}


def runs(desk: Desk) -> float:
    return sum(sum(found[1:]) for found in desk.vitals.numbers().seconds.values())


@ATOMIC
def test_a_success_its_replay_and_a_conflict(atomic):
    desk = Desk(charge, is_atomic=atomic)
    desk.deliver({"amount": 5}, token="t1")
    desk.deliver({"amount": 5}, token="t2", redelivery=True)
    desk.deliver({"amount": 6}, token="t3")

    assert counts(desk) == {"tasks test.task complete": 1, "tasks test.task replay": 1, "tasks test.task conflict": 1}
    assert (list(desk.vitals.numbers().seconds), runs(desk)) == (["test.task"], 1)


@ATOMIC
@pytest.mark.parametrize(("function", "code"), [(declined, "OTHER"), (broken, "UNHANDLED_EXCEPTION")])
def test_a_failure_and_its_replay(atomic, function, code):
    desk = Desk(function, is_atomic=atomic)
    desk.deliver(token="t1")
    desk.deliver(token="t2", redelivery=True)

    assert counts(desk) == {
        "tasks test.task fail": 1,
        f"task_failures test.task {code}": 1,
        "tasks test.task replay": 1,
    }
    assert runs(desk) == 1


def test_tasks_that_nobody_serves_share_one_name():
    desk = Desk(charge)
    for number in range(3):
        desk.deliver(task_name=f"foreign.{number}", token=f"t{number}")

    assert counts(desk) == {"tasks (unknown) fail": 3, "task_failures (unknown) UNKNOWN_TASK": 3}
    assert runs(desk) == 0
