"""Secrets that the platform lends to a handler."""

from collections.abc import Iterator

import pytest

from orbit_django.exceptions import CredentialsError
from orbit_django.protocol import Assignment
from tests.transports.weave.scene import MAIL, Scene


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene(opt_in=(MAIL,))
    yield scene
    scene.close()


def bound(scene: Scene, **more: bool) -> Assignment:
    revision = scene.call("add_connection", secrets={"api": "s3cret-value", "other": "x"})
    scene.call("grant_connection", release_id=scene.release_id, revision_id=revision, capability=MAIL, **more)
    return scene.poll(connection_revision_id=revision)


@pytest.mark.clause("V90", "V91", "V92")
def test_a_slot_is_lent_for_a_short_time(scene: Scene) -> None:
    given = bound(scene)
    lease = scene.transport.deliveries.credentials(given.token, "api")
    assert lease.value == "s3cret-value"
    assert lease.expires_at is not None
    assert "s3cret" not in repr(lease)
    scene.transport.deliveries.credentials(given.token, "api")
    assert [len(scene.sent("context")), len(scene.sent("credentials"))] == [1, 2], "asked for anew, the slots once"
    assert scene.bodies("context") == [given.token.encode()]


@pytest.mark.clause("V21", "V93")
@pytest.mark.parametrize("call", ["context", "credentials"])
def test_at_capacity_the_same_bytes_go_again_while_the_lease_lives(scene: Scene, call: str) -> None:
    given = bound(scene)
    scene.faults.add("capacity", call, times=4)
    assert scene.transport.deliveries.credentials(given.token, "api").value == "s3cret-value"
    assert (len(scene.bodies(call)), len(set(scene.bodies(call)))) == (5, 1)


def test_at_capacity_for_too_long_the_lease_ends() -> None:
    scene = Scene(opt_in=(MAIL,), lease_seconds=1)
    try:
        given = bound(scene)
        scene.faults.add("capacity", "context", times=999)
        with pytest.raises(CredentialsError, match="until the lease had ended"):
            scene.transport.deliveries.credentials(given.token, "api")
    finally:
        scene.close()


@pytest.mark.clause("V93")
@pytest.mark.parametrize("fault", ["drop", "garbage", "lost"])
@pytest.mark.parametrize("call", ["context", "credentials"])
def test_nothing_else_is_asked_for_again(scene: Scene, call: str, fault: str) -> None:
    given = bound(scene)
    scene.faults.add(fault, call)
    with pytest.raises(CredentialsError, match="credentials for the slot 'api'"):
        scene.transport.deliveries.credentials(given.token, "api")
    assert len(scene.sent(call)) == 1


def test_a_task_without_a_connection_a_slot_that_is_not_there_and_a_missing_grant_say_so(scene: Scene) -> None:
    given = scene.poll()
    with pytest.raises(CredentialsError, match="no connection is bound"):
        scene.transport.deliveries.credentials(given.token, "api")
    given = bound(scene)
    with pytest.raises(CredentialsError, match=r"'nope'.*it has: api, other"):
        scene.transport.deliveries.credentials(given.token, "nope")
    given = bound(scene, is_revoked=True)
    with pytest.raises(CredentialsError, match="403 WV-FORBIDDEN"):
        scene.transport.deliveries.credentials(given.token, "api")


def test_a_lease_that_was_let_go_of_borrows_nothing(scene: Scene) -> None:
    given = bound(scene)
    scene.complete(given)
    with pytest.raises(CredentialsError, match="has ended"):
        scene.transport.deliveries.credentials(given.token, "api")
    assert scene.sent("context") == []


def test_a_grant_that_is_revoked_between_claim_and_fetch_counts(scene: Scene) -> None:
    given = bound(scene)
    revision = str(scene.task(given)["connection_revision_id"])
    scene.call("grant_connection", release_id=scene.release_id, revision_id=revision, capability=MAIL, is_revoked=True)
    with pytest.raises(CredentialsError, match="WV-FORBIDDEN"):
        scene.transport.deliveries.credentials(given.token, "api")
