"""The command ``orbit_runtime`` as a process."""

import hashlib
import json
import os
import re
import select
import signal
import sqlite3
import ssl
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from orbit_django.embedded.faults import explain
from tests.contracts.texts import GREET
from tests.embedded.wire import Client
from tests.transports.certificates import Authority

ROOT = Path(__file__).parents[2]
START = """
import django, json, sys
from django.conf import settings
settings.configure(ORBIT=json.loads(sys.argv.pop(1)), INSTALLED_APPS=["orbit_django"],
                   DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "never.sqlite3"}})
django.setup()
from django.core.management import execute_from_command_line
execute_from_command_line(["manage.py", "orbit_runtime", *sys.argv[1:]])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "greet.orbit").write_text(GREET)
    return tmp_path


def arguments(folder: Path, *options: str, contracts: tuple[str, ...] = ()) -> list[str]:
    orbit = json.dumps({"CONTRACTS": list(contracts)})
    return [sys.executable, "-c", START, orbit, "--port", "0", "--db", str(folder / "state.db"), *options]


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ORBIT_")}
    return kept | {"PYTHONPATH": str(ROOT)} | more


class Process:
    """A running command; ``url`` is where it says that it listens."""

    def __init__(self, folder: Path, *options: str, contracts: tuple[str, ...] = ()) -> None:
        command = arguments(folder, *options, contracts=contracts)
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], 20)[0], "the command says nothing"
        self.said = self.process.stdout.readline() + self.process.stdout.readline()
        self.url = re.search(r"https?://\S+", self.said)[0]

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        self.last_words, self.errors = self.process.communicate(timeout=50)
        return self.process.returncode


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_what_it_is_and_stops_when_told(folder: Path, number: int) -> None:
    process = Process(folder, "greet.orbit")
    client = Client(process.url)
    assert client.start().status == 200

    assert process.end(number) == 0
    assert "for development only" in process.said
    assert process.url.startswith("http://127.0.0.1:")
    assert "Greet 1.0.0" in process.said
    assert process.errors == ""
    assert process.last_words.splitlines()[-1].startswith("the runtime has ended; its state stays in ")
    assert not (folder / "never.sqlite3").exists()
    client.close()


def test_the_setting_names_the_files_and_tokens_stay_secret(folder: Path) -> None:
    options = ("--token", "admin-secret", "--worker-token", "worker-secret", "--session-timeout", "3")
    process = Process(folder, *options, contracts=(str(folder / "greet.orbit"),))
    worker, stranger = Client(process.url, "worker-secret"), Client(process.url)

    assert worker.register()
    assert stranger.get("/v1/workers").status == 401
    assert process.end(signal.SIGTERM) == 0
    assert "secret" not in process.said + process.errors
    worker.close()
    stranger.close()


def test_a_killed_runtime_comes_back_with_its_tokens(folder: Path) -> None:
    process = Process(folder, "greet.orbit")
    client = Client(process.url)
    session = client.register()
    client.start()
    token = client.poll(session).json["token"]
    process.end(signal.SIGKILL)
    client.close()

    process = Process(folder, "greet.orbit")
    client = Client(process.url)
    assert client.poll(session).json["error"]["code"] == "UNKNOWN_SESSION"
    assert client.complete(token).json == {"accepted": True}
    assert process.end(signal.SIGTERM) == 0
    client.close()


def test_faults_by_option(folder: Path) -> None:
    process = Process(folder, "greet.orbit", "--fault", "status:other:500")
    client = Client(process.url)

    assert [client.start().status, client.start().status] == [500, 200]
    assert process.process.stdout.readline() == "misbehaves on purpose: status:other:500\n"
    process.end(signal.SIGTERM)
    client.close()


def test_identities_over_tls_by_option(folder: Path) -> None:
    authority = Authority(folder, "ours")
    certificate, key = authority.issue("server")
    (folder / "workers.toml").write_text(
        "[[worker]]\nid = 'by-name'\nclient_cert = 'worker-1'\ntasks = ['greeting.*']\nruntime = 'ruby'\n"
        f"[[worker]]\nid = 'by-token'\ntoken_sha256 = '{hashlib.sha256(b'secret').hexdigest()}'\ntasks = ['*']\n"
    )
    files = ("--tls-cert", str(certificate), "--tls-key", str(key), "--tls-client-ca", str(authority.certificate))
    process = Process(folder, "greet.orbit", "--workers-file", str(folder / "workers.toml"), *files)
    plain = ssl.create_default_context(cafile=str(authority.certificate))
    known = ssl.create_default_context(cafile=str(authority.certificate))
    known.load_cert_chain(*authority.issue("worker-1"))
    by_name, by_token = Client(process.url, context=known), Client(process.url, "secret", plain)
    stranger = Client(process.url, context=plain)
    statuses = {
        (client, worker_id): client.post("/v1/workers/register", client.registration(worker_id=worker_id)).status
        for client in (by_name, by_token, stranger)
        for worker_id in ("by-name", "by-token")
    }

    assert process.url.startswith("https://127.0.0.1:")
    assert statuses == {
        (by_name, "by-name"): 200,
        (by_name, "by-token"): 403,
        (by_token, "by-name"): 403,
        (by_token, "by-token"): 200,
        (stranger, "by-name"): 401,
        (stranger, "by-token"): 401,
    }
    for client in (by_name, by_token, stranger):
        client.close()
    assert process.end(signal.SIGTERM) == 0


def test_the_help_explains_every_fault(folder: Path) -> None:
    shown = subprocess.run(
        arguments(folder, "--help"), env=environment(), capture_output=True, text=True, timeout=50, check=True
    ).stdout

    assert explain() in shown


def test_a_runtime_open_to_others_says_so(folder: Path) -> None:
    process = Process(folder, "--host", "0.0.0.0")
    process.end(signal.SIGTERM)
    closed = Process(folder, "--host", "0.0.0.0", "--token", "x")
    closed.end(signal.SIGTERM)

    assert "whoever reaches 0.0.0.0 may use this runtime" in process.errors
    assert closed.errors == ""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["bad.orbit"], 'bad.orbit:2:3: task "a": expected version, input, output or `}`, found `vers`'),
        (["missing.orbit"], "missing.orbit: cannot be read: No such file or directory"),
        (["--worker-token", "x"], "--token"),
        (["--workers-file", "bad.toml"], "bad.toml: entry 1: unknown key `name`"),
        (["--workers-file", "missing.toml"], "--workers-file missing.toml"),
        (["--fault", "lost"], "--fault lost: expected KIND:CALL"),
        (["--session-timeout", "0"], "--session-timeout"),
        (["--session-timeout", "nan"], "--session-timeout"),
        (["--tls-key", "x"], "--tls-cert"),
        (["--tls-cert", "missing.pem"], "--tls-cert missing.pem"),
        (["--host", "192.0.2.1"], "cannot listen on 192.0.2.1:0"),
        (["--port", "70000"], "--port 70000: expected a number from 0 to 65535"),
        (["--port", "-1"], "--port -1: expected a number from 0 to 65535"),
        (["--db", "project.sqlite3"], "project.sqlite3 is a database of something else, with the table auth_user"),
        (["--db", "nowhere/state.db"], "nowhere/state.db: cannot be used"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(folder: Path, options: list[str], said: str) -> None:
    (folder / "bad.orbit").write_text('task "a" {\n  vers "1"\n}\n')
    (folder / "bad.toml").write_text("[[worker]]\nname = 'a'\n")
    with closing(sqlite3.connect(folder / "project.sqlite3")) as project:
        project.execute("CREATE TABLE auth_user (id)")
    result = subprocess.run(
        arguments(folder, *options),
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )

    assert result.returncode == 2
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
