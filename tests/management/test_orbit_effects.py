import getpass
import json

import pytest
from django.db import OperationalError

from orbit_django import outbox, tasks
from orbit_django.management.commands import orbit_effects
from orbit_django.models import Effect, IdempotencyRecord, OutboxMessage
from orbit_django.protocol import Receipt
from tests.ledger import Desk

pytestmark = [pytest.mark.databases, pytest.mark.django_db(transaction=True), pytest.mark.promise("E10")]


@pytest.fixture
def run(settings, capsys):
    """Return a function that runs the command as manage.py does; it returns exit code, output and errors."""
    settings.ORBIT = {}

    def started(*arguments):
        code = 0
        try:
            orbit_effects.Command().run_from_argv(["manage.py", "orbit_effects", *arguments])
        except SystemExit as ended:
            code = ended.code
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return started


class Till:
    """The outside world: its first call goes quiet."""

    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        if self.calls == 1:
            raise TimeoutError("gone quiet\n\x1b[2Jforged")
        return {"n": self.calls}


@pytest.fixture
def till():
    return Till()


@pytest.fixture
def served(till):
    """Serve a task whose effect is an incident by now."""
    desk = Desk(lambda input, ctx: {"paid": ctx.effect("pay", till)}, is_atomic=False)
    desk.deliver()
    return desk


def sent(message):
    return json.loads(outbox.text_of(message))


def test_list_shows_what_is_open(run, served):
    code, out, err = run("list")
    assert (code, err) == (0, "")
    head, line = out.splitlines()
    assert head.split() == ["id", "status", "age", "task", "key", "effect", "error"]
    assert line.split()[:2] == [str(Effect.objects.get().pk), "uncertain"]
    for text in ("0 minutes", "test.task", "e1/step", "pay", "TimeoutError: gone quiet\\n\\x1b[2Jforged"):
        assert text in line


def test_list_is_coloured_on_a_terminal_and_plain_in_a_pipe(run, served):
    assert "\x1b[" not in run("list")[1]
    assert "\x1b[31;1muncertain" in run("list", "--force-color")[1]


def test_less_can_be_asked_for(run, served):
    assert run("settle", str(Effect.objects.get().pk), "--happened", "1", "-v", "0") == (0, "", "")


def test_list_leaves_out_what_is_settled_unless_asked(run, served):
    Effect.objects.update(status="finished", result="1", error="")
    assert run("list") == (0, "no open effects\n", "")
    assert "finished" in run("list", "--all")[1]


def test_what_is_settled_has_no_error_any_more_and_names_who_settled(run, served):
    key = str(Effect.objects.get().pk)
    run("settle", key, "--happened", "1", "--by", "ann")
    head, line = run("list", "--all")[1].splitlines()
    assert head.endswith("error  settled by")
    assert line.endswith("  ann")
    assert "quiet" not in line


def test_a_verbose_list_names_the_worker_that_holds_the_record(run, served):
    head, line = run("list", "-v", "2")[1].splitlines()
    worker = IdempotencyRecord.objects.get().worker_id
    assert line[head.index("worker") :].startswith(f"{worker}  ")
    assert head.index("worker") > head.index("error")


def test_a_text_without_quotes_is_told_how_to_be_quoted(run, served):
    code, _, err = run("settle", str(Effect.objects.get().pk), "--happened", "ch_1")
    assert (code, err.endswith("""; a text is JSON in double quotes: --happened '"ch_1"'\n""")) == (2, True)


def test_list_hides_errors_of_sensitive_tasks(run, served, monkeypatch):
    registry = tasks.Registry()
    registry.add(tasks.Task(tasks.Contract("test.task", "2"), function=lambda input: {}, is_sensitive=True))
    monkeypatch.setattr(orbit_effects, "registry", registry)
    assert "hidden" in run("list")[1]
    assert "quiet" not in run("list")[1]


def test_there_may_be_none(run):
    assert run("list", "--all") == (0, "no effects\n", "")


def test_an_incident_that_happened_returns_what_the_person_said(run, served, till):
    key = str(Effect.objects.get().pk)
    code, out, err = run("settle", key, "--happened", '{"n": 7}', "--by", "ann")
    assert (code, out.splitlines()[0], err) == (0, f"effect {key}, 'pay': happened; its result is kept", "")
    assert Effect.objects.get().settled_by == "ann"
    assert sent(served.deliver(redelivery=True))["output"] == {"paid": {"n": 7}}
    assert till.calls == 1


def test_an_incident_that_did_not_happen_is_called_again(run, served, till):
    key = str(Effect.objects.get().pk)
    code, out, _ = run("settle", key, "--not-happened")
    assert (code, out.splitlines()[0]) == (0, f"effect {key}, 'pay': did not happen; the next run calls it again")
    assert Effect.objects.get().settled_by == getpass.getuser()
    assert sent(served.deliver(attempt=2))["output"] == {"paid": {"n": 2}}
    assert till.calls == 2


def test_what_follows_is_told_as_far_as_it_is_known(run, served):
    message = OutboxMessage.objects.get()
    outbox.settle(message, Receipt(accepted=True))
    _, out, _ = run("settle", str(Effect.objects.get().pk), "--happened", "1")
    assert out.splitlines()[1] == (
        "The runtime was told that attempt 1 failed, and asks again only while the step has attempts left. When it asks"
        " no more, do not start the workflow again: the key 'e1/step' belongs to this execution, and another one"
        " would call every effect once more. The page how-to/stuck of the documentation says how to do what is left."
    )


def test_nothing_is_a_result_as_well(run, served):
    assert run("settle", str(Effect.objects.get().pk), "--happened", "null")[0] == 0
    assert sent(served.deliver(redelivery=True))["output"] == {"paid": None}


def test_a_user_without_a_name(run, served, monkeypatch):
    monkeypatch.setattr(getpass, "getuser", lambda: {}["no name"])
    run("settle", str(Effect.objects.get().pk), "--not-happened")
    assert Effect.objects.get().settled_by == "orbit_effects"


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["settle", "999999", "--not-happened"], 1, "there is no effect 999999 on default"),
        (["settle", "first", "--not-happened"], 2, "ID: expected a whole number, as list shows it, found 'first'"),
        (["settle", "9" * 50, "--not-happened"], 2, "ID: expected a whole number"),
        (["settle", "1"], 2, "say what became of it: --happened with its result as JSON, or --not-happened"),
        (["settle", "1", "--happened", "1", "--not-happened"], 2, "say what became of it"),
        (["settle", "1", "--happened", "{"], 2, "--happened: this is no JSON value: Expecting property name"),
        (["settle", "1", "--happened", "NaN"], 2, "--happened: this is no JSON value: $: is nan"),
        (["settle", "1", "--happened", "[" * 100_000], 2, "--happened: this is no JSON value: it is nested too deeply"),
        (["list", "--database", "nowhere"], 2, "DATABASE: there is no database alias 'nowhere'"),
    ],
)
def test_a_mistake_is_one_line(run, arguments, code, line):
    given, out, err = run(*arguments, *([] if "--database" in arguments else ["--database", "default"]))
    assert (given, out, err.count("\n")) == (code, "", 1)
    assert err.startswith(f"CommandError: {line}")


def test_what_a_person_said_is_corrected_until_a_success_stands_on_it(run, served, till):
    key = str(Effect.objects.get().pk)
    run("settle", key, "--not-happened", "--by", "bob")
    assert run("settle", key, "--happened", '{"n": 8}', "--by", "ann")[0] == 0
    assert Effect.objects.values_list("status", "result", "settled_by").get() == ("finished", '{"n":8}', "ann")
    assert sent(served.deliver(redelivery=True))["output"] == {"paid": {"n": 8}}
    assert run("settle", key, "--happened", "1") == (
        1,
        "",
        "CommandError: the effect 'pay' is not open any more: a stored success of its step went by it\n",
    )
    assert till.calls == 1


def test_a_result_of_another_form_than_an_earlier_one_is_told(run, served, till):
    served.deliver(idempotency_key="other")
    key = str(Effect.objects.filter(status="uncertain").get().pk)
    _, out, err = run("settle", key, "--happened", '"ch_1"')
    assert "happened; its result is kept" in out
    assert err == (
        'what an earlier call of it returned had the form {"n": number}, this is text; settle again to correct it\n'
    )
    assert run("settle", key, "--happened", '{"n": 5}')[2] == ""


def test_more_is_shown_where_asked(run, till):
    keys = []

    def handler(input, ctx):
        keys.append(ctx.effect_key("pay"))
        return {"paid": ctx.effect("pay", till)}

    desk = Desk(handler, is_atomic=False)
    desk.deliver()
    desk.deliver(idempotency_key="other")
    _, out, _ = run("list", "-v", "2")
    head, row = out.splitlines()
    assert head.split()[-4:] == ["effect", "key", "earlier", "result"]
    assert row.endswith(f'  {keys[0]}  {{"n": number}}')
    assert keys[0] not in run("list")[1]


def test_a_call_that_goes_on_cannot_be_settled(run, served):
    key = str(Effect.objects.get().pk)
    Effect.objects.update(status="started", owner="alive")
    IdempotencyRecord.objects.update(status="running", owner="alive", lease_ms=2**50)
    code, _, err = run("settle", key, "--not-happened")
    assert (code, err) == (
        1,
        "CommandError: the run that calls 'pay' still holds its claim; "
        "settle it when it has ended, or CLAIM_SECONDS after its process died\n",
    )
    IdempotencyRecord.objects.update(lease_ms=5)
    assert run("settle", key, "--not-happened")[0] == 0


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_ids_of_several_databases_are_told_apart(run, served, monkeypatch):
    monkeypatch.setattr(orbit_effects, "aliases_of", lambda *_: ("default", "other"))
    effect = Effect.objects.select_related("record").get()
    effect.record.save(using="other", force_insert=True)
    effect.save(using="other", force_insert=True)
    assert [line.split("  ")[0].strip() for line in run("list")[1].splitlines()] == [
        "id",
        f"{effect.pk} on default",
        f"{effect.pk} on other",
    ]
    code, _, err = run("settle", str(effect.pk), "--not-happened")
    assert (code, "say which by --database" in err) == (2, True)
    assert run("settle", str(effect.pk), "--not-happened", "--database", "other")[0] == 0
    assert Effect.objects.using("other").get().status == "not_happened"
    assert Effect.objects.get().status == "uncertain"


def test_a_database_that_is_away_is_one_line(run, monkeypatch):
    def fail(*_, **__):
        raise OperationalError("no route\nto host")

    monkeypatch.setattr(orbit_effects, "aliases_of", fail)
    assert run("list") == (1, "", "CommandError: the database cannot be used: no route\n")


def test_missing_migrations_are_a_mistake_that_says_what_to_do(run, monkeypatch, lacking):
    def fail(*_, **__):
        raise OperationalError("no such table: orbit_django_effect")

    monkeypatch.setattr(orbit_effects, "_lines", fail)
    assert run("list") == (2, "", f"CommandError: {lacking}\n")
