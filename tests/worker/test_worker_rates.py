"""Whatever a runtime in trouble answers, a worker asks it for little, and is at full speed soon after."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Event

import pytest

from orbit_django.contracts import read
from orbit_django.embedded.answers import Answer
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.models import OutboxMessage
from tests.processes import ListeningFaults, Stage, wait_for
from tests.worker.answering import IS_LONG, UNKNOWN_SESSION, HangUp, owe, refusal, said, say
from tests.worker.staging import WORKFLOWS

pytestmark = [pytest.mark.promise("D6"), pytest.mark.timeout(240)]

SECONDS = 30.0 if IS_LONG else 6.0
MOST_PER_SECOND = 10
LOOPS = 4
RECOVERY_SECONDS = 6.0
DEEP = b'{"worker_session_id": ' + b"[" * 3000 + b"]" * 3000 + b"}"
GONE = said(404, UNKNOWN_SESSION)
NO_WORK = said(204)

TROUBLES: dict[str, dict[str, Answer]] = {
    "500": {"*": said(500, b"{}")},
    "401": {"*": refusal(401, "UNAUTHENTICATED")},
    "403": {"*": refusal(403, "FORBIDDEN")},
    "429": {"*": said(429, b"slow down", "text/plain")},
    "a page": {"*": said(200, b"<html>welcome</html>", "text/html")},
    "an empty object": {"*": said(200, b"{}")},
    "too deep": {"*": said(200, DEEP)},
    "a redirect": {"*": said(307, location="http://127.0.0.1:9/")},
    "no work at once": {"poll": NO_WORK},
    "no work and nothing else": {"*": NO_WORK},
    "unknown session": dict.fromkeys(("poll", "heartbeat", "unregister"), GONE),
    "unknown session of beats": {"heartbeat": GONE},
    "refused in mid-life": {"register": refusal(403, "FORBIDDEN"), "poll": GONE, "heartbeat": GONE},
    "results": {call: said(500) for call in ("complete", "fail")},
    "results refused": {call: refusal(403, "FORBIDDEN") for call in ("complete", "fail")},
}


@pytest.fixture
def stages(child_environment: dict[str, str], tmp_path: Path) -> Iterator[dict[str, Stage]]:
    """Yield a runtime in each kind of trouble with an idle worker, all at the same time."""
    with ExitStack() as stack:
        made = {}
        for name in TROUBLES:
            runtime = EmbeddedRuntime(read(WORKFLOWS), session_timeout_ms=3_000, faults=ListeningFaults())
            folder = tmp_path / name.replace(" ", "-")
            folder.mkdir()
            stack.enter_context(runtime)
            made[name] = stack.enter_context(closing(Stage(runtime, child_environment, folder)))
            made[name].worker("--concurrency", str(LOOPS), "--worker-id", name)
        for stage in made.values():
            wait_for(lambda stage=stage: len(stage.faults.times("poll")) >= LOOPS, 90)
        yield made


def trouble(stages: dict[str, Stage]) -> float:
    """Let every runtime answer as its name says, with work and messages to send; return when."""
    for name, stage in stages.items():
        say(stage.faults, TROUBLES[name])
        for number in range(LOOPS):  # ends the polls that are open
            stage.start(f"early-{number}")
        owe(stage.runtime.url, name)
    return time.monotonic()


def disturbed(name: str, stage: Stage, since: float) -> Counter[str]:
    """Count the calls that were answered as the name says."""
    says = TROUBLES[name]
    return Counter(call.name for call in stage.faults.calls if call.at >= since and ("*" in says or call.name in says))


def has_polls(name: str) -> bool:
    """Say whether the trouble concerned polls; elsewhere they simply stay open."""
    return bool(TROUBLES[name].keys() & {"*", "poll"})


def test_a_runtime_in_trouble_is_asked_for_little_and_full_speed_comes_back(stages: dict[str, Stage]) -> None:
    began = trouble(stages)
    Event().wait(SECONDS)
    counted = {name: disturbed(name, stage, began) for name, stage in stages.items()}
    assert {name: calls for name, calls in counted.items() if calls.total() > MOST_PER_SECOND * SECONDS} == {}
    assert {name for name, calls in counted.items() if not calls} == set()

    recovered_at = time.monotonic()
    for stage in stages.values():
        stage.faults.clear()
    Event().wait(RECOVERY_SECONDS)
    polls = {name: len(stage.faults.times("poll", recovered_at)) for name, stage in stages.items() if has_polls(name)}
    assert {name: count for name, count in polls.items() if count < LOOPS} == {}
    wait_for(lambda: not OutboxMessage.objects.pending().exists(), 30)  # all of them write into one file


def test_a_runtime_that_hangs_up_is_asked_for_little_and_full_speed_comes_back(stage: Stage) -> None:
    stage.idle_worker("--concurrency", str(LOOPS), "--worker-id", "w")
    port = int(stage.runtime.url.rpartition(":")[2])
    stage.runtime.stop()
    with closing(HangUp(port)) as front:
        owe(stage.runtime.url, "w")
        Event().wait(SECONDS)
        assert LOOPS < len(front.times) <= MOST_PER_SECOND * SECONDS
    stage.runtime.start()
    began = time.monotonic()

    wait_for(lambda: len(stage.faults.times("poll", began)) >= LOOPS, RECOVERY_SECONDS)
    wait_for(lambda: not OutboxMessage.objects.pending().exists(), RECOVERY_SECONDS)
