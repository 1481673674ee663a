"""Strict bodies, statuses, problems, headers, and the sizes at their edges."""

import json
import socket
import uuid
from typing import Any
from urllib.parse import urlsplit

import pytest

from orbit_django.embedded.weave.server import handler, requests
from tests.embedded.weave.scene import DIGEST, MAIL, Scene, capability, is_problem

LARGEST = 1_048_576


def test_every_answer_names_itself_and_the_version(scene: Scene) -> None:
    replies = [scene.ready().claim(), scene.post("/tasks/claim", {}), scene.post("/nothing", {})]

    assert [reply.status for reply in replies] == [200, 422, 404]
    assert {reply.headers["x-weave-wire-version"] for reply in replies} == {"weave/api-v1"}
    assert len({str(uuid.UUID(reply.headers["x-weave-request-id"])) for reply in replies}) == 3


def test_what_is_made_answers_201_and_what_is_done_200(scene: Scene) -> None:
    assert scene.admit().status == 201
    assert scene.admit().status == 201  # an exact replay too
    assert scene.register().status == 201
    lease = scene.lease()

    assert scene.heartbeat(lease).status == 200
    assert scene.post("/tasks/context", lease["proof"]).status == 200
    assert scene.complete(lease).status == 200
    assert scene.fail(scene.lease()).status == 200


def test_the_older_paths_answer_too(scene: Scene) -> None:
    scene.ready()
    scene.prefix = scene.prefix.removeprefix("/api/v1")
    assert scene.claim().json == []


def test_bodies_are_those_of_the_model_and_nothing_else(scene: Scene) -> None:
    scene.ready()
    good = {"worker_id": scene.worker_id, "limit": 1}
    bad: list[Any] = [
        good | {"extra": 1}, {"limit": 1}, good | {"limit": "1"}, good | {"limit": 1.0}, good | {"limit": True},
        good | {"limit": 0}, good | {"limit": 101}, good | {"worker_id": "w-1"}, good | {"worker_id": None},
        [good], None,
    ]  # fmt: skip

    assert scene.post("/tasks/claim", good).status == 200
    for body in bad:
        assert is_problem(scene.post("/tasks/claim", body), 422, "WV-VALIDATION"), body


@pytest.mark.parametrize("path", ["/tasks/heartbeat", "/tasks/context"])
def test_heartbeat_and_context_take_the_bare_proof(scene: Scene, path: str) -> None:
    lease = scene.ready().lease()
    assert scene.post(path, lease["proof"]).status == 200
    assert is_problem(scene.post(path, {"lease": lease["proof"]}), 422, "WV-VALIDATION")
    assert is_problem(scene.post(path, lease["proof"] | {"generation": "1"}), 422, "WV-VALIDATION")


def test_the_members_of_outcomes_are_strict(scene: Scene) -> None:
    lease = scene.ready().lease()
    done = {"lease": lease["proof"], "completion_id": str(uuid.uuid4()), "output": None}
    for body in (
        {name: value for name, value in done.items() if name != "output"},
        done | {"message": ""},
        done | {"completion_id": "one"},
        done | {"lease": lease["proof"] | {"more": 1}},
    ):
        assert is_problem(scene.post("/tasks/complete", body), 422, "WV-VALIDATION"), body
    for more in ({"code": "lower"}, {"code": "A" * 65}, {"code": ""}, {"outcome": "maybe"}, {"message": "why"}):
        assert is_problem(scene.fail(lease, **({"code": "BROKEN"} | more)), 422, "WV-VALIDATION"), more
    assert scene.complete(lease, None).status == 200


def test_a_release_is_declared_in_camel_case(scene: Scene) -> None:
    snake = {"task_type": "mail.send", "task_version": "1.0.0"}
    for bad in (
        snake,
        capability(sideEffect="none"),
        capability(timeoutSeconds=0),
        capability(taskVersion="1"),
        capability(taskType=".mail"),
        capability(outputSchema=True),
        capability(extra=1),
    ):
        assert is_problem(scene.admit(bad), 422, "WV-VALIDATION"), bad
    assert is_problem(scene.admit(digest="sha256:ABC"), 422, "WV-VALIDATION")
    assert is_problem(scene.admit(capability(), capability()), 422, "WV-VALIDATION")
    assert is_problem(scene.admit(credential_capabilities=["other@1.0.0"]), 422, "WV-VALIDATION")
    assert is_problem(scene.admit(capability(outputSchema={"wonder": 1})), 422, "WV-CAPABILITY-SCHEMA")
    assert is_problem(scene.admit(capability("weave-connector-http@1.0.0")), 422, "WV-CONNECTION")


def test_the_same_digest_is_the_same_release_or_a_conflict(scene: Scene) -> None:
    other = capability("mail.read@1.0.0")
    first = scene.admit(capability(), other)

    assert scene.admit(capability(), other).json == first.json
    assert first.json == {
        "id": first.json["id"],
        "image_digest": DIGEST,
        "capabilities": [capability(), other],
        "credential_capabilities": [],
    }
    assert is_problem(scene.admit(other, capability()), 409, "WV-RELEASE-CONFLICT")  # the order matters
    changed = capability(timeoutSeconds=601)
    assert is_problem(scene.admit(changed, other), 409, "WV-CAPABILITY-CONFLICT")  # which comes first
    assert is_problem(scene.admit(changed, digest="sha256:" + "b" * 64), 409, "WV-CAPABILITY-CONFLICT")
    same = capability(outputSchema={})
    assert scene.admit(same, digest="sha256:" + "b" * 64).status == 201


def test_registration_names_what_the_release_offers(scene: Scene) -> None:
    scene.admit()
    first, second = scene.register(), scene.register()

    assert first.json["id"] != second.json["id"]
    assert first.json == {
        "id": first.json["id"],
        "principal_id": first.json["principal_id"],
        "release_id": scene.release_id,
        "task_types": [MAIL],
        "capacity": 10,
        "revoked": False,
    }
    assert is_problem(scene.register("mail.read@1.0.0"), 403, "WV-FORBIDDEN")
    assert is_problem(scene.register(MAIL, MAIL), 403, "WV-FORBIDDEN")
    assert is_problem(scene.register(release_id=str(uuid.uuid4())), 409, "WV-LEASE")
    assert is_problem(scene.register(capacity=101), 422, "WV-VALIDATION")


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff", b'{"limit": NaN}', b'"\\ud800"', b'{"limit": 1e999}', b'{"limit": 9007199254740992}'],
)
def test_what_is_no_json_of_the_wire_is_refused(scene: Scene, body: bytes) -> None:
    assert is_problem(scene.raw("/tasks/claim", body), 422, "WV-VALIDATION")


def test_the_largest_integer_is_one_below_two_to_the_53rd(scene: Scene) -> None:
    lease = scene.ready().lease()
    assert is_problem(scene.complete(lease, 2**53), 422, "WV-VALIDATION")
    assert is_problem(scene.complete(lease, -(2**53)), 422, "WV-VALIDATION")
    assert scene.complete(lease, 2**53 - 1).status == 200


def test_the_largest_output_has_exactly_its_bytes(scene: Scene) -> None:
    lease = scene.ready().lease()
    output = "ü" + "x" * (LARGEST - 4)  # two quotes, and two bytes for the first letter
    assert is_problem(scene.complete(lease, output + "x"), 422, "WV-VALIDATION")
    assert scene.task(lease)["receipts"] == []
    assert scene.complete(lease, output).json["status"] == "completed"


def test_the_deepest_output_has_32_levels(scene: Scene) -> None:
    lease = scene.ready().lease()
    deepest: Any = 1
    for _ in range(32):
        deepest = [deepest]
    assert is_problem(scene.complete(lease, [deepest]), 422, "WV-VALIDATION")
    assert scene.complete(lease, deepest).status == 200


def test_an_output_has_at_most_100000_nodes(scene: Scene) -> None:
    lease = scene.ready().lease()
    assert is_problem(scene.complete(lease, [0] * 100_000), 422, "WV-VALIDATION")
    assert scene.complete(lease, [0] * 99_999).status == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"[" * 41 + b"]" * 41, 413),
        (b"[" * 40 + b"]" * 40, 422),
        (b"[" + b"0," * 201_024 + b"0]", 413),
        (b" " * 6_356_998, 422),
        (b" " * 6_356_999, 413),
    ],
)
def test_bodies_beyond_the_outer_limits_are_refused(scene: Scene, body: bytes, status: int) -> None:
    code = "WV-REQUEST-LIMIT" if status == 413 else "WV-VALIDATION"
    assert is_problem(scene.raw("/tasks/claim", body), status, code)


def test_encoded_bodies_are_refused(scene: Scene) -> None:
    assert is_problem(scene.raw("/tasks/claim", b"{}", content_encoding="gzip"), 415, "WV-REQUEST-ENCODING")


def test_headers_have_a_limit(scene: Scene) -> None:
    assert is_problem(scene.raw("/tasks/claim", b"{}", x_long="x" * 16_384), 431, "WV-REQUEST-HEADERS")


@pytest.mark.parametrize("lengths", ["Content-Length: two\r\n", "Content-Length: 2\r\nContent-Length: 2\r\n"])
def test_a_length_is_given_once_and_in_digits(scene: Scene, lengths: str) -> None:
    answer = spoken(scene, f"POST {scene.prefix}/tasks/claim HTTP/1.1\r\n{lengths}\r\n{{}}")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "WV-REQUEST-HEADERS"


@pytest.mark.parametrize("limit", ["between", "total"])
def test_a_body_that_does_not_come_is_not_waited_for(scene: Scene, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if limit == "between":
        monkeypatch.setattr(handler, "IDLE_SECONDS", 0.05)
        length = 9
    else:  # each piece comes in time, and yet the whole takes too long
        monkeypatch.setattr(requests, "TOTAL_SECONDS", -1.0)
        length = 1
    answer = spoken(scene, f"POST {scene.prefix}/tasks/claim HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{{")
    assert answer.startswith(b"HTTP/1.1 408 ")


def test_a_scope_is_made_of_uuids(scene: Scene) -> None:
    scene.prefix = "/api/v1/tenants/a/projects/b/environments/c"
    assert is_problem(scene.claim(), 422, "WV-VALIDATION")


def spoken(scene: Scene, text: str) -> bytes:
    parts = urlsplit(scene.weave.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=10) as connection:
        connection.sendall(text.encode())
        return b"".join(iter(lambda: connection.recv(65_536), b""))
