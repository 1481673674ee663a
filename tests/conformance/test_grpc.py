"""What only the gRPC binding has: its calls, its messages, its numbers, and how its statuses are understood."""

import math

import grpc
import pytest

from orbit_django import TaskError
from orbit_django.models import OutboxMessage
from orbit_django.transports.proto import worker_pb2 as pb
from tests.conformance.grpc_face import status
from tests.conformance.observer import Answer, Reply, accept, by_token, refuse, say
from tests.conformance.scene import Scene
from tests.conformance.table import check
from tests.conformance.watching import assert_never_again, bodies, every_call
from tests.processes import wait_for

Code = grpc.StatusCode
METHODS = {"RegisterWorker", "Heartbeat", "PollTask", "CompleteTask", "FailTask", "UnregisterWorker"}


@check("Every call goes to one of the six methods of the service, as a message of the definition",
       "O001", "O160", "O161", "O171", only="grpc")  # fmt: skip
def test_methods(scene: Scene) -> None:
    calls = every_call(scene)
    assert {call.wire.method for call in calls} == METHODS
    for call in calls:
        message = call.wire.kind.request.FromString(call.wire.body)
        message.DiscardUnknownFields()
        assert message.ByteSize() == len(call.wire.body) > 0


@check("An answer with an empty token is no task: no handler is called, and the next poll follows", "O164", only="grpc")
def test_empty_token(scene: Scene) -> None:
    seen: list[object] = []
    scene.script("poll", say(token="", execution_id="e", task_name="shop.pay", input={"a": 1}))
    scene.work(lambda input: seen.append(input) or {}, concurrency=1)
    scene.wait("poll", 2)
    scene.deliver()
    assert scene.report().name == "complete"
    assert seen == [{"amount": 5}]


@check("The wait is said in every poll, and never 0", "O165", only="grpc")
def test_wait_is_said(scene: Scene) -> None:
    scene.work(poll_wait_ms="0")
    assert {pb.PollTaskRequest.FromString(call.wire.body).wait_ms for call in scene.wait("poll", 3)} == {1}


@check("A failure that may be tried again says so on the wire, where leaving it out would mean no", "O166", only="grpc")
def test_retryable_is_said(scene: Scene) -> None:
    def pay(input):
        raise TaskError("X", retryable=input)

    for token in ("yes", "no"):
        scene.deliver(token, input=token == "yes")
    scene.work(pay)
    said = {token: pb.FailTaskRequest.FromString(scene.report(token).wire.body).retryable for token in ("yes", "no")}
    assert said == {"yes": True, "no": False}


WHOLE = [0, 1, -1, 2**53, -(2**53)]


@check("Whole numbers within 2^53 arrive as integers and leave as themselves; broken ones stay as they are",
       "O162", "O167", only="grpc")  # fmt: skip
def test_numbers(scene: Scene) -> None:
    seen = {}
    for number, value in enumerate([*WHOLE, 0.5, 1e300]):
        scene.deliver(str(number), input={"n": float(value)})
    scene.work(lambda input, ctx: seen.setdefault(ctx.token, input))
    for number, value in enumerate([*WHOLE, 0.5, 1e300]):
        report = scene.report(str(number))
        assert repr(seen[str(number)]) == repr({"n": value})
        sent = pb.CompleteTaskRequest.FromString(report.wire.body).output.struct_value.fields["n"]
        assert sent.number_value == value


@check("An output with a whole number beyond 2^53 is INVALID_RESULT and names the path; in details it is a text",
       "O167", "O329", "O346", only="grpc")  # fmt: skip
@pytest.mark.promise("E8")
def test_numbers_beyond(scene: Scene) -> None:
    def pay(input):
        if input == "fail":
            raise TaskError("X", details={"id": 2**53 + 1})
        return {"rows": [{"id": 1}, {"id": 2**53 + 1}]}

    scene.deliver("out", input="out")
    scene.deliver("details", input="fail")
    scene.work(pay)
    said = scene.report("out").fields
    assert (said["error_code"], said["retryable"]) == ("INVALID_RESULT", False)
    assert "$.rows[1].id" in said["error_message"]
    assert "2^53" in said["error_message"]
    assert scene.report("details").fields["details"] == {"id": "9007199254740993"}


def nested(depth: int, kind: type) -> object:
    value: object = 1
    for _ in range(depth):
        value = {"a": value} if kind is dict else [value]
    return value


@check("An output nested deeper than messages may be is INVALID_RESULT, an input like that INVALID_INPUT",
       "O162", "O306", "O346", "O347", only="grpc")  # fmt: skip
@pytest.mark.promise("E7", "E8")
def test_depth(scene: Scene) -> None:
    scene.deliver("out", input={"out": 40})
    scene.deliver("fits", input={"out": 31})
    scene.deliver("in", input=nested(40, dict))
    scene.work(lambda input: nested(input["out"], dict))
    said = {token: scene.report(token).fields for token in ("out", "fits", "in")}
    assert (said["out"]["error_code"], said["out"]["retryable"]) == ("INVALID_RESULT", False)
    assert said["fits"]["output"] == nested(31, dict)
    assert (said["in"]["error_code"], said["in"]["retryable"]) == ("INVALID_INPUT", False)


@check("An input with a number that JSON does not have is INVALID_INPUT, and its token is answered",
       "O162", "O347", only="grpc")  # fmt: skip
@pytest.mark.promise("E7")
def test_no_json_in(scene: Scene) -> None:
    scene.deliver(input={"rate": math.nan})
    scene.work()
    assert scene.report().fields["error_code"] == "INVALID_INPUT"


@check("Results that are sent again have the same bytes, however their members are ordered", "O151", only="grpc")
@pytest.mark.promise("D4")
def test_same_bytes(scene: Scene) -> None:
    scene.script("complete", refuse(500, "INTERNAL"), status(Code.UNAVAILABLE, "gone"), lambda exchange: None)
    scene.deliver()
    scene.work(lambda input: {name: {"z": 1, "a": 2} for name in "zyxwvutsrqponmlkjihgfedcba"})
    scene.wait("complete", 4)
    assert len(set(bodies(scene))) == 1


RETRIED = {
    "UNAVAILABLE": status(Code.UNAVAILABLE, "Socket closed"),
    "INTERNAL": status(Code.INTERNAL, "NOT_LEADER: ask another", "NOT_LEADER"),
    "DEADLINE_EXCEEDED": status(Code.DEADLINE_EXCEEDED, "too slow"),
    "UNKNOWN": status(Code.UNKNOWN, "a proxy"),
    "ABORTED": status(Code.ABORTED, "again"),
}


@check("A report that ends UNAVAILABLE, INTERNAL, DEADLINE_EXCEEDED or in no word of the runtime's is sent again",
       "O151", "O170", "O344", only="grpc")  # fmt: skip
@pytest.mark.promise("D1")
@pytest.mark.parametrize("name", RETRIED)
def test_retried(scene: Scene, name: str) -> None:
    scene.script("complete", RETRIED[name])
    scene.deliver()
    scene.work()
    assert len(scene.wait("complete", 2)) == 2


FINAL = {
    "prefix": (status(Code.INVALID_ARGUMENT, "INVALID_REQUEST: not so"), "RESULT_REFUSED"),
    "metadata": (status(Code.INVALID_ARGUMENT, "not so", "INVALID_REQUEST"), "RESULT_REFUSED"),
    "not found": (status(Code.NOT_FOUND, "NOT_FOUND: not so", "NOT_FOUND"), "RESULT_REFUSED"),
    "conflict": (status(Code.FAILED_PRECONDITION, "CONFLICT: not so", "CONFLICT"), "RESULT_REFUSED"),
    "size": (status(Code.OUT_OF_RANGE, "Error, decoded message length too large: found 9 bytes"), "RESULT_TOO_LARGE"),
    "other size": (status(Code.RESOURCE_EXHAUSTED, "Received message larger than max (9 vs. 8)"), "RESULT_TOO_LARGE"),
}


@check("A refusal is known by the code in the metadata or at the beginning of the text; a failure follows it",
       "O169", "O170", "O307", "O344", "O345", only="grpc")  # fmt: skip
@pytest.mark.promise("D3")
@pytest.mark.parametrize("name", FINAL)
def test_refused(scene: Scene, name: str) -> None:
    reply, code = FINAL[name]
    scene.always("complete", reply)
    scene.deliver()
    scene.work()
    complete, fail = wait_for(lambda: len(found := scene.reports("t-1")) == 2 and found)
    assert (complete.name, fail.name, fail.fields["error_code"]) == ("complete", "fail", code)


KEPT = {
    "credential": status(Code.UNAUTHENTICATED, "UNAUTHENTICATED: no such token"),
    "rights": status(Code.PERMISSION_DENIED, "FORBIDDEN: not yours", "FORBIDDEN"),
    "nobody": status(Code.UNIMPLEMENTED, "unknown service"),
    "proxy": status(Code.NOT_FOUND, "no route"),
    "busy": status(Code.RESOURCE_EXHAUSTED, "too many requests"),
}


@check("What says nothing of the result keeps it: a credential, rights, a server without the service, a proxy",
       "O169", "O308", "O309", "O344", only="grpc")  # fmt: skip
@pytest.mark.promise("D2")
def test_kept(scene: Scene) -> None:
    scene.always("complete", by_token(KEPT, accept))
    for token in KEPT:
        scene.deliver(token)
    worker = scene.work()
    for token in KEPT:
        scene.report(token)
    assert_never_again(scene, len(KEPT))
    assert set(OutboxMessage.objects.filter(token__in=KEPT).values_list("status", flat=True)) == {"blocked"}
    assert worker.end() == 0
    scene.work()
    for token in KEPT:
        wait_for(lambda token=token: [call.status for call in scene.reports(token)][1:] == [200])


@check("A session is unknown when the code says so, in the metadata or before the text, and not otherwise",
       "O150", "O169", only="grpc")  # fmt: skip
@pytest.mark.promise("W3")
def test_unknown_session(scene: Scene) -> None:
    scene.script("heartbeat", status(Code.NOT_FOUND, "no such session"))
    scene.work()
    scene.wait("heartbeat", 2)
    assert len(scene.named("register")) == 1
    scene.script("heartbeat", status(Code.NOT_FOUND, "UNKNOWN_SESSION: register again"))
    scene.wait("register", 2)
    scene.script("poll", status(Code.NOT_FOUND, "register again", "UNKNOWN_SESSION"))
    scene.wait("register", 3)


@check("An accepted report has an empty reason, and one that was not has the runtime's", "O168", only="grpc")
def test_reasons(scene: Scene) -> None:
    replies: dict[str, Reply] = {
        "good": say(accepted=True, reason=""),
        "late": say(accepted=False, reason="stale attempt"),
        "mute": lambda exchange: Answer(200, b"{}"),
    }
    scene.always("complete", by_token(replies, accept))
    for token in replies:
        scene.deliver(token)
    scene.work()
    for token in replies:
        scene.report(token)
    found = OutboxMessage.objects.filter(token__in=replies).order_by("token").values_list("token", "accepted", "reason")
    wait_for(lambda: list(found.all()) == [("good", True, ""), ("late", False, "stale attempt"), ("mute", False, "")])


@check("A worker whose address serves something else is told so in one line", "O170", "O313", only="grpc")
@pytest.mark.promise("W8")
def test_not_the_runtime(scene: Scene) -> None:
    scene.always("register", status(Code.UNIMPLEMENTED, "unknown service orbit.worker.v1.WorkerService"))
    code, line = scene.command()
    assert code == 2
    assert "no ORBIT runtime answers there; look at GRPC_TARGET" in line
    assert len(line.splitlines()) == 1
