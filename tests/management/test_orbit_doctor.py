import subprocess
import sys
import time
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.core.management.color import make_style

from orbit_django import starts
from orbit_django.contracts import read
from orbit_django.doctor.findings import ok, wrong
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.management.commands import orbit_doctor
from orbit_django.management.commands.orbit_doctor import Command
from tests import databases
from tests.crash.conftest import ON_A_SERVER
from tests.crash.proxy import Proxy
from tests.worker.staging import WORKFLOWS

pytestmark = [pytest.mark.django_db(transaction=True)]


def run(*arguments: str) -> tuple[int, list[str]]:
    """Return exit code and lines."""
    out, code = StringIO(), 0
    try:
        call_command("orbit_doctor", *arguments, stdout=out, no_color=True)
    except CommandError as error:
        code = error.returncode
    return code, out.getvalue().splitlines()


@pytest.mark.databases
def test_all_is_well(settings) -> None:
    with EmbeddedRuntime(read(WORKFLOWS), worker_token="wrk-SECRET", token="adm-SECRET") as runtime:
        settings.ORBIT = {"SERVER": runtime.url, "WORKER_TOKEN": "wrk-SECRET", "TOKEN": "adm-SECRET"}
        code, lines = run()

    assert code == 0, lines
    assert len({line.index(line[24:]) for line in lines}) == 1
    assert all(line[:6] in ("ok    ", "note  ") for line in lines)
    assert "SECRET" not in "".join(lines)
    assert "\x1b" not in "".join(lines)


@pytest.mark.databases
def test_a_runtime_that_is_away_is_told_and_the_rest_is_looked_at(settings) -> None:
    settings.ORBIT = {"SERVER": "http://127.0.0.1:9"}
    code, lines = run()

    assert code == 1
    assert [line[:23].split() for line in lines if line.startswith("wrong")] == [["wrong", "runtime"]]
    assert [line for line in lines if line.startswith("ok    database default   every migration")]


@pytest.mark.parametrize(("more", "level"), [({}, "wrong"), ({"TOKEN": "adm"}, "note ")])
def test_a_start_waits_for_the_admin_token(settings, more: dict[str, str], level: str) -> None:
    starts.append("Checkout", {}, "order-1", using="default")
    settings.ORBIT = {"SERVER": "http://127.0.0.1:9", "WORKER_TOKEN": "wrk"} | more
    (line,) = [line for line in run()[1] if "workflow start" in line]

    assert line.startswith(f"{level} database default   1 workflow start pending")


@pytest.mark.promise("W9")
def test_no_line_holds_a_credential(settings, monkeypatch) -> None:
    settings.ORBIT = {"WORKER_TOKEN": "wrk-SECRET"}
    monkeypatch.setattr(
        "orbit_django.doctor.examination.look_at_runtime", lambda settings: [wrong("runtime", "it said wrk-SECRET", "")]
    )

    assert "SECRET" not in "".join(run()[1])


def test_colours_on_a_terminal_alone(monkeypatch) -> None:
    monkeypatch.setattr(orbit_doctor, "examine", lambda *given, **options: [ok("a", "b"), wrong("c", "d\ne", "f")])
    out = StringIO()
    command = Command(stdout=out, force_color=True)
    command.style = make_style("dark;success=green;error=red")
    with pytest.raises(CommandError, match=r"^1 thing wrong$"):
        command.handle(
            verbosity=1, processes=None, register=False, concurrency=None, worker_id=None, server=None, transport=None
        )

    lines = out.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("\x1b[32mok   \x1b[0m a ")
    assert lines[1].endswith(" d e  -> f")


def test_what_is_well_is_left_out_when_less_is_asked_for(monkeypatch) -> None:
    monkeypatch.setattr(orbit_doctor, "examine", lambda *given, **options: [ok("a", "b"), wrong("c", "d", "f")])
    code, lines = run("--verbosity=0")
    assert (code, [line[:5] for line in lines]) == (1, ["wrong"])


def test_options_are_read_like_those_of_a_worker(settings) -> None:
    settings.ORBIT = {}
    assert run("--processes", "0") == (2, [])
    code, lines = run("--concurrency", "0")
    assert code == 1
    assert lines[0].startswith("wrong settings           CONCURRENCY")


@pytest.mark.databases
@ON_A_SERVER
@pytest.mark.promise("W10")
@pytest.mark.parametrize("way", ["refused", "hung"])
def test_a_database_that_is_away_is_told_in_time(child_environment: dict[str, str], way: str) -> None:
    with Proxy(databases.chosen()) as proxy, EmbeddedRuntime(read(WORKFLOWS)) as runtime:
        {"refused": proxy.refuse, "hung": proxy.hang}[way]()
        environment = child_environment | proxy.environment(connect_timeout=60) | {"ORBIT_SERVER": runtime.url}
        began = time.monotonic()
        command = [sys.executable, "-m", "django", "orbit_doctor"]
        done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=40)

    assert time.monotonic() - began < 25
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert f"ok    runtime            {runtime.url} answers" in done.stdout
    told = {"refused": "cannot be used", "hung": "no answer within 10 s"}[way]
    assert [line for line in done.stdout.splitlines() if line.startswith("wrong database default") and told in line]


@pytest.mark.parametrize("arguments", [[], ["--register"]])
def test_a_registration_is_made_when_it_is_asked_for(monkeypatch, arguments: list[str]) -> None:
    given = []
    monkeypatch.setattr(orbit_doctor, "examine", lambda *found, **options: given.append(options) or [])
    assert run(*arguments)[0] == 0
    assert [options["is_registering"] for options in given] == [bool(arguments)]
