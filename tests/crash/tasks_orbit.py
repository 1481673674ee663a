"""Handlers whose effects are counted, each with a way to get into trouble; `mode` says which."""

import os
import signal
from typing import Any
from uuid import uuid4

from django.db import connection

from orbit_django import TaskContext, TaskError, task
from tests.crash import lab_handlers  # noqa: F401  (its handlers belong to this app, too)
from tests.crash.notes import meet, note
from tests.testapp.models import Charge


@task("crash.charge", version="1.0.0")
def charge(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """Write one row, around a pause in which a process can die."""
    nonce = uuid4().hex
    ctx.sleep(input["pause_ms"] / 2000)
    Charge.objects.create(key=ctx.idempotency_key, amount=input["amount"], attempt=ctx.attempt, nonce=nonce)
    ctx.sleep(input["pause_ms"] / 2000)
    return {"nonce": nonce}


def write(ctx: TaskContext) -> dict[str, Any]:
    """Write the row that is counted."""
    nonce = uuid4().hex
    Charge.objects.create(key=ctx.idempotency_key, attempt=ctx.attempt, nonce=nonce)
    return {"nonce": nonce}


def mark(ctx: TaskContext) -> None:
    """Say a text on this connection that a strike may wait for."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT 'strike {ctx.execution_id}'")


@task("crash.marked", version="1.0.0")
def marked(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """Write a row and, in mode `fail`, fail."""
    note(ctx, "run")
    mark(ctx)
    written = write(ctx)
    if input["mode"] == "fail":
        raise TaskError("REFUSED", "on purpose", retryable=False)
    return written


@task("crash.staged", version="1.0.0", atomic=False)
def staged(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """Call the outside world and write a row, with the mark before the commit that `mode` names."""
    mode = input["mode"]
    note(ctx, "run")
    if mode == "begin":
        mark(ctx)

    def call() -> str:
        if mode == "end":
            mark(ctx)
        note(ctx, "call", ctx.effect_key("call"))
        return "called"

    def work() -> dict[str, Any]:
        if mode == "transaction":
            mark(ctx)
        return write(ctx)

    ctx.effect("call", call)
    written: dict[str, Any] = ctx.transaction("work", work)
    if mode == "store":
        mark(ctx)
    return written


@task("crash.crossing", version="1.0.0")
def crossing(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """Lock two rows in the order that `mode` gives, and wait between them for the other execution."""
    first, second, other = input["mode"].split()
    note(ctx, "run")
    lock(first)
    meet(ctx, other, "locked")
    lock(second)
    return write(ctx)


def lock(key: str) -> None:
    """Lock a row, and by its primary key no other, for the rest of the transaction."""
    Charge.objects.select_for_update().get(pk=Charge.objects.get(key=key).pk)


@task("crash.counting", version="1.0.0")
def counting(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """Read the row `counter` and write it one higher, as a handler that trusts its snapshot does."""
    note(ctx, "run")
    row = Charge.objects.get(key="counter")
    ctx.sleep(input["pause_ms"] / 1000)
    Charge.objects.filter(key="counter").update(amount=row.amount + 1)
    return {"nonce": ""}


@task("crash.waiting", version="1.0.0")
def waiting(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """Ask for a row that somebody else has locked, for a moment only."""
    note(ctx, "run")
    statements = {
        "postgresql": "SET LOCAL lock_timeout = '100ms'",
        "mysql": "SET SESSION innodb_lock_wait_timeout = 0",
    }
    with connection.cursor() as cursor:
        cursor.execute(statements[connection.vendor])
    lock("wanted")
    return write(ctx)


@task("crash.losing", version="1.0.0")
def losing(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """Have the database end this very connection in the first runs, as many as `mode` says."""
    runs = note(ctx, "run")
    written = write(ctx)
    if runs <= int(input["mode"]):
        statements = {
            "postgresql": "SELECT pg_terminate_backend(pg_backend_pid())",
            "mysql": "KILL CONNECTION_ID()",
        }
        with connection.cursor() as cursor:
            cursor.execute(statements[connection.vendor])
            cursor.execute("SELECT 1")
    return written


@task("crash.holding", version="1.0.0", atomic=False)
def holding(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """Leave the database alone for a while; then write, unless `mode` is `idle`, what may be written once.

    In mode `inside` the pause is in the middle of the writing.
    """
    pause = input["pause_ms"] / 1000

    def work() -> dict[str, Any]:
        written = write(ctx)
        if input["mode"] == "inside":
            note(ctx, "inside")
            ctx.sleep(pause)
        return written

    note(ctx, "begin")
    if input["mode"] != "inside":
        ctx.sleep(pause)
    note(ctx, "end")
    return {"nonce": uuid4().hex} if input["mode"] == "idle" else ctx.transaction("work", work)


@task("crash.dying", version="1.0.0")
def dying(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """End the process, or in mode `linger` wait in the first runs until the process is told to end."""
    runs = note(ctx, "run")
    if input["mode"] == "kill":
        die()
    if runs <= int(input["mode"].removeprefix("linger ")):
        ctx.sleep(60)
        ctx.raise_if_cancelled()
    return write(ctx)


@task("crash.paying", version="1.0.0", atomic=False)
def paying(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """Have a provider charge; `before` and `after` in the mode name the side of the first charge on which to die."""
    mode, pause = input["mode"].split(), input["pause_ms"] / 1000

    def pay() -> dict[str, str]:
        if note(ctx, "pay") == 1 and "before" in mode:
            die()
        ctx.sleep(pause)
        if note(ctx, "provider", ctx.effect_key("pay")) == 1 and "after" in mode:
            die()
        ctx.sleep(pause)
        return {"nonce": ctx.effect_key("pay")}

    paid: dict[str, Any] = ctx.effect("pay", pay, idempotent="idempotent" in mode)
    return paid


def die() -> None:
    """End this process as the kernel would."""
    os.kill(os.getpid(), signal.SIGKILL)
