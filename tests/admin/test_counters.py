from datetime import timedelta

import pytest
from django.utils import timezone

from orbit_django.admin import counters
from orbit_django.models import OutboxMessage, WorkflowStart
from tests.admin.conftest import blocked_of, message_of, record_of
from tests.admin.test_effect import effect_of
from tests.worker.starting import ask

pytestmark = pytest.mark.django_db
ADMIN = "/admin/orbit_django/"
PENDING = {"status": "pending", "settled_at": None, "accepted": None, "due_at": 1}


def above(client, model="outboxmessage"):
    return {counter.name: counter for counter in client.get(f"{ADMIN}{model}/").context["counters"]}


def test_every_list_tells_how_much_waits_and_for_how_long(admin_client, registry):
    old = timezone.now() - timedelta(hours=5)
    message_of(None, "1", **PENDING, created_at=old)
    message_of(None, "2", **PENDING)
    message_of(None, "3")
    blocked_of(None, "4")
    effect_of(record_of())
    ask("e-1")
    WorkflowStart.objects.update(created_at=old)
    for model in ("idempotencyrecord", "outboxmessage", "effect", "workflowstart"):
        told = above(admin_client, model)
        assert {name: counter.total for name, counter in told.items() if counter.word != "refused"} == {
            "messages pending": 2,
            "message blocked": 1,
            "effect uncertain": 1,
            "start pending": 1,
            "starts blocked": 0,
        }
        assert told["messages pending"].age == "oldest 5\xa0hours"
        assert told["start pending"].age == "oldest 5\xa0hours"
    assert "oldest 5\xa0hours" in admin_client.get(f"{ADMIN}effect/").content.decode()


def test_a_list_tells_what_was_refused_of_its_own(admin_client, registry):
    before = timezone.now() - timedelta(hours=49)
    message_of(None, "1", status="refused", reason="stale attempt")
    message_of(None, "2", status="refused", reason="output violates the contract", settled_at=before)
    ask("e-1")
    WorkflowStart.objects.update(status="refused", due_at=None, settled_at=before)
    for model, name in (("outboxmessage", "message refused"), ("workflowstart", "start refused")):
        (counter,) = (each for each in above(admin_client, model).values() if each.word == "refused")
        assert (counter.name, counter.total, counter.is_trouble) == (name, 1, True)
        assert counter.age == "last 2\xa0days ago"


def test_a_number_leads_to_its_rows(admin_client, registry):
    message = message_of(None, "1", **PENDING)
    page = admin_client.get(above(admin_client)["message pending"].address)
    assert list(page.context["cl"].result_list) == [message]


def test_counting_ends_early(admin_client, registry, monkeypatch):
    monkeypatch.setattr(counters, "LIMIT", 3)
    OutboxMessage.objects.bulk_create([message_of(None, str(n), save=False, **PENDING) for n in range(5)])
    assert above(admin_client)["messages pending"].number == "3 or more"


def test_only_what_one_may_look_at_is_counted(client, person):
    client.force_login(person("view_idempotencyrecord", "view_effect"))
    assert set(above(client, "idempotencyrecord")) == {"effects uncertain"}
