import json
import os
import socket
import threading

import pytest

from orbit_django.exceptions import ConfigurationError
from orbit_django.worker.lifeline import Lifeline
from orbit_django.worker.runner import StoppedError
from orbit_django.worker.stops import StopRequests
from tests.processes import wait_for


@pytest.fixture
def ends():
    """Return the supervisor's end of a lifeline, and the lifeline."""
    ours, theirs = socket.socketpair()
    lifeline = Lifeline(theirs.detach())
    with ours:
        yield ours, lifeline
    lifeline.close()


def test_orders_are_counted_and_silence_is_an_orphan(ends) -> None:
    ours, lifeline = ends
    stops = StopRequests()
    lifeline.start(stops)
    ours.send(b"!")
    wait_for(lambda: stops.level == 1)
    ours.send(b"!")
    wait_for(lambda: stops.level == 2)


@pytest.mark.promise("W1")
def test_a_supervisor_that_is_gone_asks_for_the_end(ends) -> None:
    ours, lifeline = ends
    stops = StopRequests()
    lifeline.start(stops)
    ours.close()
    wait_for(lambda: stops.level == 1)
    stops.signalled()
    assert stops.level == 2


def test_each_word_is_one_line(ends) -> None:
    ours, lifeline = ends
    assert lifeline.step() == 1.0
    lifeline.mistake("two\nlines")
    lifeline.ended()
    report, mistake, last, ended = ours.recv(1000).decode().splitlines()
    assert (report, last, ended) == ("report {}", "report {}", "ended {}"), "what was counted last is not lost"
    assert json.loads(mistake.removeprefix("mistake ")) == "two\nlines"


def test_a_task_is_told_of_at_once_and_holds_nobody_up(ends) -> None:
    ours, lifeline = ends
    lifeline.received()
    assert ours.recv(1000) == b"task {}\n"
    lifeline._report = lambda: "x" * 4_000_000  # more than the socket takes while nobody reads
    sender = threading.Thread(target=lifeline.step)
    sender.start()
    wait_for(lifeline._lock.locked)
    lifeline.received()
    while not ours.recv(1_000_000).endswith(b"\n"):
        pass


def test_a_report_is_what_the_process_says_of_itself(ends) -> None:
    ours, lifeline = ends
    lifeline.start(StopRequests(), lambda: '{"held": 3}')
    assert ours.recv(1000) == b'report {"held": 3}\n'


def test_no_line_begins_inside_another_one(ends) -> None:
    ours, lifeline = ends
    long = "x" * 400_000  # more than the socket takes at once
    lifeline._report = lambda: long
    senders = [threading.Thread(target=lifeline.step) for _ in range(4)]
    for sender in senders:
        sender.start()
    received = b""
    while received.count(b"\n") < 4:
        received += ours.recv(65_536)
    for sender in senders:
        sender.join(10)

    assert received.decode().splitlines() == [f"report {long}"] * 4


def test_nothing_is_sent_to_a_supervisor_that_is_gone(ends) -> None:
    ours, lifeline = ends
    ours.close()
    with pytest.raises(StoppedError):
        lifeline.step()
    lifeline.ended()


def test_processes_that_handlers_start_have_no_part_in_it() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        descriptor = theirs.detach()
        os.set_inheritable(descriptor, True)
        lifeline = Lifeline(descriptor)
        assert not os.get_inheritable(descriptor)
        lifeline.close()


@pytest.mark.promise("W8")
@pytest.mark.parametrize("kind", ["closed", "file", "listener"])
def test_a_descriptor_that_is_no_lifeline_is_a_mistake(kind: str) -> None:
    with open(os.devnull) as file, socket.create_server(("127.0.0.1", 0)) as listener:  # noqa: PTH123
        descriptor = {"closed": 999, "file": file.fileno(), "listener": listener.fileno()}[kind]
        with pytest.raises(ConfigurationError, match=f"^--lifeline: {descriptor} is no socket of a supervisor$"):
            Lifeline(descriptor)
