import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connections

from orbit_django import conf
from orbit_django.management.commands.orbit_worker import Command
from orbit_django.tasks import registry, task
from tests import databases
from tests.transports import wire

SECRET = "hunter2-hunter3"
HANDLER = 'from orbit_django import task\n@task("shop.pay", version="1")\ndef pay(input): ...\n'
MANAGE = [sys.executable, "-m", "django", "orbit_worker"]


@pytest.fixture(autouse=True)
def project(settings, monkeypatch):
    """Begin with one handler, nothing set, and the logging of the project."""
    settings.ORBIT = {}
    settings.LOGGING_CONFIG = None
    for name in conf.FROM_ENVIRONMENT:
        monkeypatch.delenv(f"ORBIT_{name}", raising=False)
    monkeypatch.setattr(registry, "_tasks", {})
    monkeypatch.setattr(registry, "faults", [])
    monkeypatch.setattr(logging.getLogger("orbit_django"), "level", logging.CRITICAL)
    task("shop.pay", version="1.0.0")(pay)
    return settings


def pay(input, ctx): ...


@pytest.fixture
def start(capsys):
    """Return a function that runs the command as manage.py does; it returns exit code, output and errors."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = 0
        try:
            Command().run_from_argv(["manage.py", "orbit_worker", *arguments])
        except SystemExit as ended:
            code = int(ended.code or 0)
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


@pytest.fixture
def mistake(start):
    """Return a function that starts a worker which must refuse, and returns its one line."""

    def run(*arguments: str) -> str:
        code, out, err = start(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1), err
        assert "Traceback" not in err
        return err.removeprefix("CommandError: ").rstrip()

    return run


@pytest.mark.parametrize(
    ("orbit", "line"),
    [
        ({"CONCURRENCY": "four"}, "CONCURRENCY: expected a whole number from 1 to 1000, found 'four'"),
        ({"CONCURRENCY": 0}, "CONCURRENCY: expected a whole number from 1 to 1000, found 0"),
        ({"SERVER": "runtime:7233"}, "SERVER: 'runtime:7233' is no URL of the form http://host:port or https://host:port"),
        ({"SERVER": "http://h/" + "p" * 250}, "SERVER: has 259 characters, at most 255 can be kept"),
        ({"WORKER_ID": "w" * 256}, "WORKER_ID: has 256 characters, at most 255 can be kept"),
        ({"DATABASE": "nowhere"}, "DATABASE: there is no database alias 'nowhere' in DATABASES"),
        ({"CA_CERT": "/nowhere.pem"}, "CA_CERT: /nowhere.pem cannot be read: No such file or directory"),
        ({"TRANSPORT": "pigeon"}, "TRANSPORT: 'pigeon' is unknown"),
        ({"TRANSPORT": "no.such.Binding"}, "TRANSPORT: 'no.such.Binding' cannot be imported"),
        ({"CONCURENCY": 4}, "ORBIT: the key 'CONCURENCY' is unknown; did you mean 'CONCURRENCY'?"),
        (["SERVER"], "ORBIT: the setting is to be a dictionary"),
    ],
)  # fmt: skip
@pytest.mark.promise("W8")
def test_a_wrong_setting_is_one_line(project, mistake, orbit: object, line: str) -> None:
    project.ORBIT = orbit
    assert mistake().startswith(line)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["-c", "0"], "CONCURRENCY: expected a whole number from 1 to 1000, found '0'"),
        (["--processes", "0"], "--processes: expected a whole number from 1 to 256, found '0'"),
        (["-p", "two"], "--processes: expected a whole number from 1 to 256, found 'two'"),
        (["-p", "257"], "--processes: expected a whole number from 1 to 256, found '257'"),
        (["-p", "2", "-c", "0"], "CONCURRENCY: expected a whole number from 1 to 1000, found '0'"),
        (["--max-tasks", "-1"], "--max-tasks: expected a whole number from 1 to 1000000000, found '-1'"),
        (["--max-tasks", "0"], "--max-tasks: expected a whole number from 1 to 1000000000, found '0'"),
        (["--reload", "-p", "2"], "--reload: cannot be combined with --processes 2"),
        (["--reload", "--burst"], "--reload: cannot be combined with --burst"),
        (["--lifeline", "999"], "--lifeline: 999 is no socket of a supervisor"),
        (["--drain-timeout", "soon"], "DRAIN_TIMEOUT: expected a number from"),
        (["--server", "nowhere"], "SERVER: 'nowhere' is no URL"),
        (["--transport", "pigeon"], "TRANSPORT: 'pigeon' is unknown"),
        (["--task", "mail.*"], "the task pattern 'mail.*' matches none of 1 task"),
        (["--exclude", "mail.*"], "the task pattern 'mail.*' matches none of 1 task"),
        (["--exclude", "*"], "no tasks to serve"),
    ],
)
@pytest.mark.promise("W8")
def test_a_wrong_option_is_one_line(mistake, arguments: list[str], line: str) -> None:
    assert mistake(*arguments).startswith(line)


@pytest.mark.promise("W8")
def test_no_tasks_is_one_line(mistake, monkeypatch) -> None:
    monkeypatch.setattr(registry, "_tasks", {})
    assert mistake().startswith("no tasks to serve: no tasks_orbit module of an installed app has a @task handler; ")


@pytest.mark.parametrize("name", ["shop.pay", "orbit.pay"])
@pytest.mark.promise("W8")
def test_a_handler_that_cannot_be_served_is_one_line(mistake, name: str) -> None:
    task(name, version="1.0.0")(pay)
    assert mistake("--task", "mail.*") == registry.faults[0]


@pytest.mark.parametrize("server", [f"http://user:{SECRET}@runtime", f"user:{SECRET}@runtime:1", f"ftp://{SECRET}@h:x"])
@pytest.mark.promise("W8", "W9")
def test_a_credential_in_the_servers_url_is_not_repeated(project, mistake, monkeypatch, server: str) -> None:
    line = "SERVER: the URL must not carry a user or a password; use WORKER_TOKEN"
    assert mistake("--server", server) == line
    monkeypatch.setenv("ORBIT_SERVER", server)
    assert mistake() == line
    project.ORBIT = {"SERVER": server}
    assert mistake() == line


@pytest.mark.parametrize("name", ["WORKER_TOKEN", "TOKEN"])
@pytest.mark.parametrize("end", ["\nx: 1", "é", " "])
@pytest.mark.promise("W8", "W9")
def test_a_token_that_cannot_be_sent_is_not_repeated(mistake, monkeypatch, name: str, end: str) -> None:
    monkeypatch.setenv(f"ORBIT_{name}", SECRET + end)
    line = mistake()
    assert line.startswith(f"{name}: the token holds")
    assert SECRET not in line


@pytest.mark.parametrize("content", [None, "", f"{SECRET}\nx"])
@pytest.mark.promise("W8", "W9")
def test_a_useless_token_file_is_one_line(project, mistake, tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    project.ORBIT = {"WORKER_TOKEN_FILE": file}
    line = mistake()
    assert line.startswith(f"WORKER_TOKEN_FILE: {file} ")
    assert SECRET not in line


@pytest.mark.parametrize("content", ["", "no certificate"])
@pytest.mark.promise("W8")
def test_a_certificate_that_is_none_is_one_line(project, mistake, tmp_path: Path, content: str) -> None:
    file = tmp_path / "ca.pem"
    file.write_text(content)
    project.ORBIT = {"SERVER": "https://runtime", "CA_CERT": file}
    assert "CA_CERT" in mistake()


@pytest.mark.django_db(transaction=True)
def test_check_validates_and_ends(start) -> None:
    assert start("--check") == (0, "1 task for http://127.0.0.1:7233: ready to start\n", "")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("verbosity", "level"), [("0", logging.ERROR), ("1", logging.WARNING), ("2", logging.DEBUG)])
def test_verbosity_is_the_level_of_the_log(project, start, monkeypatch, verbosity: str, level: int) -> None:
    ours = logging.getLogger("orbit_django")
    monkeypatch.setattr(ours, "level", logging.NOTSET)
    project.ORBIT = {"LOG_LEVEL": "WARNING"}
    assert start("--check", "-v", verbosity)[0] == 0
    assert ours.level == level


@pytest.mark.django_db(transaction=True)
def test_check_compares_with_the_contracts(project, start, mistake, tmp_path: Path) -> None:
    file = tmp_path / "pay.orbit"
    file.write_text('task "shop.pay" { version "2.0.0" }', encoding="utf-8")
    project.ORBIT = {"CONTRACTS": [file]}
    code, out, err = start("--check")
    assert (code, out.count("ready to start")) == (0, 1)
    assert err == "W004 shop.pay: the handler is of version 1.0.0, CONTRACTS declares 2.0.0\n"

    file.write_text('task "shop.pay" { version "1.0.0" }\ntask "shop.ship" { version "1.0.0" }', encoding="utf-8")
    assert start("--check")[2] == f"W005 {file}:2:6: shop.ship 1.0.0 has no handler in this project\n"
    project.SILENCED_SYSTEM_CHECKS = ["orbit_django.W005"]
    assert start("--check")[2] == ""

    file.write_text('task "shop.pay" { version "1.0.0" output { paid: Int } }', encoding="utf-8")
    pay.__annotations__["return"] = None
    try:
        assert mistake("--check").endswith(
            "the handler returns None, which is sent as {}, and the contract wants `paid`"
        )
    finally:
        del pay.__annotations__["return"]

    file.write_text("task", encoding="utf-8")
    assert mistake("--check").startswith(f"{file}:1:5: expected")


@pytest.mark.django_db(transaction=True)
def test_check_tells_what_the_system_checks_warn_of(project, start, tmp_path: Path) -> None:
    file = tmp_path / "pay.orbit"
    file.write_text(
        'task "shop.pay" { version "1.0.0" } workflow Pay { version "1.0.0" step pay { worker "shop.pay" } return {} }',
        encoding="utf-8",
    )
    project.ORBIT = {"CONTRACTS": [file], "WORKER_TOKEN": SECRET}
    code, out, err = start("--check")
    assert (code, out.count("ready to start")) == (0, 1)
    assert err.startswith("W001 CONTRACTS declares workflows, but TOKEN is not set")
    assert len(err.splitlines()) == 1
    project.SILENCED_SYSTEM_CHECKS = ["orbit_django.W001"]
    assert start("--check")[2] == ""


@pytest.mark.django_db(transaction=True)
@pytest.mark.promise("W9")
def test_a_token_in_the_clear_is_warned_of(project, start, caplog) -> None:
    logging.getLogger("orbit_django").setLevel(logging.INFO)
    project.ORBIT = {"SERVER": "http://runtime.example", "WORKER_TOKEN": SECRET}
    assert start("--check")[0] == 0
    assert [message for message in caplog.messages if "unencrypted" in message]
    assert SECRET not in caplog.text


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*MANAGE, "--task", "*", *arguments]
    return subprocess.run(
        command, cwd=databases.ROOT, env=environment, capture_output=True, text=True, timeout=50, check=False
    )


def program(folder: Path, text: str) -> dict[str, str]:
    """Write an app with these handlers; return the environment in which a process knows it, with an empty database."""
    (folder / "only").mkdir()
    (folder / "only" / "tasks_orbit.py").write_text(text)
    (folder / "only_settings.py").write_text(
        'from tests.settings import *\nINSTALLED_APPS = ["orbit_django", "only"]\n'
    )
    return {
        "DJANGO_SETTINGS_MODULE": "only_settings",
        "PYTHONPATH": os.pathsep.join([str(folder), str(databases.ROOT)]),
        "ORBIT_TEST_RUN": databases.run(),
        "ORBIT_TEST_DATABASE_DEFAULT": str(folder / "empty.sqlite3"),
        "ORBIT_WORKER_TOKEN": SECRET,
    }


@pytest.mark.promise("W8")
def test_a_database_without_tables_is_one_line(tmp_path: Path) -> None:
    ended = run(program(tmp_path, HANDLER))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.endswith("migration of orbit_django: run manage.py migrate\n")
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.promise("W8", "W9")
def test_a_broken_module_shows_its_real_traceback(tmp_path: Path) -> None:
    ended = run(program(tmp_path, "import a_missing_package\n"))
    assert ended.returncode == 1
    *_, error, note = ended.stderr.splitlines()
    assert error == "ModuleNotFoundError: No module named 'a_missing_package'"
    assert note.startswith("orbit_django looks for handlers in ")
    assert "tasks_orbit.py" in ended.stderr
    assert SECRET not in ended.stderr


@pytest.mark.parametrize("status", ["400 Bad Request", "401 Unauthorized", "403 Forbidden"])
@pytest.mark.promise("W8", "W9")
def test_a_runtime_that_says_no_is_one_line(tmp_path: Path, child_environment, status: str) -> None:
    body = f'{{"error": {{"code": "FORBIDDEN", "message": "bad header: Bearer {SECRET}"}}}}'
    with wire.serving(wire.answer(body, status)) as server:
        ended = run(program(tmp_path, HANDLER) | databases_of(child_environment) | {"ORBIT_SERVER": server.url})
    line = f"CommandError: the runtime refuses this worker: {status[:3]} FORBIDDEN: bad header: Bearer ********"
    line += "; look at WORKER_TOKEN" if status.startswith("401") else ""
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (2, line)
    assert SECRET not in ended.stderr


def databases_of(environment: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith("ORBIT_TEST_")}


def test_the_connections_of_a_check_are_closed(start, transactional_db) -> None:
    start("--check")
    assert connections["default"].connection is None
