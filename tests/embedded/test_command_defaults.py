"""What ``orbit_runtime`` takes from settings and environment, what it tells, and what two of them say."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.texts import GREET
from tests.embedded.test_command import START, environment
from tests.embedded.wire import Client
from tests.processes import wait_for


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "greet.orbit").write_text(GREET)
    return tmp_path


@pytest.fixture
def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Running:
    """The command at work, with all that it says in a file."""

    def __init__(self, folder: Path, *options: str, orbit: dict[str, Any] | None = None, **variables: str) -> None:
        self._log = folder / "said"
        command = [sys.executable, "-c", START, json.dumps(orbit or {}), *options]
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                command, cwd=folder, env=environment(**variables), stdout=log, stderr=subprocess.STDOUT
            )

    def __enter__(self) -> "Running":
        wait_for(lambda: "stop with Ctrl-C" in self.said or self.process.poll() is not None, 20)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)

    @property
    def said(self) -> str:
        return self._log.read_text()


def refusal(folder: Path, *options: str, orbit: dict[str, Any] | None = None) -> str:
    """Run the command, which must end with 2 and one line; return the line."""
    run = subprocess.run(
        [sys.executable, "-c", START, json.dumps(orbit or {}), *options],
        cwd=folder, env=environment(), capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    assert run.returncode == 2, run.stdout + run.stderr
    (line,) = run.stderr.strip().splitlines()
    return line


def test_host_and_port_follow_the_setting_of_the_worker(folder: Path, port: int) -> None:
    with Running(folder, orbit={"SERVER": f"http://localhost:{port}"}) as running:
        assert f"runtime at http://localhost:{port} " in running.said
        assert (folder / "orbit-runtime.sqlite3").exists()


def test_the_option_wins_and_another_machine_is_not_followed(folder: Path, port: int) -> None:
    with Running(folder, "--port", str(port), orbit={"SERVER": "http://runtime.test:9"}) as running:
        assert f"runtime at http://127.0.0.1:{port} " in running.said
    with Running(folder, "--port", str(port), orbit={"SERVER": "http://127.0.0.1:9"}) as running:
        assert f"runtime at http://127.0.0.1:{port} " in running.said


def test_grpc_is_served_where_the_settings_of_the_worker_look_for_it_or_where_an_option_says(
    folder: Path, port: int
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number = probe.getsockname()[1]
    orbit = {"TRANSPORT": "grpc", "GRPC_TARGET": f"127.0.0.1:{number}"}
    with Running(folder, "--port", str(port), orbit=orbit) as running:
        assert f"gRPC at 127.0.0.1:{number}\n" in running.said
        assert f"cannot listen on 127.0.0.1:{number}: Address already in use; give --grpc-port" in refusal(
            folder, "--port", "0", "--grpc-port", str(number), "--db", "other.sqlite3"
        )
    with Running(folder, "--port", str(port), orbit=orbit | {"TRANSPORT": "http"}) as running:
        assert "gRPC" not in running.said
    with Running(folder, "--port", str(port), "--grpc-port", "0") as running:
        assert "gRPC at 127.0.0.1:" in running.said
    line = refusal(folder, "--grpc-port", "65536")
    assert "--grpc-port 65536: expected a number from 0 to 65535" in line


def test_a_second_runtime_in_the_folder_is_told_of_the_first(folder: Path, port: int) -> None:
    orbit = {"SERVER": f"http://127.0.0.1:{port}"}
    with Running(folder, orbit=orbit):
        wanted = "another orbit_runtime already uses orbit-runtime.sqlite3: stop it, or give --db and --port"
        assert wanted in refusal(folder, orbit=orbit)
        taken = refusal(folder, "--db", "other.sqlite3", orbit=orbit)
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use; give --port" in taken
    assert not (folder / "other.sqlite3").exists()


def test_tokens_come_from_the_environment_and_options_win(folder: Path, port: int) -> None:
    options = ("--port", str(port), "greet.orbit", "--token=admin-option")
    with Running(folder, *options, ORBIT_TOKEN="admin-environment", ORBIT_WORKER_TOKEN="worker") as running:
        clients = [Client(f"http://127.0.0.1:{port}", name) for name in ("admin-option", "admin-environment", "worker")]
        assert [client.get("/v1/workers").status for client in clients] == [200, 401, 403]
        for client in clients:
            client.close()
        assert "admin-" not in running.said


def test_empty_variables_leave_the_runtime_open(folder: Path, port: int) -> None:
    with Running(folder, "--port", str(port), ORBIT_TOKEN="", ORBIT_WORKER_TOKEN=""):
        client = Client(f"http://127.0.0.1:{port}")
        assert client.get("/v1/workers").status == 200
        client.close()


def play(port: int) -> None:
    """Have an attempt lost with its session, delivered again, and its execution ended."""
    client = Client(f"http://127.0.0.1:{port}")
    session = client.register()
    client.start()
    client.poll(session)
    client.post("/v1/workers/unregister", {"worker_session_id": session})
    client.complete(client.poll(client.register()).json["token"])
    client.close()


def test_what_is_worth_knowing_is_told_in_a_line_each(folder: Path, port: int) -> None:
    with Running(folder, "greet.orbit", "--port", str(port)) as running:
        play(port)
        lines = [line.partition(" a")[2] for line in running.said.splitlines()[2:]]
    assert lines == [
        " worker registered worker=w-1 tasks=greeting.compose 1.0.0",
        " session ended worker=w-1 why=worker unregistered held=1",
        "n attempt is delivered again execution=e-1 step=compose attempt=1 why=worker unregistered",
        " worker registered worker=w-1 tasks=greeting.compose 1.0.0",
        "n execution ended execution=e-1 workflow=Greet status=COMPLETED",
    ]


def test_quiet_tells_nothing_of_it(folder: Path, port: int) -> None:
    with Running(folder, "greet.orbit", "--port", str(port), "--quiet") as running:
        play(port)
        assert len(running.said.splitlines()) == 2


def test_a_changed_text_under_an_old_version_is_told_at_the_start(folder: Path, port: int) -> None:
    options = ("greet.orbit", "--port", str(port), "--quiet")
    with Running(folder, *options) as running:
        play(port)
    with Running(folder, *options) as running:
        assert "differs" not in running.said
    (folder / "greet.orbit").write_text(GREET.replace("30s", "31s"))
    with Running(folder, *options) as running:
        assert "workflow Greet 1.0.0 differs from the one that the state file knows" in running.said
