"""The page of one execution, made of what a real ledger left."""

import pytest
from django.utils import timezone

from orbit_django import TaskError, outbox
from orbit_django.models import Effect, IdempotencyRecord, OutboxMessage
from orbit_django.protocol import Receipt
from tests.admin.conftest import HOSTILE, TOKEN, message_of, record_of
from tests.admin.test_effect import Till, effect_of
from tests.ledger import Desk
from tests.worker.starting import ask

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]
PAGE = "/admin/orbit_django/idempotencyrecord/execution/"
ALL = ("view_idempotencyrecord", "view_outboxmessage", "view_effect", "view_workflowstart")


@pytest.fixture
def viewer(client, person):
    client.force_login(person(*ALL))
    return client


@pytest.fixture
def told(viewer):
    """Return the lines of an execution's page: what, and why."""

    def read(name="e1", **query):
        lines = viewer.get(PAGE, {"id": name, **query}).context["lines"]
        return [(line["what"], line["why"]) for line in lines]

    return read


def deliveries(lines):
    return [(what.split("; ")[1], why) for what, why in lines if "delivered; " in what]


def answered(message, reason=""):
    outbox.settle(message, Receipt(accepted=not reason, reason=reason))


def test_a_first_run_and_its_replay_are_told_apart(told):
    desk = Desk(lambda input, ctx: {"a": 1})
    answered(desk.deliver())
    answered(desk.deliver(redelivery=True), "duplicate result; step already resolved")
    lines = told()
    assert deliveries(lines) == [
        ("the handler ran", "it was the first delivery that asked for this key"),
        ("answered from the record, the handler did not run", "the key has a stored success"),
    ]
    answers = [line for line in lines if "the runtime's answer" in line[0]]
    assert [what.rpartition(": ")[2] for what, _ in answers] == ["accepted", "not needed any more"]
    assert "duplicate result" in answers[1][1]


def test_a_failed_attempt_its_replay_and_the_next_attempt(told):
    def decline(input, ctx):
        raise TaskError("DECLINED", "no")

    desk = Desk(decline)
    for attempt in (1, 1, 2):
        desk.deliver(attempt=attempt)
    assert deliveries(told()) == [
        ("the handler ran", "it was the first delivery that asked for this key"),
        ("answered from the record, the handler did not run", "this attempt has a stored failure"),
        ("the handler ran", "the attempt before had failed, and this was a later one"),
    ]
    assert desk.runs == 2
    assert "reported as fail, DECLINED" in told()[2][0]


def killed(desk, **fields):
    """Leave what a killed process leaves of a claim that was committed, once its lease has ended."""

    class Killed(BaseException):
        pass

    def die(*arguments):
        raise Killed

    desk.executor.ledger.invoke = die
    with pytest.raises(Killed):
        desk.deliver(**fields)
    del desk.executor.ledger.invoke
    IdempotencyRecord.objects.filter(status="running").update(lease_ms=1)


@pytest.mark.parametrize("is_redelivery", [True, False])
def test_a_delivery_that_took_a_dead_claim_over_is_not_called_the_first(told, is_redelivery):
    desk = Desk(lambda input, ctx: {}, is_atomic=False)
    killed(desk)
    desk.deliver(redelivery=is_redelivery)
    assert IdempotencyRecord.objects.get().generation == 2
    taken_over = "an earlier delivery under this key ended without an outcome; this one took it over (claim 2)"
    assert deliveries(told()) == [("the handler ran", taken_over)]
    counted = [why for what, why in told() if "a redelivery began a run" in what]
    assert counted == ["counted, in case its process does not survive it"] * is_redelivery
    desk.deliver(redelivery=True)
    assert deliveries(told())[0] == ("the handler ran", taken_over)


def test_claims_without_an_outcome_are_told_when_nobody_knows_which_they_were(told):
    def decline(input, ctx):
        raise TaskError("DECLINED", "no")

    desk = Desk(decline, is_atomic=False)
    desk.deliver()
    killed(desk, attempt=2)
    assert deliveries(told()) == [("the handler ran", "it was the first delivery that asked for this key")]
    desk.deliver(attempt=2)
    assert deliveries(told()) == [
        (
            "the handler ran",
            "it left the first outcome of this key; there were 3 claims for 2 outcomes, the others ended without one",
        ),
        ("the handler ran", "the attempt before had failed, and this was a later one"),
    ]


@pytest.mark.parametrize("is_atomic", [True, False])
def test_what_another_execution_left_under_a_shared_key_explains_this_one(told, is_atomic):
    def decline(input, ctx):
        if ctx.execution_id != "e3":
            raise TaskError("DECLINED", "no")

    desk = Desk(decline, is_atomic=is_atomic)
    for name in ("e1", "e2", "e3", "e4"):
        desk.deliver(execution_id=name)
    assert desk.runs == 3
    others = "another execution had failed under this key, which lets this one run"
    assert deliveries(told("e1")) == [("the handler ran", "it was the first delivery that asked for this key")]
    assert deliveries(told("e2")) == deliveries(told("e3")) == [("the handler ran", others)]
    assert deliveries(told("e4")) == [
        ("answered from the record, the handler did not run", "the key has a stored success, of another execution")
    ]


def test_a_conflict(told):
    desk = Desk(lambda input, ctx: {})
    desk.deliver({"a": 1})
    desk.deliver({"a": 2})
    assert deliveries(told())[1] == (
        "conflict, nothing ran",
        "the key was used before with another input or contract version",
    )


def test_poison(told):
    desk = Desk(lambda input, ctx: {}, settings={"max_redeliveries": 1})
    desk.deliver(redelivery=True)
    OutboxMessage.objects.all().delete()
    IdempotencyRecord.objects.update(status="running", redeliveries=2, output=None, finished_at=None)
    desk.deliver(redelivery=True)
    assert deliveries(told()) == [
        ("poison, the handler did not run", "too many runs of this attempt had ended with their process")
    ]
    assert [what for what, _ in told() if "a redelivery began a run" in what]


def test_an_effect_that_nobody_knows_about_and_the_run_after_it_was_settled(told, client, person):
    desk = Desk(lambda input, ctx: {"paid": ctx.effect("pay", Till())}, is_atomic=False)
    desk.deliver()
    assert (
        "step: effect pay is open",
        "nobody knows whether it happened; it is not called again before somebody says so",
    ) in told()
    client.force_login(person(*ALL, "settle_effect"))
    address = f"/admin/orbit_django/effect/{Effect.objects.get().pk}/settle/"
    client.post(address, {"outcome": "happened", "result": "1", "confirmed": "yes"})
    desk.deliver(redelivery=True)
    assert deliveries(told())[1] == (
        "the handler ran",
        "the failure stored for this attempt had been cleared, or its process had died",
    )
    assert "step: effect pay finished" in [what for what, _ in told()]


def test_a_refused_success_and_the_failure_that_follows_it(told):
    record = record_of()
    message_of(record, status="refused", accepted=False, reason="output violates the task contract")
    body = f'{{"token":"{TOKEN}","error_code":"RESULT_REFUSED","error_message":"m","retryable":false}}'
    message_of(record, kind="fail", body=body, status="pending", settled_at=None, accepted=None, attempts=4)
    lines = told("exec-1")
    assert deliveries(lines)[1] == ("follows the refused success", "the step is to end instead of hanging; nothing ran")
    assert lines[-1] == ("step: the report of attempt 1 has no answer yet", "4 tries")


@pytest.mark.parametrize(("owner", "why"), [("w", "its claim ends"), ("", "no run holds it: the next delivery runs")])
def test_a_record_without_an_outcome_tells_whether_a_run_holds_it(told, owner, why):
    record_of("exec-1/a", status="running", output=None, finished_at=None, owner=owner, lease_ms=2**41)
    (line,) = (each for each in told("exec-1") if "attempt 1 has no outcome" in each[0])
    assert line[1].startswith(why)


def test_a_start_a_task_without_record_and_a_run_that_goes_on(told):
    ask("exec-1")
    record_of("exec-1/a", status="running", output=None, finished_at=None, lease_ms=2**41)
    message_of(None, kind="fail", body=f'{{"token":"{TOKEN}","error_code":"UNKNOWN_TASK"}}', execution_id="exec-1")
    lines = told("exec-1")
    assert ("no record, nothing ran", "the worker that got it does not serve this task") in deliveries(lines)
    texts = [what for what, _ in lines]
    assert any("Start of " in text for text in texts)
    assert "The start has no answer yet" in texts
    assert any("attempt 1 has no outcome" in text for text in texts)


def test_every_row_leads_to_its_execution_and_back(viewer):
    record = record_of("exec-1/a")
    rows = {"idempotencyrecord": record, "outboxmessage": message_of(record), "effect": effect_of(record)}
    page = viewer.get(PAGE, {"id": "exec-1"}).content.decode()
    for model, row in rows.items():
        assert f"/admin/orbit_django/{model}/{row.pk}/change/" in page
        for address in (f"/admin/orbit_django/{model}/", f"/admin/orbit_django/{model}/{row.pk}/change/"):
            assert f"{PAGE}?id=exec-1" in viewer.get(address).content.decode(), address


def test_each_table_is_shown_to_those_who_may_look_at_it(client, person):
    record = record_of("exec-1/a")
    message_of(record)
    client.force_login(person("view_outboxmessage"))
    answer = client.get(PAGE, {"id": "exec-1"})
    assert answer.context["steps"] == []
    assert len(answer.context["lines"]) == 2
    client.force_login(person("view_effect", "view_outboxmessage"))
    client.logout()
    assert client.get(PAGE, {"id": "exec-1"}).status_code == 302


def test_without_any_permission_there_is_nothing_to_see(client, person):
    client.force_login(person())
    assert client.get(PAGE, {"id": "exec-1"}).status_code == 403


@pytest.mark.promise("W9")
def test_nothing_secret_or_hostile_gets_through(viewer):
    record = record_of(
        HOSTILE, execution_id=HOSTILE, task_name=HOSTILE, step_id=HOSTILE, workflow=HOSTILE, worker_id=HOSTILE,
        output=f'{{"a":"{HOSTILE}","echo":"{TOKEN}"}}',
    )  # fmt: skip
    message_of(record, status="refused", accepted=False, reason=f"{HOSTILE} {TOKEN}", last_error=f"{HOSTILE} {TOKEN}")
    effect_of(record, name=HOSTILE, settled_by=HOSTILE, status="finished", finished_at=timezone.now())
    page = viewer.get(PAGE, {"id": HOSTILE}).content.decode()
    assert len(viewer.get(PAGE, {"id": HOSTILE}).context["lines"]) == 6
    assert "<img src=x" not in page
    assert TOKEN not in page


@pytest.mark.promise("W9")
def test_what_a_sensitive_task_made_is_hidden(viewer, serve):
    serve("pay.charge", sensitive=True)
    record = record_of("exec-1/a", output='{"card":"4242"}')
    message_of(record, status="refused", accepted=False, reason="output violates the task contract: 4242")
    page = viewer.get(PAGE, {"id": "exec-1"}).content.decode()
    assert "4242" not in page
    assert "declared sensitive" in page


def test_the_page_takes_few_queries_whatever_it_shows(viewer, django_assert_max_num_queries):
    for number in range(30):
        record = record_of(f"exec-1/{number}")
        message_of(record, f"token-{number}")
        effect_of(record)
    with django_assert_max_num_queries(12):
        assert len(viewer.get(PAGE, {"id": "exec-1"}).context["steps"]) == 30


@pytest.mark.parametrize("query", ["", "?id=", "?id=%00", "?id=" + "x" * 5_000, "?id=a&db=nowhere"])
def test_a_strange_address_is_no_crash(viewer, query):
    assert "Nothing is on record" in viewer.get(PAGE + query).content.decode()


def test_times_without_zones_are_shown_as_well(viewer, settings):
    settings.USE_TZ = False
    record = record_of("exec-1/a", history='[{"worker_id":"w","at":"2026-01-01T00:00:00+00:00"}]')
    message_of(record)
    assert len(viewer.get(PAGE, {"id": "exec-1"}).context["lines"]) == 5
