"""Handlers for tests: each does one thing and, where a test must know of it, writes a line into the notes."""

import ctypes
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

from django.db import connection
from django.utils import timezone, translation

from orbit_django import TaskContext, TaskError, task
from orbit_django.worker.runner import StoppedError
from tests.processes import NOTES
from tests.testapp.models import Charge


def note(word: str, ctx: TaskContext) -> None:
    """Append one line to the notes, if the test keeps any: a word, the execution, the process."""
    if path := os.environ.get(NOTES):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{word} {ctx.execution_id} {os.getpid()}\n")


def write_charge(ctx: TaskContext) -> dict[str, Any]:
    """Write the row that a test counts."""
    nonce = uuid4().hex
    Charge.objects.create(key=ctx.idempotency_key, amount=100, attempt=ctx.attempt, nonce=nonce)
    return {"charge": nonce}


@task("test.charge", version="1.0.0")
def charge(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """Write one row, after so many seconds in which nothing can stop it; a negative time kills the process."""
    note("begin", ctx)
    if input["seconds"] < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    if not ctx.redelivery:
        Event().wait(input["seconds"])
    written = write_charge(ctx)
    note("end", ctx)
    return written


@task("test.hold", version="1.0.0", atomic=False)
def hold(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """Wait outside of any transaction for so many seconds, or until it is told to stop."""
    note("begin", ctx)
    if not ctx.redelivery and not ctx.sleep(input["seconds"]):
        note(f"cancelled-by-{ctx.cancelled.reason}", ctx)
        ctx.raise_if_cancelled()
    note("end", ctx)
    return write_charge(ctx)


@task("test.spin", version="1.0.0", atomic=False)
def spin(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """Keep the processor busy for so many seconds."""
    note("begin", ctx)
    end = time.monotonic() + input["seconds"]
    while time.monotonic() < end:
        pass
    return write_charge(ctx)


@task("test.litter", version="1.0.0")
def litter(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """Tell the surroundings it finds, and leave others behind; with a negative time it ends the process, or tries."""
    found = [translation.get_language(), timezone.get_current_timezone_name(), str(connection.savepoint_ids)]
    translation.activate("de")
    timezone.activate(ZoneInfo("Asia/Tokyo"))
    if input["seconds"] < 0:
        raise SystemExit(0)
    return {"charge": " ".join(found)}


@task("test.linger", version="1.0.0")
def linger(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """Leave threads behind that Python waits for: one busy for so many seconds, one idle."""
    note("begin", ctx)
    ThreadPoolExecutor(1, "busy").submit(Event().wait, input["seconds"])
    ThreadPoolExecutor(1, "idle").submit(int)
    return write_charge(ctx)


@task("test.flaky", version="1.0.0")
def flaky(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """Fail at first, and succeed on the third attempt."""
    note("begin", ctx)
    if ctx.attempt < 3:
        raise TaskError("NOT_YET")
    return write_charge(ctx)


@task("test.seize", version="1.0.0")
def seize(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """Hold the interpreter lock for so many seconds, as an extension does that never lets go of it."""
    note("begin", ctx)
    ctypes.PyDLL(None).usleep(int(input["seconds"] * 1_000_000))
    note("end", ctx)
    return write_charge(ctx)


def secrets_of(ctx: TaskContext) -> str:
    """Return what a careless handler might put into a text."""
    return f"token {ctx.token}, credential {os.environ.get('ORBIT_WORKER_TOKEN')}"


@task("test.leak", version="1.0.0", sensitive=True)
def leak(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """Put secrets into every text that a handler can fill; the seconds say how it ends."""
    text = secrets_of(ctx)
    ctx.logger.warning("careless: %s", text, extra={"careless": text})
    if input["seconds"] == 0:
        raise RuntimeError(text) from KeyError(text)
    if input["seconds"] == 1:
        raise TaskError(text, text, details={text: [text]}, retryable=False)
    return {"charge": "", "odd": {1, 2}} if input["seconds"] == 2 else write_charge(ctx)


@task("test.spill", version="1.0.0", atomic=False)
def spill(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """Have an effect fail with secrets in its text."""

    def call() -> None:
        raise ConnectionError(secrets_of(ctx))

    ctx.effect("call", call)
    return {}


@task("test.sabotage", version="1.0.0")
def sabotage(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """End the relay of the worker that it runs in, as if a fault of it had."""

    def over() -> float:
        raise StoppedError

    for thread in threading.enumerate():
        if thread.name == "orbit-relay":
            thread.loop.step = over
    return write_charge(ctx)
