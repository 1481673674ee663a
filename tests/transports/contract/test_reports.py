"""Reports and what becomes of them, by the same cases over every binding that knows sessions."""

import pytest

from orbit_django.exceptions import NoAnswerError, RefusedError
from orbit_django.protocol import REASON_CONTRACT, REASON_STALE, Kind, Receipt
from tests.transports.contract.side import MAX_BODY, Side, completion, failure


@pytest.mark.promise("D2")
def test_a_success_is_accepted_once(side: Side) -> None:
    task = side.task()

    assert side.transport.send(Kind.COMPLETE, completion(task.token)) == Receipt(True, "")
    assert side.status() == "COMPLETED"
    again = side.transport.send(Kind.COMPLETE, completion(task.token))
    assert (again.accepted, again.reason) == (False, "unknown token (execution finished or token invalid)")


@pytest.mark.promise("D2")
def test_a_failure_is_accepted(side: Side) -> None:
    task = side.task()
    details = {"asked": ["Zoë", 1.5, None, True], "more": {"deep": {}}}

    assert side.transport.send(Kind.FAIL, failure(task.token, details=details)).accepted
    assert side.status() == "FAILED"
    with side.runtime.lock:
        error = side.runtime.runtime.state.execution("e-1").error
    assert "NO_NAME" in str(error)


@pytest.mark.promise("D2")
@pytest.mark.parametrize("kind", Kind)
def test_a_result_for_a_step_that_is_resolved_is_a_duplicate(side: Side, kind: Kind) -> None:
    task = side.task(workflow="Twice")
    assert side.transport.send(Kind.COMPLETE, completion(task.token)).accepted

    again = side.transport.send(kind, completion(task.token) if kind is Kind.COMPLETE else failure(task.token))
    assert again == Receipt(False, "duplicate result; step already resolved")


@pytest.mark.promise("D3")
def test_a_success_that_its_contract_does_not_allow_is_not_accepted(side: Side) -> None:
    task = side.task()
    receipt = side.transport.send(Kind.COMPLETE, completion(task.token, {"message": 5}))
    assert receipt == Receipt(False, REASON_CONTRACT)


@pytest.mark.promise("D2")
def test_a_failure_of_a_task_that_was_delivered_again_is_stale(side: Side) -> None:
    session = side.session()
    first = side.task(session)
    side.transport.unregister(session, timeout_seconds=3)
    second = side.transport.poll(side.session(), 1_000)
    assert second is not None

    assert side.transport.send(Kind.FAIL, failure(first.token)) == Receipt(False, REASON_STALE)
    assert side.transport.send(Kind.COMPLETE, completion(second.token)).accepted


@pytest.mark.promise("D1", "D4")
@pytest.mark.parametrize("fault", ["lost", "cut", "garbage"])
def test_a_report_whose_answer_does_not_arrive_may_have_been_processed(side: Side, fault: str) -> None:
    task = side.task()
    side.faults.add(fault, "complete")
    with pytest.raises(NoAnswerError) as caught:
        side.transport.send(Kind.COMPLETE, completion(task.token))

    assert caught.value.is_maybe_processed
    assert task.token not in str(caught.value)
    assert side.status() == "COMPLETED"
    assert not side.transport.send(Kind.COMPLETE, completion(task.token)).accepted


@pytest.mark.promise("D3")
def test_a_report_that_the_runtime_cannot_use_leaves_the_attempt_open(side: Side) -> None:
    task = side.task()
    with pytest.raises(RefusedError, match=r"^400 INVALID_REQUEST") as caught:
        side.transport.send(Kind.FAIL, failure(task.token, error_code=""))
    assert caught.value.is_from_runtime
    assert side.transport.send(Kind.COMPLETE, completion(task.token)).accepted


@pytest.mark.promise("D3")
def test_a_success_that_is_too_large_for_the_runtime_is_followed_by_a_failure(side: Side) -> None:
    task = side.task()
    with pytest.raises(RefusedError) as caught:
        side.transport.send(Kind.COMPLETE, completion(task.token, {"message": "x" * MAX_BODY}))

    assert (caught.value.status, caught.value.is_from_runtime) == (413, True)
    assert side.transport.send(Kind.FAIL, failure(task.token)).accepted


@pytest.mark.promise("E8")
def test_a_report_that_can_be_sent_passes_its_check_without_the_network(side: Side) -> None:
    side.runtime.stop()
    side.transport.check_report(Kind.COMPLETE, completion("t"))
    side.transport.check_report(Kind.FAIL, failure("t", details={"n": 2**60, "text": "x" * 100_000}))
