import pytest
from django.utils import timezone

from orbit_django.models import WorkflowStart
from tests.admin.conftest import HOSTILE
from tests.worker.starting import ask

pytestmark = pytest.mark.django_db
STARTS = "/admin/orbit_django/workflowstart/"


@pytest.fixture
def viewer(client, person):
    client.force_login(person("view_workflowstart"))
    return client


def test_the_list_and_the_page_tell_what_was_asked_for(viewer, registry):
    ask("order-7")
    WorkflowStart.objects.update(status="refused", settled_at=timezone.now(), last_error="no such workflow", attempts=3)
    start = WorkflowStart.objects.get()
    page = viewer.get(STARTS).content.decode()
    for text in ("refused", "Charge", "order-7", "no such workflow", ">3<"):
        assert text in page
    page = viewer.get(f"{STARTS}{start.pk}/change/").content.decode()
    assert "&quot;amount&quot;: 5" in page
    assert "no such workflow" in page


@pytest.mark.promise("W9")
def test_what_a_sensitive_task_may_be_given_is_hidden(viewer, serve):
    serve("pay.charge", sensitive=True)
    ask("order-7")
    page = viewer.get(f"{STARTS}{WorkflowStart.objects.get().pk}/change/").content.decode()
    assert "declared sensitive" in page
    assert "amount" not in page


def test_filters_and_searches(viewer):
    for name in ("order-7", "order-8", "other"):
        ask(name)
    WorkflowStart.objects.filter(execution_id="other").update(status="started", settled_at=timezone.now())
    for query, count in (
        ("status__exact=pending", 2),
        ("status__exact=started", 1),
        ("q=order-7", 1),
        ("q=order-", 2),
        ("q=nothing", 0),
    ):
        assert viewer.get(f"{STARTS}?{query}").context["cl"].result_count == count, query


def test_hostile_texts_are_escaped(viewer):
    ask(HOSTILE)
    WorkflowStart.objects.update(workflow=HOSTILE, last_error=HOSTILE, input=f'"{HOSTILE}"')
    for address in (STARTS, f"{STARTS}{WorkflowStart.objects.get().pk}/change/"):
        page = viewer.get(address).content.decode()
        assert "<img src=x" not in page
        assert "&lt;img src=x" in page


def test_nobody_adds_changes_or_deletes(admin_client):
    ask()
    start = WorkflowStart.objects.get()
    assert admin_client.post(f"{STARTS}add/", {}).status_code == 403
    assert admin_client.post(f"{STARTS}{start.pk}/change/", {"status": "started"}).status_code == 403
    assert admin_client.post(f"{STARTS}{start.pk}/delete/", {"post": "yes"}).status_code == 403
    assert WorkflowStart.objects.get().status == "pending"
