import socket
import threading

import pytest
from django.conf import settings
from django.test import override_settings

from orbit_django import conf
from orbit_django.client import Client
from orbit_django.protocol import Contract, Registration
from orbit_django.testing import running_runtime
from orbit_django.worker.binding import open_transport
from tests.worker.staging import WORKFLOWS


def port_of(url: str) -> int:
    return int(url.rsplit(":", 1)[1])


def test_the_settings_point_to_it_as_long_as_it_runs(tmp_path):
    path = tmp_path / "charge.orbit"
    path.write_text(WORKFLOWS, encoding="utf-8")
    threads = set(threading.enumerate())
    given = {"SERVER": "https://orbit.example.com", "TOKEN": "a-real-token", "CONTRACTS": [str(path)], "CONCURRENCY": 7}
    with override_settings(ORBIT=given):
        with running_runtime() as runtime:
            found = conf.load()
            assert (found.server, found.transport, found.proxy) == (runtime.url, "http", None)
            assert found.concurrency == 7
            client = Client()
            execution = client.start("Charge", {"seconds": 0.0})
            assert client.get(execution) == runtime.execution(execution)
            assert runtime.execution(execution)["status"] == "RUNNING"
            client.close()
        assert conf.load().server == "https://orbit.example.com"
        assert settings.ORBIT is given

    assert set(threading.enumerate()) <= threads
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port_of(runtime.url))):
        pass


@pytest.mark.django_db
def test_a_project_that_works_over_grpc_is_tried_over_grpc(tmp_path):
    path = tmp_path / "charge.orbit"
    path.write_text(WORKFLOWS, encoding="utf-8")
    with override_settings(ORBIT={"TRANSPORT": "grpc", "CONTRACTS": [str(path)]}), running_runtime() as runtime:
        found = conf.load()
        assert (found.server, found.transport, found.grpc_target) == (runtime.url, "grpc", runtime.grpc_target)
        transport = open_transport(found)
        contracts = (Contract("test.charge", "1.0.0"),)
        assert transport.register(Registration("w", "python", contracts, "t/1")).session_id
        transport.close()


def test_two_at_once_do_not_meet():
    with running_runtime() as first, running_runtime() as second:
        assert port_of(first.url) != port_of(second.url)
        assert conf.load().server == second.url
    assert not hasattr(settings, "ORBIT")


def test_time_passes_on_demand():
    with running_runtime() as runtime:
        clock = runtime.runtime.state.clock
        wall, ticks = clock.wall(), clock.monotonic()
        runtime.pass_time(3600)
        assert 3600 <= clock.wall() - wall < 3660
        assert 3600 <= clock.monotonic() - ticks < 3660
        runtime.pass_time(-5)
        assert clock.wall() - wall >= 3600
        assert runtime.next_retry() is None


def test_what_falls_due_by_that_happens_at_once():
    with running_runtime() as runtime:
        happened = threading.Event()
        with runtime.changing() as state:
            state.state.timers.at(state.state.clock.monotonic() + 1000, happened.set)
        assert not happened.is_set()
        runtime.pass_time(1001)
        assert happened.is_set()
