import json

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from orbit_django import outbox
from orbit_django.models import Effect, IdempotencyRecord
from tests.admin.conftest import HOSTILE, TOKEN, message_of, record_of
from tests.ledger import Desk

pytestmark = [pytest.mark.django_db, pytest.mark.promise("E10")]
EFFECTS = "/admin/orbit_django/effect/"


def effect_of(record=None, *, save=True, **fields):
    defaults = {
        "record": record or record_of(),
        "name": "pay",
        "name_hash": "n" * 64,
        "status": "uncertain",
        "error": "TimeoutError: gone quiet",
        "started_at": timezone.now(),
    }
    effect = Effect(**(defaults | fields))
    if save:
        effect.save(force_insert=True)
    return effect


@pytest.fixture
def viewer(client, person):
    client.force_login(person("view_effect"))
    return client


@pytest.fixture
def clerk(client, person):
    """Return a client whose user may settle."""
    client.force_login(person("view_effect", "settle_effect"))
    return client


class Till:
    """The outside world: its first call goes quiet."""

    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        if self.calls == 1:
            raise TimeoutError
        return {"n": self.calls}


def page_of(client, effect, what="change"):
    return client.get(f"{EFFECTS}{effect.pk}/{what}/").content.decode()


def settle(client, effect, outcome, result="", **fields):
    said = {"outcome": outcome, "result": result, "confirmed": "yes"}
    return client.post(f"{EFFECTS}{effect.pk}/settle/", said | fields, follow=True)


def sent(message):
    return json.loads(outbox.text_of(message))


def test_the_list_and_the_page_tell_what_nobody_knows(viewer):
    effect = effect_of(record_of("exec-1/charge"))
    page = viewer.get(EFFECTS).content.decode()
    for text in ("uncertain", "pay", "pay.charge 1.0.0", "exec-1/charge", "gone quiet", "0\xa0minutes"):
        assert text in page
    assert "gone quiet" in page_of(viewer, effect)


def test_incidents_and_open_effects_are_found_by_a_filter(viewer):
    rows = {word: effect_of(record_of(word), status=word) for word in Effect.Status.values}
    for word, found in (("uncertain", ["uncertain"]), ("open", ["started", "uncertain"]), ("finished", ["finished"])):
        listed = viewer.get(f"{EFFECTS}?status__exact={word}").context["cl"].result_list
        assert {row.pk for row in listed} == {rows[name].pk for name in found}


def test_a_search_finds_executions_and_keys(viewer, serve):
    serve("pay.charge")
    effect = effect_of(record_of("order 7", execution_id="exec-77"))
    for query, found in (("exec-77", 1), ("exec-7", 1), ("order 7", 1), ("pay", 0), ("other", 0)):
        assert viewer.get(EFFECTS, {"q": query}).context["cl"].result_count == found, query
    assert page_of(viewer, effect)


def test_the_list_stays_narrow(viewer):
    record = record_of(output='{"wide":1}')
    effect_of(record)
    with CaptureQueriesContext(connection) as captured:
        viewer.get(EFFECTS)
    assert len(captured) <= 12
    assert not [query for query in captured if '"output"' in query["sql"] or '"result"' in query["sql"]]


@pytest.mark.databases
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("outcome", "result", "paid", "calls"),
    [("happened", '{"n": 9007199254740993}', {"n": 9007199254740993}, 1), ("not_happened", "", {"n": 2}, 2)],
)
@pytest.mark.parametrize("is_atomic", [True, False])
def test_the_next_delivery_follows_what_the_person_said(clerk, settings, outcome, result, paid, calls, is_atomic):
    connection.settings_dict["ATOMIC_REQUESTS"] = is_atomic
    till = Till()
    desk = Desk(lambda input, ctx: {"paid": ctx.effect("pay", till)}, is_atomic=False)
    assert sent(desk.deliver())["error_code"] == "EFFECT_UNCERTAIN"
    try:
        page = settle(clerk, Effect.objects.get(), outcome, result).content.decode()
    finally:
        connection.settings_dict["ATOMIC_REQUESTS"] = False
    assert "The runtime has not answered the failure of attempt 1 yet" in page
    assert "do not start the workflow again: the key &#x27;e1/step&#x27; belongs to this execution" in page
    assert Effect.objects.get().settled_by == "person-2"
    assert sent(desk.deliver(redelivery=True))["output"] == {"paid": paid}
    assert till.calls == calls


def test_the_way_to_settle_asks_and_explains_first(clerk):
    effect = effect_of()
    address = f"{EFFECTS}{effect.pk}/settle/"
    assert address in page_of(clerk, effect)
    assert "It happened, with this result" in clerk.get(address).content.decode()
    page = clerk.post(address, {"outcome": "happened", "result": ' {"a": "é"}'}).content.decode()
    assert "gets this result" in page
    assert 'name="result" value="{&quot;a&quot;:&quot;\\u00e9&quot;}"' in page
    page = clerk.post(address, {"outcome": "not_happened", "result": ""}).content.decode()
    assert "it happens twice" in page
    assert Effect.objects.get().status == "uncertain"


def test_what_was_settled_is_in_the_history(clerk):
    effect = effect_of()
    settle(clerk, effect, "happened", "null")
    assert Effect.objects.get().result == "null"
    assert LogEntry.objects.get().get_change_message() == "Settled: it happened."
    assert "Say whether it happened" not in page_of(clerk, effect)


def test_what_was_said_is_corrected_until_a_success_stands_on_it(clerk):
    record = record_of("exec-1/charge", status="running")
    earlier = {"result": '{"charge":"ch_0"}', "name_hash": "n" * 64, "status": "finished"}
    effect_of(record_of("exec-0/charge"), **earlier)
    effect = effect_of(record)
    settle(clerk, effect, "happened", '"ch_1"')
    assert "Correct what was said" in page_of(clerk, effect)
    page = page_of(clerk, effect, "settle")
    assert "person-2 has said what became of it" in page
    assert "{&quot;charge&quot;: text}" in page
    settle(clerk, effect, "happened", '{"charge": "ch_1"}')
    assert Effect.objects.get(pk=effect.pk).result == '{"charge":"ch_1"}'
    told = [entry.get_change_message() for entry in LogEntry.objects.order_by("pk")]
    assert told == ["Settled: it happened.", "Corrected, person-2 had settled it: it happened."]
    IdempotencyRecord.objects.filter(pk=record.pk).update(status="succeeded", output="{}")
    assert "Correct what was said" not in page_of(clerk, effect)
    assert "This effect is not open any more" in settle(clerk, effect, "happened", "1").content.decode()


def test_the_page_shows_by_what_the_other_side_knows_the_call(clerk):
    keys = []

    def handler(input, ctx):
        keys.append(ctx.effect_key("pay"))
        return ctx.effect("pay", Till())

    Desk(handler, is_atomic=False).deliver()
    effect = Effect.objects.get()
    assert keys[0] in page_of(clerk, effect)
    assert keys[0] in page_of(clerk, effect, "settle")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"outcome": "happened", "result": ""}, "This is no JSON value"),
        ({"outcome": "happened", "result": "{"}, "This is no JSON value"),
        ({"outcome": "happened", "result": "[1, NaN]"}, "which JSON does not have"),
        ({"outcome": "happened", "result": "[" * 50_000}, "nested too deeply"),
        ({"outcome": "not_happened", "result": "1"}, "What did not happen has no result"),
        ({"outcome": "perhaps", "result": "1"}, "Select a valid choice"),
        ({}, "This field is required"),
    ],
)
def test_a_mistake_changes_nothing(clerk, said, told):
    effect = effect_of()
    page = clerk.post(f"{EFFECTS}{effect.pk}/settle/", said | {"confirmed": "yes"}).content.decode()
    assert told in page
    assert Effect.objects.get().status == "uncertain"


def test_what_is_settled_cannot_be_settled_again(clerk):
    effect = effect_of(status="finished", result="1")
    page = settle(clerk, effect, "not_happened").content.decode()
    assert "not open any more" in page
    assert Effect.objects.get().status == "finished"


def test_a_call_that_goes_on_cannot_be_settled(clerk):
    record = record_of(status="running", owner="alive", lease_ms=2**50, output=None, finished_at=None)
    effect = effect_of(record, status="started", owner="alive")
    page = settle(clerk, effect, "not_happened").content.decode()
    assert "Nothing was changed: the run that calls &#x27;pay&#x27; still holds its claim" in page
    assert Effect.objects.get().status == "started"
    assert not LogEntry.objects.exists()


def test_an_effect_that_is_gone_leads_back(clerk):
    assert "exist" in clerk.get(f"{EFFECTS}999/settle/", follow=True).content.decode()


def test_who_may_only_look_has_no_way_and_cannot_forge_one(viewer):
    effect = effect_of()
    assert "/settle/" not in page_of(viewer, effect)
    assert viewer.get(f"{EFFECTS}{effect.pk}/settle/").status_code == 403
    assert settle(viewer, effect, "not_happened").status_code == 403
    assert Effect.objects.get().status == "uncertain"


def test_strangers_are_sent_to_the_login(client):
    answer = client.post(f"{EFFECTS}{effect_of().pk}/settle/", {"outcome": "not_happened", "confirmed": "yes"})
    assert (answer.status_code, "/login/" in answer["Location"]) == (302, True)


def test_a_post_from_another_site_is_refused(clerk, admin_user):
    clerk.handler.enforce_csrf_checks = True
    assert settle(clerk, effect_of(), "not_happened").status_code == 403
    assert Effect.objects.get().status == "uncertain"


def test_nobody_adds_changes_or_deletes(admin_client):
    effect = effect_of()
    assert admin_client.get(f"{EFFECTS}add/").status_code == 403
    assert admin_client.post(f"{EFFECTS}{effect.pk}/change/", {"status": "finished"}).status_code == 403
    assert admin_client.post(f"{EFFECTS}{effect.pk}/delete/", {"post": "yes"}).status_code == 403
    assert Effect.objects.get().status == "uncertain"


@pytest.mark.promise("W9")
def test_hostile_texts_are_escaped_and_tokens_are_masked(clerk):
    record = record_of(HOSTILE, task_name=HOSTILE, contract_version=HOSTILE)
    message_of(record, TOKEN)
    effect = effect_of(record, name=HOSTILE, error=f"{HOSTILE} {TOKEN}")
    address = f"{EFFECTS}{effect.pk}/settle/"
    pages = [clerk.get(EFFECTS), clerk.get(f"{EFFECTS}{effect.pk}/change/"), clerk.get(address)]
    pages.append(clerk.post(address, {"outcome": "happened", "result": json.dumps(HOSTILE)}))
    for page in (answer.content.decode() for answer in pages):
        assert "<img src=x" not in page
        assert "&lt;img src=x" in page
    assert not [answer for answer in pages[1:] if TOKEN in answer.content.decode()]
    settle(clerk, effect, "happened", json.dumps({"echo": TOKEN, "html": HOSTILE}))
    page = page_of(clerk, effect)
    assert "<img src=x" not in page
    assert TOKEN not in page


@pytest.mark.promise("W9")
def test_what_a_sensitive_task_called_is_hidden(clerk, serve):
    serve("pay.charge", sensitive=True)
    effect = effect_of(error="card 4242")
    done = effect_of(effect.record, name="done", name_hash="d", status="finished", result='"4242"', error="")
    for page in (clerk.get(EFFECTS).content.decode(), page_of(clerk, effect), page_of(clerk, done)):
        assert "4242" not in page
        assert "declared sensitive" in page
    assert "4242" not in page_of(clerk, effect, "settle")


def test_times_without_zones_are_shown_as_well(clerk, settings):
    settings.USE_TZ = False
    effect = effect_of(record_of(created_at=timezone.now(), finished_at=None, status="running", output=None))
    for address in (EFFECTS, f"{EFFECTS}{effect.pk}/change/", f"{EFFECTS}{effect.pk}/settle/"):
        assert clerk.get(address).status_code == 200
    assert IdempotencyRecord.objects.count() == 1
