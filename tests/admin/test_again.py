"""Sending again: asked for, confirmed, and done for what nobody is sending."""

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection

from orbit_django import outbox, starts
from orbit_django.models import OutboxMessage, WorkflowStart
from tests.admin.conftest import HOSTILE, blocked_of, message_of, record_of
from tests.worker.starting import ask

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]
MESSAGES = "/admin/orbit_django/outboxmessage/"
STARTS = "/admin/orbit_django/workflowstart/"
HERE = outbox.Origin("python-here-2", "http://127.0.0.1:7233")
LATER = 2**42


def waiting_of(name="w", **fields):
    given = {"status": "pending", "settled_at": None, "accepted": None, "due_at": LATER, "last_error": "no connection"}
    return message_of(record_of(f"exec-{name}/step"), name, **(given | fields))


@pytest.fixture
def clerk(client, person):
    """Return a client whose user may have things sent again."""
    client.force_login(
        person("view_outboxmessage", "redeliver_outboxmessage", "view_workflowstart", "redeliver_workflowstart")
    )
    return client


def ask_for(client, *rows, start=MESSAGES, **fields):
    chosen = {"action": "deliver_again", "_selected_action": [row.pk for row in rows]}
    return client.post(start, chosen | fields, follow=True).content.decode()


def test_the_question_comes_first_and_changes_nothing(clerk):
    message = waiting_of()
    page = ask_for(clerk, message)
    for text in ("This is about <strong>1 unanswered message</strong>", "exec-w", "no connection", "Yes, I am sure"):
        assert text in page
    assert OutboxMessage.objects.get().due_at == LATER
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize("is_atomic_request", [True, False])
def test_what_waits_or_is_blocked_is_sent_at_once(clerk, is_atomic_request):
    connection.settings_dict["ATOMIC_REQUESTS"] = is_atomic_request
    rows = [waiting_of("a"), blocked_of(None, "b", last_status=403), message_of(None, "c")]
    try:
        page = ask_for(clerk, *rows, post="yes")
    finally:
        connection.settings_dict["ATOMIC_REQUESTS"] = False
    assert "2 of the unanswered messages will be sent" in page
    assert {row.token for row in outbox.claim_due("default", HERE, 10, is_flush=True)} == {"a", "b"}
    assert OutboxMessage.objects.get(token="c").status == "delivered"
    assert {entry.get_change_message() for entry in LogEntry.objects.all()} == {"Deliver again."}


@pytest.mark.promise("D5")
def test_what_is_being_sent_at_this_moment_is_left_alone(clerk):
    message = waiting_of(sender="somebody")
    page = ask_for(clerk, message, post="yes")
    assert "0 of the unanswered messages" in page
    assert "since being sent at this moment or answered: 1." in page
    assert OutboxMessage.objects.get().sender == "somebody"


def test_nothing_that_waits_is_no_question(clerk):
    assert "None of the chosen rows" in ask_for(clerk, message_of())


def test_all_of_a_filter_are_chosen_at_once(clerk):
    rows = [waiting_of("a"), waiting_of("b"), blocked_of(None, "c")]
    address = f"{MESSAGES}?status__exact=pending"
    assert "<strong>2 unanswered messages</strong>" in ask_for(clerk, rows[0], start=address, select_across="1")
    ask_for(clerk, rows[0], start=address, select_across="1", post="yes")
    assert OutboxMessage.objects.blocked().count() == 1
    assert not OutboxMessage.objects.filter(due_at=LATER).exists()


def test_starts_are_sent_again_as_well(clerk):
    for name in ("a", "b", "c"):
        ask(name)
    WorkflowStart.objects.update(due_at=LATER)
    WorkflowStart.objects.filter(execution_id="b").update(status="blocked", due_at=None)
    WorkflowStart.objects.filter(execution_id="c").update(sender="somebody")
    rows = WorkflowStart.objects.all()
    assert "unanswered starts" in ask_for(clerk, *rows, start=STARTS)
    assert "2 of the unanswered starts" in ask_for(clerk, *rows, start=STARTS, post="yes")
    assert {held.execution_id for held in starts.claim_due("default", 10)} == {"a", "b"}


def test_a_row_that_waits_leads_to_the_question(clerk, viewer):
    address = f"{MESSAGES}{waiting_of().pk}/change/"
    assert 'value="deliver_again"' not in viewer.get(address).content.decode()


def test_the_page_of_a_row_offers_what_its_user_may_ask_for(clerk):
    page = clerk.get(f"{MESSAGES}{waiting_of().pk}/change/").content.decode()
    assert 'value="deliver_again"' in page
    assert 'value="requeue_blocked"' not in page
    assert "Send again" not in clerk.get(f"{MESSAGES}{message_of(None, 'c').pk}/change/").content.decode()


def test_who_may_only_look_cannot_forge_it(viewer):
    message = waiting_of()
    assert "deliver_again" not in viewer.get(MESSAGES).content.decode()
    ask_for(viewer, message, post="yes")
    assert OutboxMessage.objects.get().due_at == LATER


def test_hostile_texts_are_escaped(clerk):
    record = record_of(HOSTILE, task_name=HOSTILE, contract_version=HOSTILE)
    page = ask_for(clerk, blocked_of(record, last_error=HOSTILE))
    assert "<img src=x" not in page
    assert "&lt;img src=x" in page
