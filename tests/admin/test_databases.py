"""Rows in another database than that of the project's own tasks have lists, pages and decisions of their own."""

import pytest
from django.contrib.admin.models import LogEntry

from orbit_django import tasks
from orbit_django.admin import databases
from orbit_django.models import Effect, IdempotencyRecord, OutboxMessage
from tests.admin.conftest import blocked_of, message_of, record_of
from tests.admin.test_effect import effect_of

pytestmark = [pytest.mark.django_db(transaction=True, databases=["default", "other"]), pytest.mark.databases]
ADMIN = "/admin/orbit_django/"


@pytest.fixture
def two(registry):
    """Serve a task that keeps its rows in the other database."""
    registry.add(tasks.Task(tasks.Contract("far.task", "1.0.0"), function=lambda input: {}, using="other"))


def in_other(row):
    row.save(using="other", force_insert=True)
    return row


@pytest.fixture
def far(two):
    """Make rows in the other database, beside others under the same keys in the default one."""
    record_of("exec-here/step")
    record = in_other(record_of("exec-far/step", save=False))
    blocked = in_other(blocked_of(record, save=False))
    effect = in_other(effect_of(record, save=False))
    return record, blocked, effect


def test_a_list_shows_one_database_and_a_filter_the_other(admin_client, far):
    for query, found in (("", "exec-here"), ("?db=other", "exec-far"), ("?db=other&q=exec-far", "exec-far")):
        rows = admin_client.get(f"{ADMIN}idempotencyrecord/{query}").context["cl"].result_list
        assert [row.execution_id for row in rows] == [found]
    page = admin_client.get(f"{ADMIN}outboxmessage/?db=other")
    assert [counter.total for counter in page.context["counters"]][:4] == [0, 1, 0, 1]
    assert "db=other" in page.context["counters"][0].address


def test_pages_of_rows_name_their_database(admin_client, far):
    record, blocked, effect = far
    for model, row in (("idempotencyrecord", record), ("outboxmessage", blocked), ("effect", effect)):
        address = f"{ADMIN}{model}/other:{row.pk}/change/"
        assert address in admin_client.get(f"{ADMIN}{model}/?db=other").content.decode()
        page = admin_client.get(address).content.decode()
        assert "exec-far" in page
        assert f"{ADMIN}{model}/other:{row.pk}/history/" in page
    page = admin_client.get(f"{ADMIN}idempotencyrecord/execution/?id=exec-far&db=other")
    assert len(page.context["lines"]) == 6
    assert f"{ADMIN}outboxmessage/other:{blocked.pk}/change/" in page.content.decode()


def test_decisions_are_made_in_the_database_of_the_row(admin_client, far):
    record, blocked, effect = far
    said = {"outcome": "happened", "result": "1", "confirmed": "yes"}
    admin_client.post(f"{ADMIN}effect/other:{effect.pk}/settle/", said)
    assert Effect.objects.using("other").get().status == "finished"
    action = {"action": "requeue_blocked", "_selected_action": [blocked.pk], "post": "yes"}
    admin_client.post(f"{ADMIN}outboxmessage/?db=other", action)
    assert OutboxMessage.objects.using("other").get().status == "pending"
    OutboxMessage.objects.using("other").update(status="delivered", settled_at=record.created_at, due_at=None)
    admin_client.post(f"{ADMIN}idempotencyrecord/other:{record.pk}/forget/", {"words": f"forget {record.pk}"})
    assert not IdempotencyRecord.objects.using("other").exists()
    assert IdempotencyRecord.objects.get().execution_id == "exec-here"
    assert {entry.object_id for entry in LogEntry.objects.all()} == {f"other:{row.pk}" for row in far}


def test_the_projects_own_database_is_where_its_settings_say(admin_client, registry, settings):
    settings.ORBIT = {"DATABASE": "other"}
    record_of("exec-default/step")
    in_other(message_of(in_other(record_of("exec-ours/step", save=False)), save=False))
    rows = admin_client.get(f"{ADMIN}idempotencyrecord/").context["cl"].result_list
    assert [row.execution_id for row in rows] == ["exec-ours"]
    assert "other:" not in admin_client.get(f"{ADMIN}idempotencyrecord/").content.decode()


@pytest.mark.parametrize("wrong", [{"DATABASE": "nowhere"}, {"CONCURRENCY": "many"}, "nonsense"])
def test_wrong_settings_hide_no_rows(admin_client, registry, settings, wrong):
    settings.ORBIT = wrong
    record_of()
    assert admin_client.get(f"{ADMIN}idempotencyrecord/").context["cl"].result_count == 1


@pytest.mark.parametrize("name", ["other:1", "nowhere:1", ":", "other:", "x", "1:1:1", "9" * 40, "-1", "٣"])
def test_a_strange_name_finds_nothing(admin_client, registry, name):
    record_of()
    answer = admin_client.get(f"{ADMIN}idempotencyrecord/{name}/change/", follow=True)
    assert "exist" in answer.content.decode()


def test_one_database_is_no_choice(admin_client, registry):
    assert "db=" not in admin_client.get(f"{ADMIN}idempotencyrecord/").content.decode()
    assert databases.in_use() == ("default",)
