"""How each call fails, by the same cases over every binding that knows sessions."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from orbit_django.exceptions import NoAnswerError, RefusedError
from orbit_django.protocol import Contract, Kind, Registration
from orbit_django.transports import http
from orbit_django.transports.grpc import binding as grpc_binding
from tests.processes import wait_for
from tests.transports.contract.side import (
    CALLS,
    CONTRACTS,
    OWN,
    Side,
    completion,
    every_call,
    failure,
    refused,
    unanswered,
)


@every_call
@pytest.mark.promise("W9")
@pytest.mark.parametrize("token", [None, "other-SECRET-1"])
def test_a_credential_that_is_not_accepted(side: Side, call: str, token: str | None) -> None:
    error = refused(call, side.open(token))
    assert (error.status, error.code, error.is_from_runtime) == (401, "UNAUTHENTICATED", True)


@pytest.mark.promise("W9")
def test_what_an_identity_may_not_do(side: Side) -> None:
    own = side.open(OWN)
    session = side.session()
    task = side.task(session)
    calls: list[Callable[[], object]] = [
        lambda: own.register(Registration("shop-2", "ruby", CONTRACTS, "t/1")),
        lambda: own.register(Registration("shop-1", "ruby", (Contract("pay.charge", "1.0.0"),), "t/1")),
        lambda: own.poll(session, 50),
        lambda: own.heartbeat(session, timeout_seconds=3),
        lambda: own.send(Kind.COMPLETE, completion(task.token)),
        lambda: own.send(Kind.FAIL, failure(task.token)),
        lambda: own.unregister(session, timeout_seconds=3),
    ]
    for call in calls:
        with pytest.raises(RefusedError, match=r"^403 FORBIDDEN") as caught:
            call()
        assert (caught.value.status, caught.value.is_from_runtime) == (403, True)
    assert own.register(Registration("shop-1", "ruby", CONTRACTS, "t/1")).session_id
    assert side.transport.send(Kind.COMPLETE, completion(task.token)).accepted


@every_call
@pytest.mark.promise("D1")
@pytest.mark.parametrize(
    ("fault", "value"),
    [("status", 500), ("status", 503), ("html", 502), ("html", 504), ("leader", "http://10.0.0.2:1"), ("drop", None)],
)
def test_trouble_that_passes_is_no_answer(side: Side, call: str, fault: str, value: object) -> None:
    side.faults.add(fault, call, value=value)
    assert unanswered(call, side.transport).is_maybe_processed


@pytest.mark.promise("D1")
@pytest.mark.parametrize("call", ["register", "complete", "fail"])
def test_an_answer_that_nobody_can_read_is_none(side: Side, call: str) -> None:
    side.faults.add("garbage", call)
    assert unanswered(call, side.transport).is_maybe_processed


@every_call
def test_a_refusal_of_the_runtime_keeps_its_code(side: Side, call: str) -> None:
    side.faults.add("status", call, value=(409, "ODD_STATE"))
    error = refused(call, side.transport)
    assert (error.status, error.code, error.message, error.is_from_runtime) == (409, "ODD_STATE", "injected", True)


@every_call
def test_a_404_of_somebody_else_is_no_unknown_session(side: Side, call: str) -> None:
    side.faults.add("html", call, value=404)
    error = refused(call, side.transport)
    assert (error.status, error.code, error.is_from_runtime) == (404, "", False)


@every_call
@pytest.mark.promise("D6")
def test_a_runtime_that_is_away_was_not_reached_and_is_found_again(side: Side, call: str) -> None:
    side.runtime.go_away()
    assert not unanswered(call, side.transport).is_maybe_processed
    side.runtime.come_back()

    def is_back() -> bool:
        try:
            return bool(side.session())
        except NoAnswerError:
            return False

    assert wait_for(is_back, 5)


@every_call
@pytest.mark.promise("W10")
def test_every_call_ends_within_its_time(side: Side, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (http, grpc_binding):
        monkeypatch.setattr(module, "CALL_SECONDS", 0.4)
        monkeypatch.setattr(module, "POLL_EXTRA_SECONDS", 0.35)
    short = {
        "heartbeat": lambda: side.transport.heartbeat("s-1", timeout_seconds=0.4),
        "unregister": lambda: side.transport.unregister("s-1", timeout_seconds=0.4),
    }
    side.faults.add("hold", call, value=20_000)
    began = time.monotonic()
    with pytest.raises(NoAnswerError) as caught:
        short.get(call, lambda: CALLS[call](side.transport))()

    assert 0.35 < time.monotonic() - began < 3
    assert caught.value.is_maybe_processed


@pytest.mark.promise("W2")
def test_closing_waits_for_no_poll_and_a_later_call_goes_on(side: Side) -> None:
    session = side.session()
    with ThreadPoolExecutor() as threads:
        poll = threads.submit(side.transport.poll, session, 1_000)
        wait_for(lambda: side.faults.times("poll"))
        began = time.monotonic()
        side.transport.close()
        assert time.monotonic() - began < 0.9
        error = poll.exception(5)
    assert error is None or isinstance(error, NoAnswerError)
    assert side.transport.heartbeat(session, timeout_seconds=3) == ()
