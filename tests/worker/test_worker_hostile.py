"""Answers without measure: whatever their size or shape, the worker lives, its log stays short, and it goes on."""

import json
from pathlib import Path
from threading import Event

import pytest

from orbit_django.models import OutboxMessage
from tests.processes import Stage, wait_for
from tests.worker.answering import said

pytestmark = [pytest.mark.promise("W1", "W10"), pytest.mark.timeout(120)]

MEGABYTE = 1_000_000
LONG = b"x" * MEGABYTE
HOSTILE = {
    "100 MB": {"poll": said(200, b"[" + b" " * (100 * MEGABYTE))},
    "long headers": {"poll": said(200, b"{}", x="a" * MEGABYTE)},
    "a long refusal": {"poll": said(400, LONG, "text/plain")},
    "a long error": {"poll": said(403, b'{"error": {"code": "' + LONG + b'", "message": "' + LONG + b'"}}')},
    "a long token": {"poll": said(200, b'{"token": "' + LONG + b'"}')},
    "a long reason": {"complete": said(200, b'{"accepted": false, "reason": "' + LONG + b'"}')},
    "cancel without end": {"heartbeat": said(200, json.dumps({"cancel": ["x"] * 500_000}).encode())},
    "cancel of anything": {"heartbeat": said(200, b'{"cancel": [null, 1, {}, [], "", "\\ud800"]}')},
    "odd sessions": {"register": said(200, b'{"worker_session_id": 7}')},
    "a session of nothing": {"register": said(200, b'{"worker_session_id": ""}')},
    "odd times": {"register": said(200, b'{"worker_session_id": "\\ud800", "heartbeat_interval_ms": -1e308, '
                                        b'"session_timeout_ms": 1e400, "warnings": [{}, null]}')},
}  # fmt: skip


def peak_megabytes(pid: int) -> float:
    """Return the most memory that a process has had."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def test_hostile_answers(stage: Stage) -> None:
    worker = stage.worker("--concurrency", "2")
    wait_for(lambda: stage.faults.times("poll"), 30)
    for name, answers in HOSTILE.items():
        for call, answer in answers.items():
            stage.faults.add("answer", call, value=answer, times=1)
        if "register" in answers:
            stage.faults.add("expire", "poll")
        stage.start(name)
        if "complete" not in answers:
            assert stage.end_of(name, 60)["status"] == "COMPLETED", name
        else:
            wait_for(lambda name=name: OutboxMessage.objects.filter(execution_id=name, status="refused").exists(), 20)
    wait_for(lambda: not OutboxMessage.objects.pending().exists(), 20)

    assert worker.process.poll() is None
    assert "Traceback" not in worker.log(), worker.log()[-3000:]
    assert max(len(line) for line in worker.log().splitlines()) < 5_000
    assert peak_megabytes(worker.process.pid) < 500


def test_warnings_without_end_are_told_briefly(stage: Stage) -> None:
    stage.faults.add("set", "register", value={"warnings": ["w" * 10_000] * 1_000})
    worker = stage.idle_worker()
    Event().wait(0.2)

    assert worker.log().count("the runtime warns") == 50
    assert len(worker.log()) < 100_000
