"""What both tables have in common: nothing is written, nothing is slow, nothing secret or hostile gets through."""

import time

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from orbit_django.admin import pages
from orbit_django.models import IdempotencyRecord, OutboxMessage
from tests.admin.conftest import HOSTILE, TOKEN, completion_of, failure_of, message_of, record_of

pytestmark = pytest.mark.django_db
RECORDS = "/admin/orbit_django/idempotencyrecord/"
MESSAGES = "/admin/orbit_django/outboxmessage/"
EVERYWHERE = ("", "?status__exact=failed", "?status__exact=blocked", "?q=exec-7", "?q=nowhere", "?p=2", "?all=")


@pytest.fixture
def many_rows():
    wide = '{"wide":"' + "x" * 2_000 + '"}'
    records = [record_of(f"exec-{number}/step", save=False, output=wide) for number in range(5_000)]
    IdempotencyRecord.objects.bulk_create(records, batch_size=500)
    rows = [message_of(record, f"token-{record.pk}", save=False) for record in IdempotencyRecord.objects.all()]
    OutboxMessage.objects.bulk_create(rows, batch_size=500)


@pytest.mark.parametrize("address", [RECORDS, MESSAGES])
def test_lists_stay_quick_and_narrow_with_many_rows(viewer, many_rows, address):
    for query in EVERYWHERE:
        began = time.monotonic()
        with CaptureQueriesContext(connection) as captured:
            page = viewer.get(address + query)
        texts = [query["sql"] for query in captured]
        assert page.status_code == 200
        assert len(texts) <= 12
        assert time.monotonic() - began < 4
        assert not [text for text in texts if "COUNT(" in text and "LIMIT" not in text]
        assert not [text for text in texts if '"output"' in text or '"body"' in text]


def test_a_page_of_one_row_takes_few_queries(viewer, many_rows, django_assert_max_num_queries):
    message = OutboxMessage.objects.order_by("pk").last()
    for address in (f"{RECORDS}{message.record_id}/change/", f"{MESSAGES}{message.pk}/change/"):
        with django_assert_max_num_queries(12):
            assert viewer.get(address).status_code == 200


def test_the_pages_end_where_counting_ends(viewer, monkeypatch):
    monkeypatch.setattr(pages, "MOST_LISTED", 60)
    rows = [record_of(f"exec-{number}", save=False) for number in range(80)]
    IdempotencyRecord.objects.bulk_create(rows)
    assert viewer.get(RECORDS).context["cl"].result_count == 60
    assert viewer.get(f"{RECORDS}?p=2").context["cl"].result_list.count() == 10
    assert viewer.get(f"{RECORDS}?p=3").status_code == 302


@pytest.mark.promise("W9")
def test_tokens_are_shown_nowhere(viewer):
    record = record_of(output=f'{{"echo":"{TOKEN}"}}')
    derived = message_of(record, reason=f"unknown token {TOKEN}", accepted=False, status="refused")
    failed = message_of(record, kind="fail", body=failure_of(message=TOKEN), last_error=f"lost {TOKEN}")
    pairs = [(RECORDS, record), (MESSAGES, derived), (MESSAGES, failed)]
    for address in (RECORDS, MESSAGES, *(f"{start}{row.pk}/change/" for start, row in pairs)):
        page = viewer.get(address).content.decode()
        assert TOKEN not in page
        assert derived.token_hash not in page
    assert "&quot;token&quot;: &quot;********&quot;" in page


@pytest.mark.promise("W9")
def test_a_token_is_found_in_whatever_form_json_writes_it(viewer):
    token = 'a"b\\c-é'
    message = message_of(None, token, body=completion_of(token))
    page = viewer.get(f"{MESSAGES}{message.pk}/change/").content.decode()
    assert "********" in page
    assert "b\\\\c" not in page
    assert "é" not in page


def test_hostile_texts_are_escaped(viewer):
    record = record_of(
        HOSTILE, task_name=HOSTILE, output=f'{{"a":"{HOSTILE}"}}', error=f'{{"error_code":"{HOSTILE}"}}',
        step_id=HOSTILE, workflow=HOSTILE, worker_id=HOSTILE, contract_version=HOSTILE,
    )  # fmt: skip
    message = message_of(
        record, kind="fail", body=failure_of(message=HOSTILE), accepted=False, status="refused",
        reason=HOSTILE, last_error=HOSTILE, worker_id=HOSTILE, server=HOSTILE,
    )  # fmt: skip
    for address in (RECORDS, MESSAGES, f"{RECORDS}{record.pk}/change/", f"{MESSAGES}{message.pk}/change/"):
        page = viewer.get(address).content.decode()
        assert "<img src=x" not in page
        assert "&lt;img src=x" in page


def test_a_search_finds_whole_keys_and_beginnings_of_executions(viewer, serve):
    serve("pay.charge")
    ours = record_of("order 7/ä", execution_id="exec-77")
    message = message_of(ours)
    record_of("other", task_name="gone.task", execution_id="exec-8")
    for query, found in (("order 7/ä", 1), ("exec-77", 1), ("exec-7", 1), ("exec-", 2), ("other", 1), ("order", 0)):
        assert viewer.get(RECORDS, {"q": query}).context["cl"].result_count == found, query
    for query in ("order 7/ä", "exec-77", "exec-7"):
        assert list(viewer.get(MESSAGES, {"q": query}).context["cl"].result_list) == [message], query


def test_a_key_of_a_known_task_is_found_by_an_index_alone(viewer, serve):
    serve("pay.charge")
    record_of("order 7")
    with CaptureQueriesContext(connection) as captured:
        viewer.get(RECORDS, {"q": "order 7"})
    assert not [
        query["sql"]
        for query in captured
        if 'WHERE ("orbit_django_idempotencyrecord"."execution_id" LIKE' in query["sql"]
    ]


@pytest.mark.parametrize("query", ["?q=%00", "?q=%FF", "?p=x", "?status__exact=nothing", "?step_kind__exact=<b>"])
def test_a_strange_address_is_no_crash(viewer, query):
    record_of()
    for address in (RECORDS, MESSAGES):
        assert viewer.get(address + query).status_code in (200, 302)


def test_nobody_adds_changes_or_deletes(admin_client):
    record = record_of()
    message = message_of(record)
    for start, row in ((RECORDS, record), (MESSAGES, message)):
        assert admin_client.get(f"{start}add/").status_code == 403
        assert admin_client.post(f"{start}add/", {}).status_code == 403
        assert admin_client.post(f"{start}{row.pk}/change/", {"status": "failed"}).status_code == 403
        assert admin_client.post(f"{start}{row.pk}/delete/", {"post": "yes"}).status_code == 403
        admin_client.post(start, {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"})
    assert (IdempotencyRecord.objects.count(), OutboxMessage.objects.count()) == (1, 1)


def test_without_permission_there_is_nothing_to_see(client, person):
    client.force_login(person())
    for address in (RECORDS, MESSAGES, f"{RECORDS}{record_of().pk}/change/"):
        assert client.get(address).status_code == 403


def test_times_without_zones_are_shown_as_well(viewer, settings):
    settings.USE_TZ = False
    record = record_of(lease_ms=1_700_000_000_000, status="running", finished_at=None, output=None)
    message = message_of(record, status="pending", settled_at=None, due_at=1_700_000_000_000)
    for address in (RECORDS, MESSAGES, f"{RECORDS}{record.pk}/change/", f"{MESSAGES}{message.pk}/change/"):
        assert viewer.get(address).status_code == 200
    assert "Nov. 14, 2023" in viewer.get(f"{MESSAGES}{message.pk}/change/").content.decode()
