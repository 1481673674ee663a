import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection

from orbit_django import retention
from orbit_django.models import Effect, IdempotencyRecord, OutboxMessage
from tests.admin.conftest import HOSTILE, blocked_of, message_of, record_of
from tests.admin.test_effect import effect_of
from tests.ledger import Desk

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]
RECORDS = "/admin/orbit_django/idempotencyrecord/"


def address(record):
    return f"{RECORDS}{record.pk}/forget/"


@pytest.fixture
def clerk(client, person):
    """Return a client whose user may forget records."""
    client.force_login(person("view_idempotencyrecord", "forget_idempotencyrecord"))
    return client


def forget(client, record, words=None):
    return client.post(address(record), {"words": f"forget {record.pk}" if words is None else words}, follow=True)


@pytest.mark.parametrize("is_atomic_request", [True, False])
def test_a_forgotten_record_lets_the_next_delivery_run_the_handler(clerk, is_atomic_request):
    connection.settings_dict["ATOMIC_REQUESTS"] = is_atomic_request
    desk = Desk(lambda input, ctx: {"n": 1})
    desk.deliver()
    record = IdempotencyRecord.objects.get()
    message = OutboxMessage.objects.get()
    OutboxMessage.objects.update(status="delivered", settled_at=message.created_at, due_at=None, sender="")
    try:
        page = forget(clerk, record).content.decode()
    finally:
        connection.settings_dict["ATOMIC_REQUESTS"] = False
    assert "is forgotten. The next delivery of its key runs the handler." in page
    assert (IdempotencyRecord.objects.count(), OutboxMessage.objects.count()) == (0, 0)
    assert LogEntry.objects.get().get_change_message() == "Forgotten: the next delivery runs the handler."
    desk.deliver(redelivery=True)
    assert desk.runs == 2


def test_it_is_a_transaction_of_its_own_whatever_requests_are_wrapped_in(clerk, monkeypatch):
    seen = []
    monkeypatch.setattr(retention, "forget", lambda using, key: seen.append(connection.in_atomic_block))
    connection.settings_dict["ATOMIC_REQUESTS"] = True
    try:
        forget(clerk, record_of())
    finally:
        connection.settings_dict["ATOMIC_REQUESTS"] = False
    assert seen == [False]


def test_the_page_explains_what_is_risked_and_needs_the_words(clerk):
    record = record_of()
    effect_of(record, status="finished")
    page = clerk.get(address(record)).content.decode()
    assert f"forget {record.pk}" in page
    assert "the next delivery of this key runs the handler" in page
    assert "So is 1 effect" in page.replace("\n", " ").replace("  ", " ")
    for words in ("", "forget", "yes", f"forget {record.pk + 1}"):
        assert "Type exactly" in forget(clerk, record, words).content.decode()
    assert Effect.objects.get().record == record


@pytest.mark.parametrize("need", ["message", "blocked", "effect", "claim"])
def test_what_somebody_needs_is_not_forgotten(clerk, need):
    fields = {"status": "running", "output": None, "finished_at": None, "lease_ms": 2**50} if need == "claim" else {}
    record = record_of(**fields)
    match need:
        case "message":
            message_of(record, status="pending", settled_at=None, accepted=None, due_at=1)
        case "blocked":
            blocked_of(record)
        case "effect":
            effect_of(record)
    page = forget(clerk, record).content.decode()
    assert "Nothing was changed" in page
    assert IdempotencyRecord.objects.get() == record
    assert not LogEntry.objects.exists()


def test_the_page_says_beforehand_what_is_in_the_way(clerk):
    record = record_of()
    blocked_of(record)
    effect_of(record)
    page = clerk.get(address(record)).content.decode()
    assert "a message that reports this record has no answer yet" in page
    assert "an effect of it is open" in page
    assert 'name="words"' not in page


def test_who_may_only_look_has_no_way_and_cannot_forge_one(viewer):
    record = record_of()
    assert "/forget/" not in viewer.get(f"{RECORDS}{record.pk}/change/").content.decode()
    assert viewer.get(address(record)).status_code == 403
    assert forget(viewer, record).status_code == 403
    assert IdempotencyRecord.objects.exists()


def test_the_way_is_on_the_page_of_the_record(clerk):
    record = record_of()
    assert address(record) in clerk.get(f"{RECORDS}{record.pk}/change/").content.decode()


def test_a_post_from_another_site_is_refused(clerk):
    clerk.handler.enforce_csrf_checks = True
    assert forget(clerk, record_of()).status_code == 403
    assert IdempotencyRecord.objects.exists()


def test_a_record_that_is_gone_leads_back(clerk):
    assert "exist" in clerk.get(f"{RECORDS}999/forget/", follow=True).content.decode()


def test_hostile_texts_are_escaped(clerk):
    record = record_of(HOSTILE, task_name=HOSTILE, contract_version=HOSTILE)
    for page in (clerk.get(address(record)), forget(clerk, record, "no"), forget(clerk, record)):
        assert "<img src=x" not in page.content.decode()
        assert "&lt;img src=x" in page.content.decode()
