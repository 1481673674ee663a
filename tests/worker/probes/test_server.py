import http.client
import logging
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from orbit_django.worker.probes import server as room
from orbit_django.worker.probes.address import listen
from orbit_django.worker.probes.health import Condition
from orbit_django.worker.probes.server import ProbeServer
from orbit_django.worker.vitals import Numbers
from tests.processes import wait_for


class Patient:
    """Answers what it is told to."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.obstacles: list[str] = []
        self.error: Exception | None = None

    def condition(self) -> Condition:
        if self.error is not None:
            raise self.error
        return Condition(self.faults, self.obstacles, Numbers())


class Desk:
    """A server with its patient, and a client that asks it."""

    def __init__(self) -> None:
        self.patient = Patient()
        listening = listen("127.0.0.1", 0)
        self.port = listening.getsockname()[1]
        self.server = ProbeServer(listening, self.patient)
        self.server.start()

    def ask(self, path: str, method: str = "GET", **options: Any) -> tuple[int, str]:
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=3)
        client.request(method, path, **options)
        answer = client.getresponse()
        text = answer.read().decode()
        client.close()
        return answer.status, text

    def connect(self, said: bytes = b"") -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        client.sendall(said)
        return client


def is_taken(client: socket.socket, said: bytes) -> bool:
    """Return whether the other side still listens."""
    try:
        client.sendall(said)
    except OSError:
        return False
    return True


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.server.close()


def test_all_is_well(desk: Desk) -> None:
    assert desk.ask("/livez") == desk.ask("/readyz") == (200, "ok\n")


@pytest.mark.promise("W1", "W10")
def test_faults_and_obstacles_are_told_one_on_each_line(desk: Desk) -> None:
    desk.patient.faults = ["relay: its thread has ended"]
    desk.patient.obstacles = ["not registered with the runtime", "the database cannot be reached"]

    assert desk.ask("/livez") == (503, "relay: its thread has ended\n")
    assert desk.ask("/readyz") == (503, "not registered with the runtime\nthe database cannot be reached\n")


def test_figures(desk: Desk) -> None:
    status, text = desk.ask("/metrics")

    assert (status, "\norbit_live 1.0\n" in text) == (200, True)


def test_without_the_package_for_figures_the_extra_is_named(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)

    assert desk.ask("/metrics") == (501, room.NO_METRICS)
    assert room.NO_METRICS.count("\n") == 1
    assert "orbit_django[metrics]" in room.NO_METRICS


def test_a_query_is_ignored(desk: Desk) -> None:
    assert desk.ask("/livez?verbose") == (200, "ok\n")


@pytest.mark.parametrize("path", ["/", "/livez/", "/Livez", "/../livez", "/%6civez", "x", "/readyz/../livez"])
def test_nothing_else_is_there(desk: Desk, path: str) -> None:
    assert desk.ask(path) == (404, "not here; there are /livez, /readyz, /metrics\n")


def test_a_head_has_no_body(desk: Desk) -> None:
    with desk.connect(b"HEAD /livez HTTP/1.1\r\nHost: x\r\n\r\n") as client:
        said = b"".join(iter(lambda: client.recv(4096), b""))

    assert said.startswith(b"HTTP/1.1 200 OK\r\n")
    assert said.endswith(b"\r\n\r\n")
    assert b"Content-Length: 3\r\n" in said


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "get"])
def test_only_two_methods_are_taken(desk: Desk, method: str) -> None:
    assert desk.ask("/livez", method) == (405, "only GET and HEAD\n")


def test_an_error_of_one_answer_is_logged_and_ends_no_other(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.patient.error = ValueError("wrk-SECRET")
    status, text = desk.ask("/livez")
    desk.patient.error = None

    assert (status, "SECRET" in text) == (500, False)
    assert [record.getMessage() for record in caplog.records] == ["a probe could not be answered"]
    assert desk.ask("/livez") == (200, "ok\n")


def test_an_answer_leaves_no_line_in_the_log(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="orbit_django")
    desk.ask("/livez")
    desk.ask("/nothing")
    desk.connect(b"garbage\r\n\r\n").close()

    assert desk.ask("/livez") == (200, "ok\n")
    assert [record for record in caplog.records if record.name.startswith("orbit_django")] == []


@pytest.mark.promise("W10")
def test_clients_that_are_slow_or_dead_hold_up_nobody(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "REQUEST_SECONDS", 60.0)
    threads = set(threading.enumerate())
    beginnings = (b"", b"GET /livez", b"GET /livez HTTP/1.1\r\nHost: x\r\n")
    slow = [desk.connect(said) for said in beginnings for _ in range(50)]

    for _ in range(20):
        assert desk.ask("/livez") == (200, "ok\n")
    assert not set(threading.enumerate()) - threads
    wait_for(lambda: len(desk.server._clients) <= room.MAX_CLIENTS)
    for client in slow:
        client.close()
    wait_for(lambda: not desk.server._clients)


@pytest.mark.promise("W10")
def test_a_client_that_drips_gets_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "REQUEST_SECONDS", 0.3)
    desk = Desk()
    with desk.connect(b"GET /livez HTTP/1.1\r\n") as client:
        for _ in range(200):
            if not is_taken(client, b"x"):
                break
            threading.Event().wait(0.05)
        else:
            pytest.fail("it was listened to for ten seconds")
    wait_for(lambda: not desk.server._clients)
    desk.server.close()


def test_a_head_without_an_end_is_not_kept(desk: Desk) -> None:
    with desk.connect() as client:
        assert not all(is_taken(client, b"x" * 4096) for _ in range(10_000))

    wait_for(lambda: not desk.server._clients)
    assert desk.ask("/livez") == (200, "ok\n")


def test_a_client_that_takes_no_answer_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "REQUEST_SECONDS", 0.3)
    desk = Desk()
    desk.patient.faults = ["x" * 20_000_000]
    with desk.connect(b"GET /livez HTTP/1.1\r\n\r\n"):
        wait_for(lambda: desk.server._clients)
        wait_for(lambda: not desk.server._clients)
    desk.server.close()


def test_a_closed_server_gives_its_address_back(desk: Desk) -> None:
    waiting = desk.connect(b"GET")
    wait_for(lambda: desk.server._clients)
    desk.server.close()

    listen("127.0.0.1", desk.port).close()
    assert not [thread for thread in threading.enumerate() if thread.name == "orbit-probes"]
    waiting.close()
    desk.server = ProbeServer(listen("127.0.0.1", 0), desk.patient)
    desk.server.start()
