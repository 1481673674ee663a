import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError, connection, connections, transaction

from orbit_django import starts
from orbit_django.dialects import dialect_of
from orbit_django.exceptions import PayloadError, RefusedError, StartConflictError
from orbit_django.models import WorkflowStart
from orbit_django.starts import HeldStart, Status
from tests.testapp.models import Charge

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]

REFUSAL = RefusedError(401, "UNAUTHENTICATED", "no", is_from_runtime=True)


def ask(execution_id: str = "e-1", input: Any = None, workflow: str = "Pay", using: str = "default") -> None:
    starts.append(workflow, {"order": 1} if input is None else input, execution_id, using=using)


def take(limit: int = 10, **options: Any) -> list[HeldStart]:
    return starts.claim_due("default", limit, **options)


def take_one() -> HeldStart:
    ask()
    (held,) = take()
    return held


def stored(execution_id: str = "e-1") -> WorkflowStart:
    return WorkflowStart.objects.get(execution_id=execution_id)


def wait_of(row: WorkflowStart) -> float:
    """Return in how many seconds a start falls due, by the database's clock."""
    return (row.due_at - dialect_of("default").read_now_ms()) / 1000


def test_a_start_is_kept_as_it_was_asked_for() -> None:
    ask("größe/1", {"text": "\x00 €", "big": 2**70, "n": 0.1})

    row = stored("größe/1")
    assert (row.workflow, row.status, row.attempts, row.settled_at) == ("Pay", Status.PENDING, 0, None)
    assert row.input == '{"text":"\\u0000 \\u20ac","big":1180591620717411303424,"n":0.1}'
    assert [held.execution_id for held in take()] == ["größe/1"], "due at once"


@pytest.mark.parametrize("again", [{"order": 1, "lines": [1.0]}, {"lines": [1], "order": 1.0}])
def test_the_same_start_again_writes_nothing(again: dict[str, Any]) -> None:
    ask(input={"order": 1, "lines": [1]})
    before = WorkflowStart.objects.values().get()
    with transaction.atomic():
        ask(input=again)
        Charge.objects.create(key="caller")

    assert WorkflowStart.objects.values().get() == before
    assert Charge.objects.count() == 1


def test_a_start_that_is_over_is_not_begun_again() -> None:
    starts.settle(take_one())
    ask()

    assert stored().status == Status.STARTED
    assert take(is_flush=True) == []


@pytest.mark.parametrize(
    ("other", "what"),
    [({"input": {"order": 2}}, "input"), ({"workflow": "pay"}, "workflow"), ({"input": {"order": True}}, "input")],
)
def test_an_id_that_has_another_start_is_reported_before_anything_is_written(other: dict[str, Any], what: str) -> None:
    ask()
    with transaction.atomic():
        with pytest.raises(StartConflictError, match=f"'e-1' was asked for before with another {what}") as caught:
            ask(**other)
        Charge.objects.create(key="caller")

    assert (caught.value.execution_id, caught.value.what) == ("e-1", what)
    assert Charge.objects.count() == 1, "the caller's transaction goes on"
    assert (stored().workflow, stored().input) == ("Pay", '{"order":1}')


def test_ids_are_compared_byte_for_byte() -> None:
    for execution_id in ("a", "A", "a ", "á", "a\u0301", "x" * 5_000):
        ask(execution_id)

    assert WorkflowStart.objects.count() == 6


@pytest.mark.parametrize("bad", ["", "\x00", "\ud800", 7, None])
@pytest.mark.parametrize("field", ["workflow", "execution_id"])
def test_a_name_that_no_table_keeps_is_refused(field: str, bad: Any) -> None:
    with pytest.raises(PayloadError, match=rf"\$\.{field}"):
        ask(**{field: bad})
    assert not WorkflowStart.objects.exists()


@pytest.mark.parametrize("bad", [{"n": float("inf")}, {"n": object()}, {1: 2}, {"t": "\ud800"}])
def test_an_input_that_json_does_not_have_is_refused(bad: Any) -> None:
    with pytest.raises(PayloadError, match=r"\$\.input"):
        ask(input=bad)
    assert not WorkflowStart.objects.exists()


def unseeing(monkeypatch: pytest.MonkeyPatch, times: int = 1) -> None:
    """Let the next looks find nothing, as they do while the other transaction is open."""
    real, left = starts._is_known, [False] * times

    def look(*args: Any) -> bool:
        return left.pop() if left else real(*args)

    monkeypatch.setattr(starts, "_is_known", look)


def test_a_start_that_another_transaction_was_first_with_leaves_this_one_whole(monkeypatch) -> None:
    ask()
    unseeing(monkeypatch)
    with transaction.atomic():
        ask()
        Charge.objects.create(key="caller")

    assert (WorkflowStart.objects.count(), Charge.objects.count()) == (1, 1)


def test_another_start_that_was_first_is_reported(monkeypatch) -> None:
    ask()
    unseeing(monkeypatch)
    with transaction.atomic():
        with pytest.raises(StartConflictError, match="another input"):
            ask(input={"order": 2})
        Charge.objects.create(key="caller")

    assert Charge.objects.count() == 1


def test_a_start_that_this_transaction_cannot_see_is_the_databases_error(monkeypatch) -> None:
    ask()
    unseeing(monkeypatch, times=2)
    with pytest.raises(IntegrityError):
        ask()


def ask_beside(monkeypatch: pytest.MonkeyPatch) -> threading.Thread:
    """Ask in a thread's own transaction; return when that one has looked for the start, and is about to write it."""
    looked, real = threading.Event(), starts._is_known

    def look(*args: Any) -> bool:
        is_known = real(*args)
        looked.set()
        return is_known

    def second() -> None:
        with transaction.atomic():
            ask()
            Charge.objects.create(key="second")
        connections.close_all()

    monkeypatch.setattr(starts, "_is_known", look)
    thread = threading.Thread(target=second)
    thread.start()
    assert looked.wait(10)
    return thread


@pytest.mark.parametrize("is_committed", [True, False])
def test_two_transactions_at_once_make_one_start(monkeypatch, is_committed: bool) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("one transaction at a time writes")
    with transaction.atomic():
        ask()
        thread = ask_beside(monkeypatch)
        transaction.set_rollback(not is_committed)
    thread.join(20)

    assert not thread.is_alive()
    assert (WorkflowStart.objects.count(), Charge.objects.count()) == (1, 1)


@pytest.mark.promise("D5")
def test_what_one_sender_holds_no_other_takes() -> None:
    held = take_one()

    assert take() == take(is_flush=True) == []
    assert 14 < wait_of(stored()) < 15.1
    assert (held.using, held.tries, held.workflow, held.input) == ("default", 1, "Pay", '{"order":1}')
    assert "order" not in repr(held), "an input may be for nobody's eyes"


@pytest.mark.promise("D1")
def test_what_a_dead_sender_held_falls_due() -> None:
    take_one()
    WorkflowStart.objects.update(due_at=dialect_of("default").now_ms())

    assert len(take()) == 1


def test_as_many_are_taken_as_wanted_the_oldest_first() -> None:
    for number in range(3):
        ask(f"e-{number}")
        WorkflowStart.objects.filter(execution_id=f"e-{number}").update(due_at=1000 - number)

    assert [held.execution_id for held in take(1)] == ["e-2"]
    assert [held.execution_id for held in take(1, skip=[stored("e-1").pk])] == ["e-0"]


def test_a_start_is_settled() -> None:
    starts.settle(take_one())

    row = stored()
    assert (row.status, row.due_at, row.sender, row.attempts) == (Status.STARTED, None, "", 1)
    assert row.settled_at is not None


def test_a_refused_start_keeps_the_words() -> None:
    starts.refuse(take_one(), RefusedError(404, "UNKNOWN_WORKFLOW", "no", is_from_runtime=True), "no \x00 such")

    row = stored()
    assert (row.status, row.due_at, row.last_status, row.last_error) == (Status.REFUSED, None, 404, "no \ufffd such")
    assert row.settled_at is not None


@pytest.mark.promise("D1")
def test_a_postponed_start_falls_due_later_or_at_a_flush() -> None:
    starts.postpone(take_one(), 5, "down")

    assert (stored().status, stored().attempts, stored().last_error) == (Status.PENDING, 1, "down")
    assert 4 < wait_of(stored()) < 5.1
    assert take() == []
    assert [held.tries for held in take(is_flush=True)] == [2]


@pytest.mark.promise("D2")
def test_a_blocked_start_waits_until_it_is_unblocked() -> None:
    starts.block(take_one(), REFUSAL, "no")

    assert (stored().status, stored().due_at, stored().last_status) == (Status.BLOCKED, None, 401)
    assert take(is_flush=True) == []
    assert starts.unblock("default") == 1
    assert len(take()) == 1


@pytest.mark.parametrize("act", [starts.settle, lambda held: starts.refuse(held, REFUSAL, "no")])
def test_a_final_answer_counts_whoever_holds_the_start(act: Callable[[HeldStart], None]) -> None:
    late = take_one()
    WorkflowStart.objects.update(due_at=1)
    (second,) = take()
    starts.block(second, REFUSAL, "no")
    act(late)

    assert stored().status in (Status.STARTED, Status.REFUSED)


@pytest.mark.promise("D5")
def test_a_sender_that_was_too_slow_does_not_let_go_of_what_another_holds() -> None:
    late = take_one()
    WorkflowStart.objects.update(due_at=1)
    (second,) = take()
    starts.postpone(late, 0, "down")
    starts.block(late, REFUSAL, "no")
    assert (stored().status, stored().sender) == (Status.PENDING, second.mark)
    starts.settle(second)
    starts.refuse(late, REFUSAL, "no")

    assert (stored().status, stored().attempts) == (Status.STARTED, 1)


def test_starts_are_counted() -> None:
    for number in range(4):
        ask(f"e-{number}")
    one, two, three = take(3)
    starts.settle(one)
    starts.refuse(two, REFUSAL, "no")
    starts.block(three, REFUSAL, "no")

    assert starts.counts("default") == {"pending": 1, "started": 1, "refused": 1, "blocked": 1}
    assert starts.pending_count("default") == 1


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_each_alias_has_its_own() -> None:
    with transaction.atomic(using="other"):
        ask(using="other")

    assert not WorkflowStart.objects.using("default").exists()
    (held,) = starts.claim_due("other", 1)
    starts.settle(held)
    assert starts.counts("other")["started"] == 1
