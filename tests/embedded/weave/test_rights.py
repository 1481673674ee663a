"""Tokens, rights, draining and revoked instances: looked up anew for every call."""

import base64
import uuid
from urllib.parse import urlencode

import pytest

from orbit_django.embedded.weave.platform import SECRET
from tests.embedded.weave.scene import DIGEST, MAIL, Scene, capability, is_problem
from tests.embedded.wire import Reply

FORM = {"content-type": "application/x-www-form-urlencoded"}
ONE = str(uuid.UUID(int=1))


def ask(scene: Scene, headers: dict[str, str] | None = None, **form: str) -> Reply:
    body = urlencode({"grant_type": "client_credentials"} | form).encode()
    return scene.client.send("POST", "/oauth/token", body, FORM | (headers or {}))


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer  x", "Basic x", "Bearer x y", "Bearer nothing"])
def test_a_request_without_a_good_token_is_refused(scene: Scene, header: str) -> None:
    reply = scene.client.send("POST", scene.prefix + "/tasks/claim", b"{}", {"authorization": header})
    assert is_problem(reply, 401, "WV-UNAUTHENTICATED")
    assert reply.headers["www-authenticate"] == "Bearer"


def test_the_scheme_is_read_without_regard_to_case(scene: Scene) -> None:
    scene.ready()
    reply = scene.raw("/tasks/claim", b"{}", authorization=f"bEARER {scene.token()}")
    assert is_problem(reply, 422, "WV-VALIDATION")


def test_a_token_for_somebody_else_is_refused(scene: Scene) -> None:
    scene.ready()
    scene.tokens["worker"] = scene.call("issue_token", name="worker", audience="elsewhere")
    assert is_problem(scene.claim(), 401, "WV-UNAUTHENTICATED")


def test_client_credentials_bring_a_token_that_expires(scene: Scene) -> None:
    scene.ready()
    basic = base64.b64encode(f"worker:{SECRET}".encode()).decode()
    replies = [
        ask(scene, client_id="worker", client_secret=SECRET),
        ask(scene, {"authorization": f"Basic {basic}"}),
    ]
    for reply in replies:
        given = reply.json
        assert (given["token_type"], given["expires_in"]) == ("Bearer", 300)
        assert reply.headers["cache-control"] == "no-store"
        scene.tokens["worker"] = given["access_token"]
        assert scene.claim().status == 200
    scene.weave.advance(300)
    assert is_problem(scene.claim(), 401, "WV-UNAUTHENTICATED")
    scene.tokens["worker"] = ask(scene, client_id="worker", client_secret=SECRET).json["access_token"]
    assert scene.claim().status == 200


def test_wrong_credentials_bring_none(scene: Scene) -> None:
    for name, secret in (("worker", "wrong"), ("nobody", SECRET)):
        reply = ask(scene, client_id=name, client_secret=secret)
        assert (reply.status, reply.json) == (401, {"error": "invalid_client"})
    reply = ask(scene, grant_type="password")
    assert (reply.status, reply.json) == (400, {"error": "unsupported_grant_type"})


def test_a_token_that_ends_in_mid_run_can_be_renewed(scene: Scene) -> None:
    lease = scene.ready().lease()
    scene.call("expire_tokens", name="worker")
    assert is_problem(scene.heartbeat(lease), 401, "WV-UNAUTHENTICATED")
    assert is_problem(scene.complete(lease), 401, "WV-UNAUTHENTICATED")
    scene.tokens.clear()
    assert scene.complete(lease).status == 200


def test_a_worker_uses_nothing_but_the_rights_of_a_worker(scene: Scene) -> None:
    scene.ready()
    scene.call("add_principal", name="both", secret="s", roles=["worker", "deployer"], kind="worker")
    body = {"image_digest": "sha256:" + "c" * 64, "capabilities": []}
    assert is_problem(scene.post("/worker-releases", body, "both"), 422, "WV-VALIDATION")
    for path in (f"/workers/{scene.worker_id}", f"/worker-releases/{scene.release_id}"):
        assert is_problem(scene.raw(path, b"", method="GET"), 403, "WV-FORBIDDEN")
        assert scene.raw(path, b"", who="administrator", method="GET").status in {200}
    assert is_problem(scene.post(f"/workers/{scene.worker_id}/revoke", {}), 403, "WV-FORBIDDEN")
    assert is_problem(scene.post("/tasks/claim", {"worker_id": ONE, "limit": 1}, "deployer"), 409, "WV-LEASE")
    assert is_problem(scene.register(who="deployer"), 403, "WV-FORBIDDEN")


def test_admission_comes_from_another_identity(scene: Scene) -> None:
    scene.call("add_principal", name="both", secret="s", roles=["worker", "deployer"], kind="worker")
    body = {"image_digest": DIGEST, "capabilities": [capability()]}
    assert is_problem(scene.post("/worker-releases", body, "both"), 403, "WV-FORBIDDEN")
    assert is_problem(scene.post("/worker-releases", body, "worker"), 403, "WV-FORBIDDEN")


def test_a_narrowed_grant_lists_the_release_and_the_task_type(scene: Scene) -> None:
    scene.ready()
    for resources in ([scene.release_id], [MAIL]):
        scene.call("set_principal", name="worker", resources=resources)
        assert is_problem(scene.claim(), 403, "WV-FORBIDDEN")
        assert is_problem(scene.register(), 403, "WV-FORBIDDEN")
    scene.call("set_principal", name="worker", resources=[scene.release_id, MAIL])
    assert scene.claim().status == 200
    assert scene.register().status == 201


def test_a_deactivated_principal_does_nothing_not_even_a_replay(scene: Scene) -> None:
    lease, other = scene.ready().lease(), scene.lease()
    assert scene.complete(lease, None, ONE).status == 200
    scene.call("set_principal", name="worker", is_active=False)

    assert is_problem(scene.complete(lease, None, ONE), 403, "WV-FORBIDDEN")
    assert is_problem(scene.heartbeat(other), 403, "WV-FORBIDDEN")
    assert is_problem(scene.claim(), 403, "WV-FORBIDDEN")
    scene.call("set_principal", name="worker", is_active=True)
    assert scene.complete(lease, None, ONE).status == 200


def test_a_draining_instance_gets_nothing_and_keeps_what_it_has(scene: Scene) -> None:
    lease = scene.ready().lease()
    scene.create()
    scene.call("drain", worker_id=scene.worker_id)

    assert scene.claim().json == []
    assert scene.heartbeat(lease).status == 200
    assert scene.complete(lease).status == 200
    scene.call("drain", worker_id=scene.worker_id, is_draining=False)
    assert len(scene.claim().json) == 1


def test_a_revoked_instance_has_no_lease_any_more(scene: Scene) -> None:
    lease = scene.ready().lease()
    path = f"/workers/{scene.worker_id}/revoke"
    assert scene.post(path, {}, "administrator").json == {"revoked": True}

    assert is_problem(scene.claim(), 409, "WV-LEASE")
    assert is_problem(scene.heartbeat(lease), 409, "WV-LEASE")
    assert is_problem(scene.complete(lease), 409, "WV-LEASE")
    assert scene.register().status == 201
    assert scene.claim().status == 200


def test_a_viewer_sees_the_presence_of_an_instance(scene: Scene) -> None:
    scene.ready().lease()
    path = f"/workers/{scene.worker_id}"
    shown = scene.raw(path, b"", who="deployer", method="GET").json
    assert (shown["presence"], shown["active_leases"], shown["available_capacity"]) == ("online", 1, 9)
    scene.weave.advance(60)
    assert scene.raw(path, b"", who="deployer", method="GET").json["presence"] == "stale"
    assert is_problem(scene.raw(f"/workers/{ONE}", b"", who="deployer", method="GET"), 404, "WV-NOT-FOUND")
