"""Rows as the worker leaves them, and people who look at them."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission, User
from django.utils import timezone

from orbit_django import tasks
from orbit_django.admin import databases, pages, shown
from orbit_django.models import IdempotencyRecord, OutboxMessage
from orbit_django.payloads import body_of, digest, failure_body
from orbit_django.protocol import Completion, StepKind

HOSTILE = "<img src=x onerror=alert(1)>"
TOKEN = "5d0c2b9e-aaaa-4bbb-8ccc-d1d1d1d1d1d1"


@pytest.fixture
def registry(monkeypatch):
    """Return an empty registry that the admin asks."""
    fresh = tasks.Registry()
    for module in (pages, shown, databases):
        monkeypatch.setattr(module, "registry", fresh)
    return fresh


@pytest.fixture
def serve(registry):
    """Serve a task that does nothing."""

    def add(name, *, sensitive=False):
        contract = tasks.Contract(name, "1.0.0")
        registry.add(tasks.Task(contract, function=lambda input: {}, is_sensitive=sensitive))

    return add


def record_of(key="exec-1/step", *, save=True, **fields):
    now = timezone.now()
    name = fields.pop("task_name", "pay.charge")
    defaults = {
        "key_hash": digest(name, StepKind.PLAIN, key),
        "task_name": name,
        "step_kind": StepKind.PLAIN.value,
        "idempotency_key": key,
        "contract_version": "1.0.0",
        "input_hash": "i" * 64,
        "status": "succeeded",
        "attempt": 1,
        "execution_id": key.partition("/")[0],
        "step_id": "step",
        "workflow": "Pay",
        "output": '{"paid":true}',
        "owner": "o" * 32,
        "worker_id": "python-here-1",
        "created_at": now - timedelta(minutes=5),
        "finished_at": now,
    }
    record = IdempotencyRecord(**(defaults | fields))
    if save:
        record.save(force_insert=True)
    return record


def message_of(record=None, token=TOKEN, *, save=True, **fields):
    now = timezone.now()
    defaults = {
        "record": record,
        "token": token,
        "token_hash": digest(token),
        "kind": "complete",
        "body": "",
        "status": "delivered",
        "attempts": 1,
        "accepted": True,
        "execution_id": record.execution_id if record else "exec-0",
        "worker_id": "python-here-1",
        "server": "http://127.0.0.1:7233",
        "created_at": now - timedelta(hours=3),
        "settled_at": now,
    }
    message = OutboxMessage(**(defaults | fields))
    if save:
        message.save(force_insert=True)
    return message


def blocked_of(record=None, token=TOKEN, **fields):
    given = {"status": "blocked", "accepted": None, "settled_at": None, "last_status": 401} | fields
    return message_of(record, token, **given)


def failure_of(token=TOKEN, message="it broke", code="BROKEN"):
    return failure_body(token, f'{{"error_code":"{code}","error_message":"{message}","retryable":true}}')


def completion_of(token=TOKEN, output='{"a":1}'):
    return body_of(token, Completion(output))


@pytest.fixture
def person(db):
    """Make a staff member with the permissions that are named."""

    def make(*codenames):
        user = User.objects.create_user(f"person-{len(codenames)}", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        return user

    return make


@pytest.fixture
def viewer(client, person):
    """Return a client whose user may look at both tables and nothing else."""
    client.force_login(person("view_idempotencyrecord", "view_outboxmessage"))
    return client
