import pytest
from django.db import connection, transaction

from orbit_django import TaskError
from orbit_django.exceptions import ConfigurationError
from orbit_django.models import OutboxMessage
from orbit_django.testing import run_task
from tests.testapp.models import Charge
from tests.testing import handlers

pytestmark = pytest.mark.databases
everywhere = pytest.mark.parametrize(
    "commits",
    [
        pytest.param(False, marks=pytest.mark.django_db),
        pytest.param(True, marks=pytest.mark.django_db(transaction=True)),
    ],
)


@everywhere
@pytest.mark.parametrize(
    ("handler", "is_atomic"),
    [
        (handlers.charge, True),
        (handlers.charge_async, True),
        (handlers.charge, False),
        (handlers.charge_through_context, False),
    ],
)
def test_a_task_runs_through_the_ledger_in_the_transaction_of_the_test(serve, commits, handler, is_atomic):
    raw, name = connection.connection, serve(handler, atomic=is_atomic)
    report = run_task(name, {"amount": 7})

    assert (report.kind, report.is_success, report.is_replayed) == ("complete", True, False)
    assert report.output == ({} if handler is handlers.charge_async else {"amount": 7})
    assert (report.record.status, report.message.status) == ("succeeded", "delivered")
    assert Charge.objects.get().key == report.record.idempotency_key
    assert connection.in_atomic_block is not commits
    assert commits or connection.connection is raw

    again = run_task(name, {"amount": 7}, idempotency_key=report.record.idempotency_key, redelivery=True)
    assert (again.is_replayed, again.output) == (True, report.output)
    assert Charge.objects.count() == 1
    assert run_task(name, {"amount": 7}).record != report.record


@everywhere
@pytest.mark.parametrize("is_atomic", [True, False])
def test_a_failure_is_a_report(serve, commits, is_atomic):
    def refuse(input, ctx):
        if is_atomic:
            handlers.charge(input, ctx)
        raise TaskError("LENT_OUT", "Ada has it", retryable=False, details={"member": "Ada"})

    report = run_task(serve(refuse, atomic=is_atomic))

    assert (report.kind, report.output, report.is_success) == ("fail", None, False)
    assert (report.error_code, report.error_message, report.retryable) == ("LENT_OUT", "Ada has it", False)
    assert report.error_details == {"member": "Ada"}
    assert report.record.status == "failed"
    assert Charge.objects.count() == 0


@everywhere
@pytest.mark.promise("E8")
def test_a_result_that_breaks_the_contract_is_a_failure_as_in_a_worker(serve, commits, settings, tmp_path):
    (tmp_path / "kit.orbit").write_text('task "kit.task" { version "1.0.0" output { amount: Int, day: String } }')
    settings.ORBIT = {**getattr(settings, "ORBIT", {}), "CONTRACTS": [tmp_path / "kit.orbit"]}

    report = run_task(serve(handlers.charge), {"amount": "7"})

    assert (report.is_success, report.error_code, report.retryable) == (False, "INVALID_RESULT", False)
    assert report.error_details["fields"] == {
        "$.amount": "expected Int, found String",
        "$.day": "missing required field `day` of type String",
    }
    assert Charge.objects.count() == 0


@pytest.mark.django_db
def test_an_input_that_breaks_the_contract_is_warned_of(serve, settings, tmp_path):
    (tmp_path / "kit.orbit").write_text('task "kit.task" { version "1.0.0" input { amount: Int, day: String } }')
    settings.ORBIT = {**getattr(settings, "ORBIT", {}), "CONTRACTS": [tmp_path / "kit.orbit"]}
    name = serve(handlers.charge)

    with pytest.warns(UserWarning, match=r"the contract of kit\.task 1\.0\.0 in CONTRACTS: \$\.day: missing") as told:
        assert run_task(name, {"amount": 7}).is_success
    assert [warning.filename for warning in told] == [__file__]
    assert run_task(name, {"amount": 7, "day": "today"}).is_success, "and no warning, which would be an error"


@pytest.mark.django_db
def test_a_conflict_is_no_replay(serve):
    name = serve(handlers.charge)
    run_task(name, {"amount": 1}, idempotency_key="k")
    report = run_task(name, {"amount": 2}, idempotency_key="k")

    assert (report.error_code, report.is_replayed) == ("IDEMPOTENCY_CONFLICT", False)


@everywhere
def test_hooks_run_once_after_the_task(serve, commits, mailoutbox):
    report = run_task(serve(handlers.mail_after_commit))

    assert report.is_success
    assert len(mailoutbox) == 1
    assert connection.run_on_commit == []


@pytest.mark.django_db
def test_hooks_of_the_test_itself_are_left_alone(serve, mailoutbox):
    transaction.on_commit(lambda: None)
    run_task(serve(handlers.mail_after_commit))

    assert len(mailoutbox) == 1
    assert len(connection.run_on_commit) == 1


@pytest.mark.django_db
def test_fields_can_be_said_and_unknown_ones_are_refused(serve):
    def show(input, ctx):
        return {"seen": [ctx.attempt, ctx.step_id, ctx.redelivery, ctx.timeout_ms, ctx.execution_id]}

    name = serve(show)
    report = run_task(name, attempt=2, step_id="pay[0]", redelivery=True, timeout_ms=5_000, execution_id="e1")
    assert report.output == {"seen": [2, "pay[0]", True, 5_000, "e1"]}
    assert report.record.idempotency_key == "e1/pay[0]"
    with pytest.raises(TypeError, match="has no retries; it has attempt, contract_version"):
        run_task(name, retries=3)


@pytest.mark.django_db
def test_an_input_is_what_json_makes_of_it(serve):
    def show(input):
        return {"seen": input}

    name = serve(show)
    assert run_task(name, {"pair": (1, 2)}).output == {"seen": {"pair": [1, 2]}}
    assert run_task(name).output == {"seen": {}}


@pytest.mark.django_db
def test_names_and_versions_without_a_handler_are_told_apart(serve):
    serve(handlers.charge, "kit.charge", "1.0.0")
    serve(lambda input: {}, "kit.charge", "2.0.0")

    with pytest.raises(LookupError, match=r"'kit.charges'; did you mean 'kit.charge'\?"):
        run_task("kit.charges")
    with pytest.raises(LookupError, match=r"'kit.refund'; known are: "):
        run_task("kit.refund")
    with pytest.raises(LookupError, match=r"the versions 1.0.0, 2.0.0; say which"):
        run_task("kit.charge")
    assert run_task("kit.charge", contract_version="2.0.0").output == {}


@pytest.mark.django_db
def test_what_is_held_by_another_run_is_no_report(serve):
    def again(input, ctx):
        run_task("kit.task", idempotency_key=ctx.idempotency_key)
        return {}

    report = run_task(serve(again, atomic=False), idempotency_key="k")
    assert "another run holds its idempotency key" in report.error_message


@pytest.mark.django_db(transaction=True)
def test_a_task_that_commits_is_not_run_inside_a_transaction(serve):
    name = serve(handlers.charge, atomic=False)
    with transaction.atomic(), pytest.raises(ConfigurationError, match=r"cannot be run inside transaction\.atomic"):
        run_task(name)


@pytest.mark.django_db
@pytest.mark.parametrize(("is_atomic", "words"), [(True, "an atomic block open"), (False, "a transaction open")])
def test_what_a_task_leaves_open_is_its_failure_and_the_test_goes_on(serve, is_atomic, words):
    raw = connection.connection

    def leave_open(input, ctx):
        transaction.atomic().__enter__()
        handlers.charge(input, ctx)
        transaction.atomic().__enter__()
        return {}

    Charge.objects.create(key="mine")
    report = run_task(serve(leave_open, atomic=is_atomic))

    assert words in report.error_message
    assert connection.connection is raw
    assert Charge.objects.get().key == "mine"
    assert OutboxMessage.objects.get() == report.message
