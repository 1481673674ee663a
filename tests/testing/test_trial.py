import threading

import pytest
from django.contrib.auth.models import Group

from orbit_django.exceptions import ConfigurationError
from orbit_django.models import Effect, IdempotencyRecord, OutboxMessage
from orbit_django.testing import exactly_once
from tests.testapp.models import Charge
from tests.testing import handlers

pytestmark = pytest.mark.databases
commits = pytest.mark.django_db(transaction=True, databases=["default", "other"])


def told(name, count, input=None, **more) -> str:
    """Return what is said of a handler that does not keep its effect to once."""
    with pytest.raises(AssertionError) as caught:
        exactly_once(name, input or {}, count=count, **more)
    return str(caught.value)


@commits
@pytest.mark.parametrize(
    ("handler", "count", "is_atomic"),
    [
        (handlers.charge, handlers.charges, True),
        (handlers.charge_async, handlers.charges, True),
        (handlers.open_account, handlers.groups, True),
        (handlers.charge_through_context, handlers.charges, False),
        (handlers.mail_through_context, handlers.mails, False),
    ],
)
def test_a_handler_that_keeps_its_effect_to_once_passes(serve, handler, count, is_atomic):
    before = count()
    exactly_once(serve(handler, atomic=is_atomic), {"amount": 5}, count=count)

    assert IdempotencyRecord.objects.get().status == "succeeded"
    assert Effect.objects.count() == (not is_atomic)
    if handler is not handlers.mail_through_context:  # the world of the last run, in which it happened once
        assert count() == before + 1


@commits
@pytest.mark.parametrize(
    ("handler", "count", "is_atomic", "words"),
    [
        (
            handlers.mail_in_transaction,
            handlers.mails,
            True,
            "doubled when its process ended after the handler had returned, before its outcome was committed, and it "
            "was delivered again: count() changed by 2, undisturbed by 1",
        ),
        (handlers.charge_elsewhere, handlers.others, True, "doubled when its process ended after the handler had"),
        (handlers.charge, handlers.charges, False, "doubled when its process ended after the handler had returned"),
        (
            handlers.mail_after_commit,
            handlers.mails,
            True,
            "lost when its process ended right after the commit, before what the handler had registered with "
            "on_commit was run, and it was delivered again: count() changed by 0, undisturbed by 1",
        ),
        (handlers.charge_unless_seen, handlers.charges, True, "lost when its process ended after the handler had"),
        (handlers.charge_and_commit, handlers.charges, True, "failed when it was run undisturbed: UNHANDLED_EXCEPTION"),
        (handlers.refuse, handlers.charges, True, "UNHANDLED_EXCEPTION: no such account"),
        (handlers.charge, handlers.mails, True, "count() returned 0 before and after kit.task ran: it counts nothing"),
        (handlers.charge_twice_elsewhere, handlers.others, True, "took effect once, but failed when its process"),
    ],
)
def test_a_handler_that_does_not_is_told_where(serve, handler, count, is_atomic, words):
    assert words in told(serve(handler, atomic=is_atomic), count)


@commits
def test_a_file_that_is_written_to_twice_is_caught(serve, tmp_path):
    path = tmp_path / "ledger.txt"
    path.touch()

    def write(input, ctx):
        with path.open("a") as file:
            file.write("paid\n")
        return {}

    assert "doubled" in told(serve(write), lambda: len(path.read_text().splitlines()))


@commits
def test_the_statement_is_named(serve):
    def careless(input, ctx):
        """Write once more when the first try has come no further than its first statement."""
        list(Group.objects.all())
        if ctx.idempotency_key not in handlers.SEEN:
            handlers.SEEN.add(ctx.idempotency_key)
        elif ctx.redelivery:
            handlers.charge(input, ctx)
        return handlers.charge(input, ctx)

    def once_returned(input, ctx):
        return careless(input, ctx)

    words = told(serve(once_returned), handlers.charges)
    assert "after the handler had returned" in words

    def only_between(input, ctx):
        """Be wrong only when it died between its two statements."""
        is_first = not ctx.redelivery
        if is_first:
            handlers.SEEN.add(ctx.idempotency_key)
        list(Group.objects.all())
        if is_first or ctx.idempotency_key not in handlers.SEEN:
            handlers.SEEN.discard(ctx.idempotency_key)
            return handlers.charge(input, ctx)
        return {}

    words = told(serve(only_between, "kit.between"), handlers.charges)
    assert "lost when its process ended after SQL statement" in words
    assert "(in the handler: SELECT" in words


@commits
def test_every_run_finds_the_same_world_and_the_reset_is_called(serve):
    Group.objects.create(name="guests")
    worlds = []
    exactly_once(serve(handlers.close_account), count=handlers.groups, reset=lambda: worlds.append(handlers.groups()))

    assert set(worlds) == {1}
    assert len(worlds) > 10
    assert handlers.groups() == 0


@commits
def test_uncertain_effects_are_settled_as_they_were(serve):
    ids = []

    def pay(input, ctx):
        ids.append(ctx.idempotency_key)
        return ctx.effect("mail", handlers.send)

    exactly_once(serve(pay, atomic=False), count=handlers.mails)
    effect = Effect.objects.get()
    assert (effect.status, effect.result) == ("finished", '{"sent":1}')


@commits
def test_nothing_is_left_behind(serve):
    before = set(threading.enumerate())
    exactly_once(serve(handlers.charge), count=handlers.charges)

    assert set(threading.enumerate()) <= before
    assert OutboxMessage.objects.pending().count() <= 1


@commits
def test_fields_of_the_deliveries_can_be_said(serve):
    seen = set()

    def note(input, ctx):
        seen.add((ctx.step_id, ctx.timeout_ms, ctx.attempt))
        return handlers.charge(input, ctx)

    exactly_once(serve(note), count=handlers.charges, step_id="pay", timeout_ms=60_000, attempt=3)
    assert seen == {("pay", 60_000, 3)}


@pytest.mark.django_db
def test_a_test_that_does_not_commit_is_told_what_it_needs(serve):
    with pytest.raises(
        ConfigurationError, match=r"exactly_once needs a test that commits: .*transaction=True.*TestCase$"
    ):
        exactly_once(serve(handlers.charge), count=handlers.charges)
    assert Charge.objects.count() == 0


@commits
@pytest.mark.promise("E8")
def test_contracts_hold_here_too(serve, settings, tmp_path):
    text = 'task "kit.task" { version "1.0.0" input { amount: Int } output { day: String } }'
    (tmp_path / "kit.orbit").write_text(text)
    settings.ORBIT = {**getattr(settings, "ORBIT", {}), "CONTRACTS": [tmp_path / "kit.orbit"]}

    with pytest.warns(UserWarning, match=r"\$\.amount: expected Int, found String") as warned:
        said = told(serve(handlers.charge), handlers.charges, {"amount": "7"})
    assert "INVALID_RESULT: the result: $.day: missing required field `day`" in said
    assert [warning.filename for warning in warned] == [__file__], "once, not for each of the deliveries"
