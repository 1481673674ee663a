import sys

import pytest
from django.db import OperationalError

from orbit_django import outbox, retention
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.management.commands.orbit_outbox import Command
from orbit_django.models import IdempotencyRecord, OutboxMessage, WorkflowStart
from orbit_django.protocol import Contract, Registration
from orbit_django.retention import Pruned
from orbit_django.transports.http import HttpTransport
from tests.aged import age, desk, settled
from tests.ledger import assignment
from tests.worker.starting import CONTRACT, ask

pytestmark = [pytest.mark.databases, pytest.mark.django_db(transaction=True)]
OLD, NEW = "http://old:7233", "http://new:7233"


@pytest.fixture
def run(settings, capsys):
    """Return a function that runs the command as manage.py does; it returns exit code, output and errors."""
    settings.ORBIT = {"SERVER": OLD, "WORKER_TOKEN": "wrk"}

    def started(*arguments):
        code = 0
        try:
            Command().run_from_argv(["manage.py", "orbit_outbox", *arguments])
        except SystemExit as ended:
            code = ended.code
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return started


def owed(token, status="pending", server=OLD, **fields):
    """Write a message that no sender holds."""
    made = assignment(token=token)
    message = outbox.append(made, outbox.Origin("w", server), using="default", record=None, error='{"error_code":"X"}')
    due = None if status != "pending" else 1
    OutboxMessage.objects.filter(pk=message.pk).update(**({"status": status, "due_at": due, "sender": ""} | fields))
    return message


def statuses():
    return list(OutboxMessage.objects.order_by("token").values_list("token", "status", "server", "last_status"))


def test_status_counts_every_state(run):
    owed("a")
    owed("b", "blocked")
    code, out, err = run("status")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "default: 1 pending, 0 delivered, 0 refused, 1 blocked"


def test_status_tells_what_waits_for_another_binding(run):
    for token, binding in (("a", ""), ("b", "grpc"), ("c", "grpc")):
        owed(token, declined_by=binding)
    assert run("status")[1].splitlines()[:2] == [
        "default: 3 pending, 0 delivered, 0 refused, 0 blocked",
        "default: 2 of the pending cannot go over grpc; another binding sends them",
    ]


@pytest.mark.promise("D1")
def test_flush_sends_what_is_owed(run, settings):
    with EmbeddedRuntime([CONTRACT], token="adm", worker_token="wrk") as runtime:
        settings.ORBIT = {"SERVER": runtime.url, "WORKER_TOKEN": "wrk"}
        owed("a", server=runtime.url)
        assert run("flush") == (0, "1 sent, 0 left\n", "")
    assert OutboxMessage.objects.get().settled_at is not None


@pytest.mark.promise("D1")
def test_what_the_runtime_accepts_in_a_flush_is_delivered_when_it_ends(run, settings):
    with EmbeddedRuntime([CONTRACT], token="adm", worker_token="wrk") as runtime:
        settings.ORBIT = {"SERVER": runtime.url, "WORKER_TOKEN": "wrk"}
        for number in range(2):
            owed(dispatched(runtime, f"e-{number}"), server=runtime.url)
        assert run("flush") == (0, "2 sent, 0 left\n", "")
    assert set(OutboxMessage.objects.values_list("status", "accepted")) == {("delivered", True)}


@pytest.mark.promise("D1")
def test_starts_that_take_the_admin_token_are_left_and_said_to_be(run, settings):
    with EmbeddedRuntime([CONTRACT], token="adm", worker_token="wrk") as runtime:
        settings.ORBIT = {"SERVER": runtime.url, "WORKER_TOKEN": "wrk"}
        ask()
        told = "CommandError: 1 workflow to be started, which takes the admin token: set TOKEN\n"
        assert run("flush") == (1, "0 sent, 1 left\n", told)
        settings.ORBIT = {"SERVER": runtime.url}
        assert run("flush")[:2] == (1, "1 sent, 1 left\n")
    start = WorkflowStart.objects.get()
    assert (start.status, start.sender) == ("pending", "")
    assert start.last_error.endswith("it wants the admin token: set TOKEN, or ORBIT_TOKEN in the environment")


@pytest.mark.promise("D1")
def test_a_runtime_that_wants_no_token_is_sent_starts_without_one(run, settings):
    with EmbeddedRuntime([CONTRACT]) as runtime:
        settings.ORBIT = {"SERVER": runtime.url}
        ask()
        assert run("flush") == (0, "1 sent, 0 left\n", "")
    assert WorkflowStart.objects.get().status == "started"


def dispatched(runtime, execution_id):
    """Have a task handed out; return its token."""
    transport = HttpTransport(runtime.url, credential=lambda: "wrk")
    with runtime.changing() as state:
        state.start("Charge", {"amount": 5, "pause_ms": 0}, execution_id)
    contracts = (Contract("crash.charge", "1.0.0"),)
    session = transport.register(Registration("w", "python", contracts, "x"))
    return transport.poll(session.session_id, 5_000).token


def test_flush_shows_how_far_it_has_come(run, settings, monkeypatch):
    with EmbeddedRuntime([CONTRACT], token="adm", worker_token="wrk") as runtime:
        settings.ORBIT = {"SERVER": runtime.url, "WORKER_TOKEN": "wrk", "TOKEN": "adm"}
        for token in "abc":
            owed(token, server=runtime.url)
        ask()
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        code, out, err = run("flush", "--no-color")
    assert (code, out) == (0, "4 sent, 0 left\n")
    shown = ["1 message tried", "2 messages tried", "3 messages tried", "", "1 workflow start tried", ""]
    assert err.split("\r\x1b[K") == ["", *shown]


def test_less_and_more_can_be_asked_for(run, settings):
    with EmbeddedRuntime([CONTRACT], token="adm", worker_token="wrk") as runtime:
        settings.ORBIT = {"SERVER": runtime.url, "WORKER_TOKEN": "wrk"}
        owed("a", server=runtime.url)
        assert run("flush", "--verbosity=0") == (0, "", "")
        owed("b", server=runtime.url)
        assert run("flush", "--verbosity=2") == (0, "1 sent, 0 left\n", "1 message tried\n")
    assert run("prune", "--verbosity=0") == (0, "", "")
    assert run("status", "--verbosity=0")[1].startswith("default: 0 pending, 0 delivered, 2 refused")


def test_trouble_is_coloured_on_a_terminal_and_what_is_piped_is_plain(run):
    owed("a", "blocked")
    assert "\x1b[" not in run("status")[1]
    assert "\x1b[31;1m1 blocked\x1b[0m" in run("status", "--force-color")[1]


@pytest.mark.promise("D2")
def test_retry_has_what_is_blocked_sent_again_by_anybody(run):
    owed("a", "blocked", last_status=403)
    owed("b", "blocked", server=NEW, last_status=401)
    owed("c", "delivered")
    owed("d", last_status=403)
    ask()
    WorkflowStart.objects.update(status="blocked", due_at=None)
    code, out, err = run("retry")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == ("default: 2 messages, 1 workflow start will be sent again by a worker or by flush")
    assert statuses() == [
        ("a", "pending", OLD, None),
        ("b", "pending", NEW, None),
        ("c", "delivered", OLD, None),
        ("d", "pending", OLD, 403),
    ]
    assert WorkflowStart.objects.get().status == "pending"
    assert len(outbox.claim_due("default", outbox.Origin("any", OLD), 9, is_flush=True)) == 1


@pytest.mark.promise("D2")
def test_retry_moves_unanswered_messages_to_another_server(run):
    owed("a", "blocked", last_status=403)
    owed("b", last_status=403)
    owed("c", "delivered")
    owed("d", server="http://third:7233")
    owed("e", sender="dead", due_at=1)  # what a dead sender held
    body = OutboxMessage.objects.get(token="a").body
    code, out, err = run("retry", "--server", "HTTP://OLD:7233/", "--to", "http://New:7233")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == f"default: 3 messages moved from {OLD} to {NEW}"
    assert statuses() == [
        ("a", "pending", NEW, None),
        ("b", "pending", NEW, None),
        ("c", "delivered", OLD, None),
        ("d", "pending", "http://third:7233", None),
        ("e", "pending", NEW, None),
    ]
    assert OutboxMessage.objects.get(token="a").body == body
    assert len(outbox.claim_due("default", outbox.Origin("any", NEW), 9, is_flush=True)) == 3


def test_a_message_that_is_being_sent_is_not_moved(run):
    owed("a", sender="alive", due_at=2**50)
    owed("b")
    code, out, err = run("retry", "--server", OLD, "--to", NEW)
    assert (code, err) == (
        1,
        f"CommandError: 1 message of {OLD} held by a sender now; run it again in 15 seconds\n",
    )
    assert "1 message moved" in out
    assert [server for _, _, server, _ in statuses()] == [OLD, NEW]


def test_many_blocked_messages_are_requeued(run):
    owed("a", "blocked")
    row = OutboxMessage.objects.get()
    copies = [OutboxMessage(**{f.attname: getattr(row, f.attname) for f in row._meta.fields}) for _ in range(1_100)]
    for number, copy in enumerate(copies):
        copy.pk, copy.token_hash = None, f"{number}"
    OutboxMessage.objects.bulk_create(copies, batch_size=200)
    assert "default: 1,101 messages" in run("retry")[1]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["retry", "--server", OLD], "--server and --to go together: from where, and to where"),
        (["retry", "--to", OLD], "--server and --to go together: from where, and to where"),
        (["retry", "--server", OLD, "--to", f"{OLD}/"], f"--server and --to are the same: {OLD}"),
        (["retry", "--server", "old", "--to", NEW], "--server: 'old' is no URL"),
        (["retry", "--server", OLD, "--to", "http://u:SECRET@h"], "--to: the URL must not carry a user or a password"),
        (["prune", "--days", "many"], "--days: expected a number from 0 to 100000, found 'many'"),
        (["prune", "--days", "-1"], "--days: expected a number from 0 to 100000, found '-1'"),
    ],
)
def test_a_mistake_is_one_line(run, arguments, line):
    code, out, err = run(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"CommandError: {line}")
    assert "SECRET" not in err


def test_a_wrong_setting_is_one_line(run, settings):
    settings.ORBIT = {"RETENTION_DAYS": "soon"}
    code, _, err = run("prune")
    assert (code, err) == (2, "CommandError: RETENTION_DAYS: expected a number from 0 to 100000, found 'soon'\n")


@pytest.mark.promise("D7")
def test_prune_removes_what_is_older_than_the_setting(run, settings):
    settings.ORBIT = {"RETENTION_DAYS": 50}
    settled(desk())
    age(40)
    assert run("prune")[1].splitlines()[0] == "default: 0 records, 0 messages, 0 effects, 0 starts removed"
    counted = "default: 1 record, 1 message, 0 effects, 0 starts"
    assert run("prune", "--days", "30", "--dry-run")[1].splitlines()[0] == f"{counted} would be removed"
    assert IdempotencyRecord.objects.count() == 1
    assert run("prune", "--days", "30") == (0, f"{counted} removed\n", "")
    assert IdempotencyRecord.objects.count() == 0


@pytest.mark.promise("D7")
def test_prune_without_a_terminal_shows_no_progress_and_on_one_a_line(run, monkeypatch):
    settled(desk())
    age()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    _, out, err = run("prune", "--dry-run")
    assert err.count("\n") == 0
    assert "\r\x1b[Kdefault: 1 record, 1 message, 0 effects, 0 starts\r" in err
    assert err.endswith("\r\x1b[K")
    assert "would be removed" in out


@pytest.mark.promise("D7")
def test_ctrl_c_says_how_far_it_came(run, monkeypatch):
    def interrupted(*_, **__):
        yield Pruned(2, 3)
        raise KeyboardInterrupt

    monkeypatch.setattr(retention, "prune", interrupted)
    assert run("prune") == (
        130,
        "",
        "CommandError: default: interrupted after 2 records, 3 messages, 0 effects, 0 starts; run it again to go on\n",
    )


@pytest.mark.parametrize("action", ["status", "retry", "prune"])
def test_a_database_that_is_away_is_one_line(run, monkeypatch, action):
    def fail(*_, **__):
        raise OperationalError("no route\nto host")

    for room, name in ((outbox, "counts"), (outbox, "requeue_all"), (retention, "prune")):
        monkeypatch.setattr(room, name, fail)
    assert run(action) == (1, "", "CommandError: the database cannot be used: no route\n")


@pytest.mark.parametrize(
    ("action", "room", "name"),
    [("status", outbox, "counts"), ("retry", outbox, "requeue_all"), ("prune", retention, "prune")],
)
def test_missing_migrations_are_a_mistake_that_says_what_to_do(run, monkeypatch, lacking, action, room, name):
    def fail(*_, **__):
        raise OperationalError("no such table: orbit_django_outboxmessage")

    monkeypatch.setattr(room, name, fail)
    assert run(action) == (2, "", f"CommandError: {lacking}\n")
