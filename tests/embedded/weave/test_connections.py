"""The context of a task and the secrets of its connection, with every grant that they need."""

import uuid
from typing import Any

import pytest

from tests.embedded.weave.scene import MAIL, Scene, is_problem
from tests.embedded.wire import Reply


@pytest.fixture
def revision(scene: Scene) -> str:
    scene.ready(credential_capabilities=[MAIL])
    more: dict[str, Any] = {"config": {"host": "mail"}, "allowed_destinations": ["mail:25"], "secrets": {"key": "s3"}}
    return str(scene.call("add_connection", connector="smtp@1.0.0", **more))


def grant(scene: Scene, revision: str, **more: Any) -> None:
    scene.call("grant_connection", release_id=scene.release_id, revision_id=revision, capability=MAIL, **more)


def fetch(scene: Scene, lease: dict, revision: str, slot: str = "key") -> Reply:
    body = {"lease": lease["proof"], "connection_revision_id": revision, "slot": slot}
    return scene.post("/tasks/credentials", body)


def test_the_context_shows_the_bound_connection_without_secrets(scene: Scene, revision: str) -> None:
    bound, plain = scene.lease(connection_revision_id=revision), scene.lease()
    assert scene.post("/tasks/context", bound["proof"]).json == {
        "connection": {
            "revision_id": revision,
            "connector": "smtp@1.0.0",
            "config": {"host": "mail"},
            "allowed_destinations": ["mail:25"],
            "secret_slots": ["key"],
        },
        "expires_at": bound["expires_at"],
    }
    assert scene.post("/tasks/context", plain["proof"]).json["connection"] is None


def test_a_secret_is_given_and_not_to_be_stored(scene: Scene, revision: str) -> None:
    lease = scene.lease(connection_revision_id=revision)
    reply = scene.post(
        "/worker-connection-grants",
        {"release_id": scene.release_id, "connection_revision_id": revision, "capability": MAIL},
        "administrator",
    )
    assert (reply.status, reply.json) == (201, {"granted": True})
    given = fetch(scene, lease, revision)

    assert given.json == {"value": "s3", "provider_version": None, "expires_at": lease["expires_at"]}
    assert (given.headers["cache-control"], given.headers["pragma"]) == ("no-store", "no-cache")
    (audit,) = scene.call("audits")
    assert (audit["slot"], audit["connection_revision_id"]) == ("key", revision)
    assert "s3" not in str(audit)


def test_every_grant_is_needed(scene: Scene, revision: str) -> None:
    lease, unbound = scene.lease(connection_revision_id=revision), scene.lease()
    assert is_problem(fetch(scene, lease, revision), 403, "WV-FORBIDDEN")
    grant(scene, revision)
    assert is_problem(fetch(scene, unbound, revision), 403, "WV-FORBIDDEN")
    assert is_problem(fetch(scene, lease, str(uuid.uuid4())), 403, "WV-FORBIDDEN")
    assert is_problem(fetch(scene, lease, revision, "other"), 500, "WV-INTERNAL")
    scene.call("set_handle_grant", revision_id=revision, is_granted=False)
    assert is_problem(fetch(scene, lease, revision), 422, "WV-CONNECTION")
    scene.call("set_handle_grant", revision_id=revision, is_granted=True)
    assert fetch(scene, lease, revision).status == 200


def test_the_release_has_to_opt_in(scene: Scene, revision: str) -> None:
    scene.ready(digest="sha256:" + "b" * 64)
    lease = scene.lease(connection_revision_id=revision)
    grant(scene, revision)
    assert is_problem(fetch(scene, lease, revision), 403, "WV-FORBIDDEN")


def test_a_revocation_between_claim_and_fetch_counts(scene: Scene, revision: str) -> None:
    grant(scene, revision)
    lease = scene.lease(connection_revision_id=revision)
    grant(scene, revision, is_revoked=True)
    assert is_problem(fetch(scene, lease, revision), 403, "WV-FORBIDDEN")


def test_a_revocation_while_the_provider_is_asked_counts_too(scene: Scene, revision: str) -> None:
    grant(scene, revision)
    lease = scene.lease(connection_revision_id=revision)
    scene.weave.provider = lambda: grant(scene, revision, is_revoked=True)
    assert is_problem(fetch(scene, lease, revision), 403, "WV-FORBIDDEN")
    assert scene.call("audits") == []


def test_a_secret_needs_a_live_lease(scene: Scene, revision: str) -> None:
    grant(scene, revision)
    lease = scene.lease(connection_revision_id=revision)
    scene.weave.advance(15)
    assert is_problem(fetch(scene, lease, revision), 409, "WV-LEASE")
    assert is_problem(scene.post("/tasks/context", lease["proof"]), 409, "WV-LEASE")


def test_the_secret_ends_with_the_earlier_of_two_looks(scene: Scene, revision: str) -> None:
    grant(scene, revision)
    lease = scene.lease(connection_revision_id=revision)

    def renew() -> None:
        scene.weave.advance(5)
        with scene.weave.changing() as platform:
            attempt = platform.state.attempt(lease["proof"]["task_id"], 1)
            attempt.expires_at += 5

    scene.weave.provider = renew
    assert fetch(scene, lease, revision).json["expires_at"] == lease["expires_at"]


def test_a_provider_that_fails_is_a_500(scene: Scene, revision: str, caplog: pytest.LogCaptureFixture) -> None:
    grant(scene, revision)
    lease = scene.lease(connection_revision_id=revision)

    def fail() -> None:
        raise RuntimeError("the vault is shut")

    scene.weave.provider = fail
    assert is_problem(fetch(scene, lease, revision), 500, "WV-INTERNAL")
    assert "a request of the Weave server failed" in caplog.text
