"""The handlers of the laboratory: one of each kind, each run of which is on record outside of the database."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.db import connection

from orbit_django import TaskContext, TaskError, task
from tests.testapp.models import Charge

FOLDER = "CRASH_LAB"  # names the folder of the schedule that runs


def record(file: str, **fields: Any) -> None:
    """Append one line in one write."""
    with (Path(os.environ[FOLDER]) / file).open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(fields) + "\n")


@contextmanager
def running(ctx: TaskContext) -> Iterator[None]:
    """Put begin and end of a run on record; the clock is that of the machine, the same for every process."""
    run = {"run": uuid4().hex, "key": ctx.idempotency_key, "process": os.getpid()}
    record("runs", **run, begin=time.monotonic())
    try:
        yield
    finally:
        record("runs", **run, end=time.monotonic())


def write(ctx: TaskContext) -> str:
    """Write the row that must be there once."""
    nonce = uuid4().hex
    Charge.objects.create(key=ctx.idempotency_key, attempt=ctx.attempt, nonce=nonce)
    return nonce


def work(input: Any, ctx: TaskContext) -> str:
    """Write, in the middle of a pause."""
    ctx.sleep(input["pause_ms"] / 2000)
    nonce = write(ctx)
    ctx.sleep(input["pause_ms"] / 2000)
    return nonce


@task("lab.atomic", version="1.0.0")
def atomic(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """Write a row."""
    with running(ctx):
        return {"nonce": work(input, ctx), "worker": ctx.worker_id}


@task("lab.flaky", version="1.0.0")
def flaky(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """Write a row, but fail at first."""
    with running(ctx):
        nonce = work(input, ctx)
        if ctx.attempt == 1:
            raise TaskError("NOT_YET", "on purpose")
        return {"nonce": nonce, "worker": ctx.worker_id}


@task("lab.forgetful", version="1.0.0")
def forgetful(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """Write a row, and have the server forget the statements of this connection, as a pooler does between clients."""
    with running(ctx):
        nonce = work(input, ctx)
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("DEALLOCATE ALL")
        return {"nonce": nonce, "worker": ctx.worker_id}


@task("lab.effect", version="1.0.0", atomic=False)
def effect(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """Have a provider that deduplicates charge."""

    def pay() -> str:
        key = ctx.effect_key("pay")
        ctx.sleep(input["pause_ms"] / 2000)
        record("provider", key=ctx.idempotency_key, effect=key)
        ctx.sleep(input["pause_ms"] / 2000)
        return key

    with running(ctx):
        return {"nonce": ctx.effect("pay", pay, idempotent=True), "worker": ctx.worker_id}


@task("lab.rows", version="1.0.0", atomic=False)
def rows(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """Write a row in a transaction of its own."""
    with running(ctx):
        ctx.sleep(input["pause_ms"] / 1000)
        nonce = ctx.transaction("row", write, ctx)
        ctx.sleep(input["pause_ms"] / 1000)
        return {"nonce": nonce, "worker": ctx.worker_id}
