"""Handlers that keep their effect to once, and handlers that do not."""

from typing import Any

from django.contrib.auth.models import Group
from django.core import mail
from django.db import connection, transaction

from orbit_django import TaskContext
from tests.testapp.models import Charge


def charges() -> int:
    return Charge.objects.count()


def mails() -> int:
    return len(mail.outbox)


def others() -> int:
    return Charge.objects.using("other").count()


def groups() -> int:
    return Group.objects.count()


def send() -> dict[str, int]:
    return {"sent": mail.send_mail("paid", "thank you", "shop@example.com", ["ada@example.com"])}


def charge(input: Any, ctx: TaskContext) -> dict[str, Any]:
    Charge.objects.create(key=ctx.idempotency_key, amount=input.get("amount", 1), attempt=ctx.attempt)
    return {"amount": input.get("amount", 1)}


async def charge_async(input: Any, ctx: TaskContext) -> dict[str, Any]:
    await Charge.objects.acreate(key=ctx.idempotency_key)
    return {}


def open_account(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """Do what can be done only once in one world."""
    return {"group": Group.objects.create(name="members").pk}


def close_account(input: Any, ctx: TaskContext) -> dict[str, Any]:
    Group.objects.filter(name="guests").delete()
    return {}


def charge_through_context(input: Any, ctx: TaskContext) -> dict[str, Any]:
    return ctx.transaction("charge", charge, input, ctx)


def mail_through_context(input: Any, ctx: TaskContext) -> dict[str, Any]:
    return ctx.effect("mail", send)


def mail_in_transaction(input: Any, ctx: TaskContext) -> dict[str, Any]:
    return send()


def mail_after_commit(input: Any, ctx: TaskContext) -> dict[str, Any]:
    transaction.on_commit(send)
    return {}


def charge_elsewhere(input: Any, ctx: TaskContext) -> dict[str, Any]:
    Charge.objects.using("other").create(key=ctx.idempotency_key)
    return {}


def charge_and_commit(input: Any, ctx: TaskContext) -> dict[str, Any]:
    charge(input, ctx)
    with connection.cursor() as cursor:
        cursor.execute("COMMIT")
    return {}


SEEN: set[str] = set()


def charge_unless_seen(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """Guard the effect by something that does not roll back with it."""
    if ctx.idempotency_key not in SEEN:
        SEEN.add(ctx.idempotency_key)
        charge(input, ctx)
    return {}


def refuse(input: Any, ctx: TaskContext) -> dict[str, Any]:
    charge(input, ctx)
    raise ValueError("no such account")


def charge_twice_elsewhere(input: Any, ctx: TaskContext) -> dict[str, Any]:
    """Take effect once, and fail when it is run again."""
    if Charge.objects.using("other").filter(key=ctx.idempotency_key).exists():
        raise ValueError("charged already")
    return charge_elsewhere(input, ctx)
