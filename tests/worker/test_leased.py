"""Deliveries of a runtime that leases them: what is kept of their proofs, and what the binding is told."""

import json

import pytest

from orbit_django.exceptions import ConfigurationError, RefusedError
from orbit_django.models import OutboxMessage
from orbit_django.protocol import CredentialLease, Kind, Receipt
from orbit_django.transports.base import Deliveries
from orbit_django.worker.delivery import Deferred
from tests.ledger import Desk, charge, sent
from tests.worker.looping import MESSAGE
from tests.worker.looping import World as LoopWorld
from tests.worker.relaying import Status
from tests.worker.relaying import World as RelayWorld
from tests.worker.words import assignment

PROOF = '{"task_id":"t","generation":1,"owner":"w","token":"a-very-secret-token"}'


class Recording(Deliveries):
    def __init__(self) -> None:
        self.taken: list[str] = []
        self.dropped: list[str] = []

    def take(self, token: str) -> None:
        self.taken.append(token)

    def drop(self, token: str) -> None:
        self.dropped.append(token)

    def credentials(self, token: str, slot: str) -> CredentialLease:
        return CredentialLease(f"{slot} of {token}")


def fail(input: object, ctx: object) -> object:
    raise ValueError("no")


@pytest.mark.clause("V52")
@pytest.mark.django_db(transaction=True)
@pytest.mark.databases
@pytest.mark.parametrize("function", [charge, fail])
@pytest.mark.promise("D4")
def test_a_leased_outcome_has_an_id_that_is_committed_with_it_and_a_proof_that_goes_with_the_answer(function) -> None:
    world = RelayWorld()
    message = Desk(function).deliver(token=PROOF, is_leased=True)
    kept = OutboxMessage.objects.get()
    assert len(kept.completion_id) == 36
    assert (sent(kept), sent(kept)["token"]) == (sent(message), PROOF)
    assert sent(kept)["completion_id"] == kept.completion_id
    assert ("output" in sent(kept)) is (function is charge)
    assert ("error_code" in sent(kept)) is (function is fail)

    world.transport.script("send", Receipt(True, text='{"status":"completed"}'))
    world.relay.deliver(message)
    kept = OutboxMessage.objects.get()
    assert (kept.status, kept.receipt) == (Status.DELIVERED, '{"status":"completed"}')
    assert "secret" not in kept.token + kept.body + json.dumps(sent(kept))


@pytest.mark.django_db(transaction=True)
def test_a_delivery_without_a_lease_has_no_such_id_and_keeps_its_token() -> None:
    world = RelayWorld()
    message = Desk(charge).deliver()
    assert list(sent(message)) == ["token", "output"]
    world.relay.deliver(message)
    assert (OutboxMessage.objects.get().completion_id, OutboxMessage.objects.get().token) == ("", message.token)


@pytest.mark.django_db(transaction=True)
@pytest.mark.databases
@pytest.mark.promise("D3")
def test_a_refused_success_is_followed_by_a_failure_with_an_id_of_its_own_under_the_same_proof() -> None:
    world = RelayWorld()
    message = Desk(charge).deliver(token=PROOF, is_leased=True)
    world.transport.script("send", RefusedError(422, "WV-VALIDATION", "no", is_from_runtime=True))
    world.relay.deliver(message)
    (_, first), (kind, second) = world.sent()
    assert (kind, second["token"], second["error_code"]) == (Kind.FAIL, PROOF, "RESULT_REFUSED")
    assert len({first["completion_id"], second["completion_id"]}) == 2
    assert [kept.token for kept in OutboxMessage.objects.all()] == ["", ""]


@pytest.mark.django_db(transaction=True)
def test_a_failure_that_is_too_large_is_cut_down_under_the_same_id() -> None:
    world = RelayWorld()
    message = Desk(fail).deliver(token=PROOF, is_leased=True)
    world.transport.script("send", RefusedError(413, "TOO_LARGE", "no", is_from_runtime=True))
    world.relay.deliver(message)
    (_, first), (_, second) = world.sent()
    assert (first["completion_id"], second["token"]) == (second["completion_id"], PROOF)
    assert "details" in first
    assert "details" not in second


@pytest.mark.parametrize("answer", [Deferred.DROPPED, RuntimeError("bug")])
def test_the_binding_is_told_of_a_delivery_that_will_not_be_reported(answer) -> None:
    world = LoopWorld()
    world.rooms.deliveries = deliveries = Recording()
    world.answers = [answer]
    world.transport.script("poll", assignment(PROOF))
    try:
        world.loop.step()
    except RuntimeError as error:
        assert error is answer  # noqa: PT017  (one of the cases)
    assert deliveries.dropped == [PROOF]
    assert not len(world.held)


def test_the_binding_is_told_of_a_delivery_that_comes_too_late_and_not_of_one_that_is_reported() -> None:
    world = LoopWorld()
    world.rooms.deliveries = deliveries = Recording()
    world.answers = [MESSAGE]
    world.transport.script("poll", assignment("first"), assignment("second"))
    world.loop.step()
    assert deliveries.dropped == []
    assert world.held.close_when_empty(0)
    world.loop.step()
    assert deliveries.dropped == ["second"]


def test_a_handler_asks_the_binding_for_credentials() -> None:
    world = LoopWorld()
    world.rooms.deliveries = Recording()
    world.answers = [Deferred.DROPPED]
    world.transport.script("poll", assignment(PROOF))
    world.loop.step()
    lease = world.executed[0].credentials("api")
    assert lease.value == f"api of {PROOF}"
    assert "api of" not in repr(lease)


def test_other_bindings_say_that_they_lend_none() -> None:
    world = LoopWorld()
    world.answers = [Deferred.DROPPED]
    world.transport.script("poll", assignment())
    world.loop.step()
    with pytest.raises(ConfigurationError, match=r"ctx\.credentials: .* TRANSPORT 'weave'"):
        world.executed[0].credentials("api")


def test_the_binding_is_told_of_a_delivery_that_has_arrived() -> None:
    world = LoopWorld()
    world.rooms.deliveries = deliveries = Recording()
    world.answers = [MESSAGE]
    world.transport.script("poll", assignment(PROOF))
    world.loop.step()
    assert deliveries.taken == [PROOF]
