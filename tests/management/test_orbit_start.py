import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from orbit_django.management.commands.orbit_start import Command
from tests.transports import wire

STARTED = wire.answer('{"execution_id": "e-1", "created": true}')
SHOWN = wire.answer('{"id": "e-1"}')  # by a runtime that tells no version


@pytest.fixture
def run(settings):
    """Return a function that runs the command against a server with these replies."""

    def run_against(replies: list[bytes], *arguments: str, soon: float = 5, **said: Any) -> tuple[str, wire.Server]:
        out, run_against.errors = StringIO(), StringIO()
        command = Command()
        command.soon_seconds = soon
        with wire.serving(*replies) as server:
            settings.ORBIT = {"SERVER": server.url, "TOKEN": "adm-1", **said}
            run_against.out, run_against.server = out, server
            call_command(command, *arguments, stdout=out, stderr=run_against.errors)
        return out.getvalue(), server

    return run_against


def ended(status: str, **fields: object) -> bytes:
    return wire.answer(json.dumps({"id": "e-1", "status": status, **fields}))


def sent(server: wire.Server) -> dict[str, object]:
    return json.loads(server.requests[0].body)


def test_prints_the_id(run) -> None:
    printed, server = run([STARTED], "Pay", "--input", '{"order": 7}', "--id", "e-1")
    assert printed == "e-1\n"
    assert sent(server) == {"workflow": "Pay", "input": {"order": 7}, "execution_id": "e-1"}


def test_reads_the_input_from_a_file(run, tmp_path: Path) -> None:
    file = tmp_path / "input.json"
    file.write_text('{"who": "Zoë"}', encoding="utf-8")
    _, server = run([STARTED], "Pay", "--input", f"@{file}")
    assert sent(server)["input"] == {"who": "Zoë"}


def test_waits_for_the_end_and_prints_the_output(run) -> None:
    printed, server = run([STARTED, SHOWN, ended("COMPLETED", output={"who": "Zoë"})], "Pay", "--wait")
    assert printed == 'e-1\nCOMPLETED\n{\n  "who": "Zoë"\n}\n'
    assert server.requests[2].line.startswith("GET /v1/executions/e-1/wait?")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ({"code": "INVALID_NAME", "message": "name is blank"}, "INVALID_NAME: name is blank"),
        ("INVALID_NAME: blank", "INVALID_NAME: blank"),
        (
            {"code": "UNHANDLED_EXCEPTION", "message": "step `s` failed: 3", "details": {"type": "SystemExit"}},
            r"UNHANDLED_EXCEPTION: step `s` failed: 3 \(SystemExit\)$",
        ),
        ({"code": "X", "message": "m", "details": {"type": "own"}}, "X: m$"),
        (None, "no reason given"),
    ],
)
def test_another_end_is_an_error(run, error: object, told: str) -> None:
    with pytest.raises(CommandError, match=f"ended FAILED: {told}") as caught:
        run([STARTED, SHOWN, ended("FAILED", error=error)], "Pay", "--wait")
    assert caught.value.returncode == 1
    assert run.out.getvalue() == "e-1\nFAILED\n"


def test_no_end_in_time_is_an_error(run) -> None:
    with pytest.raises(CommandError, match="still running") as caught:
        run([STARTED, SHOWN, ended("RUNNING")], "Pay", "--wait", "--timeout", "0")
    assert caught.value.returncode == 1


@pytest.mark.parametrize("seconds", ["nan", "-1", "soon"])
def test_a_timeout_that_makes_no_sense_starts_nothing(run, seconds: str) -> None:
    with pytest.raises(CommandError, match=f"--timeout: expected seconds from 0, found '{seconds}'"):
        run([STARTED], "Pay", "--wait", "--timeout", seconds)
    assert run.server.requests == []


@pytest.mark.parametrize("text", ["{", "{'a': 1}", '{"n": NaN}', "[" * 100_000, ""])
def test_broken_json_is_one_clear_line(run, text: str) -> None:
    with pytest.raises(CommandError, match="--input holds no valid JSON") as caught:
        run([STARTED], "Pay", "--input", text)
    assert caught.value.returncode == 2
    assert run.server.requests == []


def test_a_missing_or_broken_file_is_one_clear_line(run, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"none\.json cannot be read: No such file") as caught:
        run([STARTED], "Pay", "--input", f"@{tmp_path / 'none.json'}")
    assert caught.value.returncode == 2
    broken = tmp_path / "broken.json"
    broken.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(CommandError, match=r"broken\.json holds no valid JSON"):
        run([STARTED], "Pay", "--input", f"@{broken}")


@pytest.mark.parametrize("text", ["[1]", "7", "null", '"text"'])
def test_an_input_that_is_no_object_is_a_mistake(run, text: str) -> None:
    with pytest.raises(CommandError, match="--input holds no JSON object") as caught:
        run([STARTED], "Pay", "--input", text)
    assert (caught.value.returncode, run.server.requests) == (2, [])


def test_an_input_that_the_workflow_does_not_declare_is_a_mistake(run) -> None:
    words = "input of workflow `Pay` does not match its declaration at $.order: expected Int, found String"
    refusal = wire.answer(json.dumps({"error": {"code": "INVALID_REQUEST", "message": words}}), "400 Bad Request")
    with pytest.raises(CommandError, match="expected Int, found String") as caught:
        run([refusal], "Pay", "--input", '{"order": "seven"}')
    assert caught.value.returncode == 2


def steps(*statuses: str) -> dict[str, object]:
    return {"steps": [{"step": f"s{number}", "status": status} for number, status in enumerate(statuses)]}


@pytest.mark.parametrize(
    ("shown", "told"),
    [
        (steps("QUEUED", "WAITING"), "no worker has taken it yet: step s0 waits; does orbit_worker run, and "),
        (steps("SUCCEEDED", "QUEUED"), "no worker has taken it yet: step s1 waits"),
        (steps("IN_FLIGHT", "QUEUED"), "still running\n"),
        (steps("DELAYED"), "still running\n"),
        ({"steps": "many"}, "still running\n"),
        ({}, "still running\n"),
    ],
)
def test_a_wait_that_lasts_says_once_why(run, shown: dict[str, object], told: str) -> None:
    replies = [STARTED, SHOWN, ended("RUNNING", **shown), ended("COMPLETED", output={})]
    printed, _ = run(replies, "Pay", "--wait", soon=0)
    assert run.errors.getvalue().startswith(told)
    assert printed == "e-1\nCOMPLETED\n{}\n"


@pytest.mark.parametrize(
    ("workers", "told"),
    [
        ([], "no worker is there: start manage.py orbit_worker"),
        ([("a.c", "1", True)], "the workers that are there do not serve it"),
        ([("a.b", "1", True), ("a.b", "3", True)], "workers serve it in version 1, 3 alone"),
        ([("a.b", "2", True), ("a.b", "1", True)], "those that serve it are busy"),
        ([("a.b", "2", False)], "no worker is there: start manage.py orbit_worker"),
        ("odd", "does orbit_worker run, and serve it?"),
    ],
)
def test_what_a_step_waits_for_is_named_with_what_the_workers_serve(run, workers, told) -> None:
    waits = {"steps": [{"step": "s", "status": "QUEUED", "task_name": "a.b", "contract_version": "2"}]}
    shown = [
        {"online": is_online, "contracts": [{"task_name": name, "contract_version": version}]}
        for name, version, is_online in (workers if isinstance(workers, list) else ())
    ]
    answer = wire.answer(json.dumps({"workers": shown if isinstance(workers, list) else workers}))
    run([STARTED, SHOWN, ended("RUNNING", **waits), answer, ended("COMPLETED", output={})], "Pay", "--wait", soon=0)
    assert run.errors.getvalue() == f"no worker has taken it yet: step s waits for a.b 2; {told}\n"


@pytest.mark.parametrize(
    ("version", "declared", "told"),
    [
        ("1.0.0", ("1.0.0", "1.1.0"), "the runtime runs Pay 1.0.0, CONTRACTS declares 1.1.0: was it restarted?\n"),
        ("1.1.0", ("1.0.0", "1.1.0"), ""),
        ("1.0.0", (), ""),
    ],
)
def test_the_version_that_runs_is_told(run, settings, tmp_path: Path, version: str, declared, told: str) -> None:
    file = tmp_path / "pay.orbit"
    file.write_text("".join(f'workflow Pay {{ version "{each}" return {{ }} }}' for each in declared))
    printed, server = run([STARTED, ended("RUNNING", workflow="Pay", version=version)], "Pay", CONTRACTS=[str(file)])
    assert printed == "e-1\n"
    assert server.requests[1].line.startswith("GET /v1/executions/e-1 ")
    assert run.errors.getvalue() == f"started Pay {version}\n{told}"


def test_an_end_that_comes_soon_needs_no_words(run) -> None:
    run([STARTED, SHOWN, ended("COMPLETED", output={})], "Pay", "--wait")
    assert run.errors.getvalue() == ""


def test_an_unknown_workflow_is_told_in_the_runtimes_words(run) -> None:
    missing = wire.answer('{"error": {"code": "UNKNOWN_WORKFLOW", "message": "no workflow `Pya`"}}', "404 Not Found")
    with pytest.raises(CommandError, match="no workflow `Pya`") as caught:
        run([missing], "Pya")
    assert caught.value.returncode == 1


def test_a_runtime_that_is_away_is_one_clear_line(settings) -> None:
    settings.ORBIT = {"SERVER": f"http://127.0.0.1:{wire.closed_port()}"}
    told = r"^nothing listens at http://127\.0\.0\.1:\d+ \(SERVER\); for development start: manage\.py orbit_runtime$"
    with pytest.raises(CommandError, match=told) as caught:
        call_command(Command(), "Pay")
    assert caught.value.returncode == 1


def test_configuration_mistakes_end_with_2(run, settings) -> None:
    settings.ORBIT = {"SERVER": "ftp://runtime"}
    with pytest.raises(CommandError, match="SERVER") as caught:
        call_command(Command(), "Pay")
    assert caught.value.returncode == 2


def test_a_missing_token_ends_with_2(settings) -> None:
    with wire.serving(wire.answer("no", "401 Unauthorized")) as server:
        settings.ORBIT = {"SERVER": server.url}
        with pytest.raises(CommandError, match="TOKEN") as caught:
            call_command(Command(), "Pay")
    assert caught.value.returncode == 2


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
def test_a_token_that_is_not_taken_names_its_setting(run, status: str) -> None:
    with pytest.raises(CommandError, match="; look at the admin token: TOKEN, or ORBIT_TOKEN in the") as caught:
        run([wire.answer("no", status)], "Pay")
    assert caught.value.returncode == 1
    assert "adm-1" not in str(caught.value)


def test_checks_of_the_project_do_not_stand_in_the_way() -> None:
    assert Command.requires_system_checks == []
