import pytest

from tests.admin.conftest import message_of, record_of

pytestmark = pytest.mark.django_db
RECORDS = "/admin/orbit_django/idempotencyrecord/"
FAILURE = '{"error_code":"CARD_DECLINED","error_message":"no","retryable":false}'


def test_the_list_tells_what_became_of_each_key(viewer):
    record_of("exec-1/charge", status="failed", output=None, error=FAILURE, attempt=3)
    page = viewer.get(RECORDS).content.decode()
    for text in ("failed", "pay.charge 1.0.0", "exec-1/charge", "CARD_DECLINED", "5\xa0minutes"):
        assert text in page


def test_a_very_long_key_does_not_fill_the_list(viewer):
    record_of("k" * 100_000, execution_id="exec-1")
    assert len(viewer.get(RECORDS).content) < 50_000


def test_the_page_shows_the_outcome_and_its_reports(viewer):
    record = record_of()
    message = message_of(record)
    page = viewer.get(f"{RECORDS}{record.pk}/change/").content.decode()
    assert "&quot;paid&quot;: true" in page
    assert f"/admin/orbit_django/outboxmessage/{message.pk}/change/" in page


@pytest.mark.promise("W9")
def test_outcomes_of_sensitive_tasks_are_hidden(viewer, serve):
    serve("pay.charge", sensitive=True)
    for fields in ({"output": '{"card":"4242"}'}, {"output": None, "error": '{"error_message":"4242"}'}):
        record = record_of(str(fields), **fields)
        page = viewer.get(f"{RECORDS}{record.pk}/change/").content.decode()
        assert "4242" not in page.replace(record.idempotency_key, "").partition("Outcome")[2]
        assert "declared sensitive" in page


def test_filters_find_states_and_kinds(viewer):
    record_of("a", status="running", output=None, finished_at=None)
    record_of("b", step_kind="compensation")
    for query, key in (("status__exact=running", "a"), ("status__exact=succeeded", "b")):
        assert [row.head_key for row in viewer.get(f"{RECORDS}?{query}").context["cl"].result_list] == [key]
    assert viewer.get(f"{RECORDS}?step_kind__exact=compensation").context["cl"].result_count == 1
