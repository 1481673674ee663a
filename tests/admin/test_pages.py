"""What both tables have in common: nothing is written, nothing is slow, nothing secret or hostile gets through."""

import re
import time

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from orbit_django.admin import lists, pages
from orbit_django.models import Effect, IdempotencyRecord, OutboxMessage, WorkflowStart
from tests.admin.conftest import HOSTILE, TOKEN, completion_of, failure_of, message_of, record_of
from tests.admin.test_effect import effect_of
from tests.worker.starting import ask

pytestmark = pytest.mark.django_db
RECORDS = "/admin/orbit_django/idempotencyrecord/"
MESSAGES = "/admin/orbit_django/outboxmessage/"
EFFECTS = "/admin/orbit_django/effect/"
STARTS = "/admin/orbit_django/workflowstart/"
WIDE = ("output", "body", "result", "input")
EVERYWHERE = (
    "",
    "?status__exact=failed",
    "?status__exact=blocked",
    "?q=exec-7",
    "?q=nowhere",
    "?q=exec-",
    "?q=pay",
    "?p=2",
    "?all=",
)


@pytest.fixture
def many_rows():
    wide = '{"wide":"' + "x" * 2_000 + '"}'
    records = [record_of(f"exec-{number}/step", save=False, output=wide) for number in range(1_200)]
    IdempotencyRecord.objects.bulk_create(records, batch_size=500)
    records = list(IdempotencyRecord.objects.all())
    rows = [message_of(record, f"token-{record.pk}", save=False) for record in records]
    OutboxMessage.objects.bulk_create(rows, batch_size=500)
    Effect.objects.bulk_create([effect_of(record, save=False) for record in records], batch_size=500)
    for number in range(60):
        ask(f"exec-{number}")


@pytest.fixture
def clerk(client, person):
    """Return a client whose user may do everything that there is."""
    names = ("idempotencyrecord", "outboxmessage", "effect", "workflowstart")
    more = (
        "forget_idempotencyrecord",
        "redeliver_outboxmessage",
        "requeue_outboxmessage",
        "settle_effect",
        "redeliver_workflowstart",
    )
    client.force_login(person(*(f"view_{name}" for name in names), *more))
    return client


@pytest.fixture
def viewer(client, person):
    names = ("idempotencyrecord", "outboxmessage", "effect", "workflowstart")
    client.force_login(person(*(f"view_{name}" for name in names)))
    return client


@pytest.mark.parametrize("address", [RECORDS, MESSAGES, EFFECTS, STARTS])
def test_lists_stay_quick_and_narrow_with_many_rows(clerk, many_rows, address):
    for query in EVERYWHERE:
        began = time.monotonic()
        with CaptureQueriesContext(connection) as captured:
            page = clerk.get(address + query)
        texts = [query["sql"] for query in captured]
        assert page.status_code == 200
        assert len(texts) <= 12, query
        assert time.monotonic() - began < 4
        assert not [text for text in texts if "COUNT(" in text and "LIMIT" not in text]
        assert not [text for text in texts for name in WIDE if f'"{name}"' in text]


def test_pages_of_one_row_take_few_queries(clerk, many_rows, django_assert_max_num_queries):
    message = OutboxMessage.objects.order_by("pk").last()
    effect = Effect.objects.order_by("pk").last()
    record = f"{RECORDS}{message.record_id}/"
    start = f"{STARTS}{WorkflowStart.objects.order_by('pk').last().pk}/"
    pages = (
        f"{record}change/", f"{record}history/", f"{record}forget/", f"{RECORDS}execution/?id={message.execution_id}",
        f"{MESSAGES}{message.pk}/change/", f"{EFFECTS}{effect.pk}/change/", f"{EFFECTS}{effect.pk}/settle/",
        f"{start}change/",
    )  # fmt: skip
    for address in pages:
        with django_assert_max_num_queries(12):
            assert clerk.get(address).status_code == 200, address


def test_our_own_pages_mark_the_way_to_them_up_as_django_does(clerk, registry):
    record = record_of("exec-1/step", status="failed")
    effect = effect_of(record)
    message_of(record, status="blocked", accepted=None, settled_at=None)
    mark = re.compile(r'<(\w+) class="breadcrumbs">(.*?)</\1>', re.DOTALL)
    usual = mark.search(clerk.get(RECORDS).content.decode())
    chosen = {"action": "requeue_blocked", "_selected_action": [message.pk for message in OutboxMessage.objects.all()]}
    for page in (
        clerk.get(f"{RECORDS}execution/?id=exec-1"),
        clerk.get(f"{RECORDS}{record.pk}/forget/"),
        clerk.get(f"{EFFECTS}{effect.pk}/settle/"),
        clerk.post(MESSAGES, chosen),
    ):
        ours = mark.search(page.content.decode())
        assert ours[1] == usual[1]
        assert ("<li>" in ours[2], 'aria-current="page"' in ours[2]) == ("<li>" in usual[2], "aria-current" in usual[2])
        assert 'href="/admin/orbit_django/"' in ours[2]


@pytest.mark.parametrize(
    ("address", "action"), [(MESSAGES, "deliver_again"), (MESSAGES, "requeue_blocked"), (STARTS, "deliver_again")]
)
def test_questions_take_few_queries_whatever_is_chosen(
    clerk, many_rows, django_assert_max_num_queries, address, action
):
    OutboxMessage.objects.update(status="blocked", settled_at=None, due_at=None)
    for query in ("", "?status__exact=blocked", "?q=exec-"):
        with django_assert_max_num_queries(12):
            answer = clerk.post(address + query, {"action": action, "_selected_action": [1], "select_across": "1"})
        assert "This is about" in answer.content.decode() or address == STARTS


def test_a_filter_without_an_index_reads_the_newest_rows_and_says_so(viewer, registry, monkeypatch):
    monkeypatch.setattr(lists, "WINDOW", 2)
    rows = [record_of(f"exec-{number}/a", status="failed", output=None) for number in range(4)]
    running = record_of("exec-r/a", status="running", output=None, finished_at=None)
    record_of("exec-s/a")
    page = viewer.get(f"{RECORDS}?status__exact=failed")
    assert list(page.context["cl"].result_list) == []
    assert "looks through the newest 2 rows" in page.content.decode()
    found = viewer.get(f"{RECORDS}?status__exact=failed&q=exec-").context["cl"].result_list
    assert [row.pk for row in found] == [row.pk for row in reversed(rows)]
    page = viewer.get(f"{RECORDS}?status__exact=running")
    assert list(page.context["cl"].result_list) == [running]
    assert "looks through" not in page.content.decode()


def test_a_search_that_finds_too_much_says_so(viewer, registry, monkeypatch):
    monkeypatch.setattr(pages, "MOST_FOUND", 3)
    for number in range(5):
        record_of(f"exec-{number}/a")
    page = viewer.get(f"{RECORDS}?q=exec-")
    assert page.context["cl"].result_count == 3
    assert "Give more of the id" in page.content.decode()


@pytest.mark.databases
def test_beginnings_are_found_by_an_index_and_byte_for_byte(viewer, registry):
    for name in ("exec-a", "EXEC-A", "exec_a", "exec%a", "éxec"):
        record_of(f"{name}/step", execution_id=name)
    for term, found in (("exec-", ["exec-a"]), ("exec%", ["exec%a"]), ("EX", ["EXEC-A"]), ("é", ["éxec"])):
        assert [row.execution_id for row in viewer.get(RECORDS, {"q": term}).context["cl"].result_list] == [found[0]]
    rows = IdempotencyRecord.objects.filter(lists.beginning("execution_id", "exec-", "default"))
    assert "execution_id" in rows.values("pk").explain().lower() or connection.vendor == "postgresql"


def test_the_pages_end_where_counting_ends(viewer, monkeypatch):
    monkeypatch.setattr(lists, "MOST_LISTED", 60)
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
    for query, found in (
        ("order 7/ä", 1),
        ("exec-77", 1),
        ("exec-7", 1),
        ("exec-", 2),
        ("other", 0),
        ("exec-8", 1),
        ("order", 0),
    ):
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
