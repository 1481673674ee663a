"""What several checks look at."""

import threading

from orbit_django import TaskError
from tests.conformance.observer import accept
from tests.conformance.scene import Scene

PATHS = {
    "register": "/v1/workers/register",
    "poll": "/v1/workers/poll",
    "heartbeat": "/v1/workers/heartbeat",
    "unregister": "/v1/workers/unregister",
    "complete": "/v1/tasks/complete",
    "fail": "/v1/tasks/fail",
}
WATCHED_SECONDS = 2.0  # longer than the first three waits between tries together


def bodies(scene: Scene, name: str = "complete") -> list[object]:
    return [call.wire.body for call in scene.named(name)]


def fails(input):
    raise LookupError("no")


def assert_never_again(scene: Scene, count: int = 1) -> None:
    """Watch for a while that no report is sent beyond so many, and that work goes on."""
    threading.Event().wait(WATCHED_SECONDS)
    assert len(scene.reports()) == count
    scene.always("complete", accept)
    scene.always("fail", accept)
    scene.deliver("next")
    assert scene.report("next").answer.status == 200


def every_call(scene: Scene, **settings) -> list:
    """Have a worker make each of the six calls, and return them all."""

    def pay(input):
        if input == "fail":
            raise TaskError("X", details=1)
        return {"ü": input}

    scene.deliver("good")
    scene.deliver("bad", input="fail")
    worker = scene.work(pay, **settings)
    scene.report("good")
    scene.report("bad")
    scene.wait("heartbeat")
    assert worker.end() == 0
    assert {call.name for call in scene.calls} == set(PATHS)
    return scene.calls
