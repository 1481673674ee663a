"""Handlers whose effects are counted."""

from typing import Any
from uuid import uuid4

from orbit_django import TaskContext, task
from tests.testapp.models import Charge


@task("crash.charge", version="1.0.0")
def charge(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """Write one row, around a pause in which a process can die."""
    nonce = uuid4().hex
    ctx.sleep(input["pause_ms"] / 2000)
    Charge.objects.create(key=ctx.idempotency_key, amount=input["amount"], attempt=ctx.attempt, nonce=nonce)
    ctx.sleep(input["pause_ms"] / 2000)
    return {"nonce": nonce}
