import re

import pytest

from orbit_django import outbox
from orbit_django.admin import shown
from orbit_django.models import OutboxMessage
from tests.admin.conftest import blocked_of, completion_of, failure_of, message_of, record_of

MESSAGES = "/admin/orbit_django/outboxmessage/"
HERE = outbox.Origin("python-here-2", "http://127.0.0.1:7233")


@pytest.fixture
def requeue(client):
    """Post the action as the page would."""

    def post(user, *rows, **fields):
        client.force_login(user)
        chosen = {"action": "requeue_blocked", "_selected_action": [row.pk for row in rows], "post": "yes"}
        return client.post(MESSAGES, chosen | fields, follow=True)

    return post


@pytest.mark.django_db
def test_the_list_tells_what_is_owed_and_what_was_answered(viewer):
    record = record_of("exec-1/charge")
    message_of(record, "one", status="refused", accepted=False, reason="duplicate result; step already resolved")
    message_of(record, "two", status="pending", accepted=None, settled_at=None, last_error="no connection", attempts=7)
    page = viewer.get(MESSAGES).content.decode()
    for text in ("superseded", "pay.charge 1.0.0", "exec-1", "duplicate result", "no connection", ">7<"):
        assert text in page


@pytest.mark.django_db
def test_a_failure_that_was_delivered_does_not_look_like_a_success(viewer):
    message = message_of(record_of(), kind="fail", body=failure_of(code="CARD_DECLINED"))
    for address in (MESSAGES, f"{MESSAGES}{message.pk}/change/"):
        page = viewer.get(address).content.decode()
        labels = re.findall(r'color:(#\w+)">●</span> (\w+)', page)
        assert labels == [(shown.COLOURS["failed"], "failed"), (shown.COLOURS["delivered"], "delivered")]
        assert shown.COLOURS["succeeded"] not in page
    assert "failed</span>, CARD_DECLINED" in page

    message_of(record_of("exec-2/step"), "two")
    assert f'color:{shown.COLOURS["succeeded"]}">●</span> succeeded' in viewer.get(MESSAGES).content.decode()


@pytest.mark.django_db
def test_a_filter_finds_each_state(viewer):
    reasons = {"refused": "output violates the task contract", "superseded": "stale attempt"}
    rows = {
        "pending": message_of(None, "1", status="pending", settled_at=None, due_at=1),
        "blocked": blocked_of(None, "2"),
        "delivered": message_of(None, "3"),
        "superseded": message_of(None, "4", status="refused", accepted=False, reason=reasons["superseded"]),
    }
    for word, row in rows.items():
        assert list(viewer.get(f"{MESSAGES}?status__exact={word}").context["cl"].result_list) == [row]
    refused = message_of(None, "5", status="refused", accepted=False, reason=reasons["refused"])
    assert list(viewer.get(f"{MESSAGES}?status__exact=refused").context["cl"].result_list) == [refused]
    assert viewer.get(f"{MESSAGES}?kind__exact=fail").context["cl"].result_count == 0


@pytest.mark.django_db
def test_a_report_of_a_task_that_nobody_serves_has_a_page(viewer):
    message = message_of(None, kind="fail", body=failure_of(code="UNKNOWN_TASK"))
    assert "UNKNOWN_TASK" in viewer.get(f"{MESSAGES}{message.pk}/change/").content.decode()


@pytest.mark.django_db
def test_a_body_that_is_the_records_output_is_shown(viewer):
    message = message_of(record_of())
    assert "&quot;paid&quot;: true" in viewer.get(f"{MESSAGES}{message.pk}/change/").content.decode()


@pytest.mark.django_db
def test_a_message_that_one_binding_cannot_carry_says_so(viewer):
    message = message_of(None, status="pending", accepted=None, settled_at=None, due_at=1, declined_by="grpc")
    assert "another binding than grpc" in viewer.get(f"{MESSAGES}{message.pk}/change/").content.decode()


@pytest.mark.promise("W9")
@pytest.mark.django_db
def test_bodies_of_sensitive_tasks_are_hidden(viewer, serve):
    serve("pay.charge", sensitive=True)
    message = message_of(record_of(), body=completion_of(output='{"card":"4242"}'))
    page = viewer.get(f"{MESSAGES}{message.pk}/change/").content.decode()
    assert "4242" not in page
    assert "declared sensitive" in page


@pytest.mark.django_db(transaction=True)
@pytest.mark.databases
def test_a_requeued_message_is_sent_again_by_any_worker(requeue, person):
    blocked = blocked_of(None, "1", last_status=403)
    others = [message_of(None, "2"), message_of(None, "3", status="refused", accepted=False)]
    page = requeue(person("view_outboxmessage", "requeue_outboxmessage"), blocked, *others)
    assert "1 of the blocked messages will be sent" in page.content.decode()
    assert set(OutboxMessage.objects.values_list("token", "status")) == {
        ("1", "pending"),
        ("2", "delivered"),
        ("3", "refused"),
    }
    blocked.refresh_from_db()
    assert (blocked.due_at is not None, blocked.attempts, blocked.body) == (True, 1, "")
    assert outbox.claim_due("default", HERE, 10, is_flush=True) == [blocked]


@pytest.mark.django_db(transaction=True)
def test_all_pages_of_blocked_messages_are_requeued_at_once(requeue, admin_user):
    rows = [blocked_of(None, str(number), save=False) for number in range(1_200)]
    OutboxMessage.objects.bulk_create(rows, batch_size=200)
    page = requeue(admin_user, OutboxMessage.objects.first(), select_across="1")
    assert "1,200 of the blocked messages" in page.content.decode()
    assert not OutboxMessage.objects.blocked().exists()


@pytest.mark.django_db
def test_who_may_only_look_has_no_action_and_cannot_forge_one(requeue, person):
    blocked = blocked_of()
    user = person("view_outboxmessage")
    page = requeue(user, blocked)
    assert "requeue_blocked" not in page.content.decode()
    assert OutboxMessage.objects.blocked().get() == blocked
    requeue(user, blocked, index="0", select_across="1")
    assert OutboxMessage.objects.blocked().get() == blocked


def test_a_receipt_and_the_id_of_its_outcome_are_shown(viewer):
    receipt = '{"status":"rejected","generation":2,"completion_id":"c-1","reason_code":"WV-SCHEMA-SECRET_VALUE"}'
    record = record_of()
    message = message_of(record, token="", status="refused", accepted=False, reason="rejected", receipt=receipt)
    message.completion_id = "c-1"
    message.save()
    page = viewer.get(f"/admin/orbit_django/outboxmessage/{message.pk}/change/").content.decode()
    line = "receipt rejected, generation 2, completion_id c-1, reason_code WV-SCHEMA-SECRET_VALUE"
    assert line in page
    assert ">c-1<" in page.replace(" ", "").replace("\n", "")
    timeline = viewer.get("/admin/orbit_django/idempotencyrecord/execution/", {"id": record.execution_id})
    assert line in timeline.content.decode()


@pytest.mark.parametrize(
    ("receipt", "line"),
    [
        ("", ""),
        ("no json", "no json"),
        ("[]", ""),
        ('{"status":"ignored"}', "receipt ignored"),
        ('{"status":"completed","unavailable":true}', "receipt completed, its evidence is not available any more"),
    ],
)
def test_every_kind_of_receipt_is_one_line(receipt, line):
    assert shown.receipt_of(message_of(save=False, receipt=receipt)) == line
