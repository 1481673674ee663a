import logging
import threading
from collections.abc import Callable

import pytest

from orbit_django.clock import FixedClock
from orbit_django.worker import runner
from orbit_django.worker.runner import Backoff, LoopThread, StoppedError, delay_after, get_on
from tests.worker.words import NoWait


class Script:
    """A loop that does what it is told, step by step, and then stops."""

    name = "script"

    def __init__(self, *steps: Callable[[], float]) -> None:
        self.steps = list(steps)

    def step(self) -> float:
        if not self.steps:
            raise StoppedError
        return self.steps.pop(0)()


def failing(error: BaseException) -> Callable[[], float]:
    def fail() -> float:
        raise error

    return fail


def run(loop: Script, stop: NoWait) -> None:
    LoopThread(loop, stop).run()


@pytest.mark.parametrize(("failures", "seconds"), [(1, 0.2), (2, 0.4), (5, 3.2), (6, 5.0), (40, 5.0), (10**9, 5.0)])
def test_waits_double_up_to_five_seconds(failures: int, seconds: float) -> None:
    found = [delay_after(failures) for _ in range(50)]

    least, most = (4.5, 5.0) if seconds == 5.0 else (seconds, seconds * 1.2)
    assert least <= min(found)
    assert max(found) <= most
    assert len(set(found)) > 1, "many workers must not come back at one moment"


def test_a_success_begins_anew() -> None:
    backoff = Backoff(first=1.0, top=8.0)
    found = [backoff.next() for _ in range(5)]
    backoff.reset()

    assert [int(wait) for wait in found][:2] == [1, 2]
    assert 7.2 <= found[-1] <= 8.0
    assert backoff.next() < 1.3


def test_a_loop_waits_as_long_as_its_step_says() -> None:
    stop = NoWait()
    run(Script(lambda: 0.0, lambda: 1.5, lambda: 0.25), stop)

    assert stop.waits == [1.5, 0.25]


@pytest.mark.promise("W1")
@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_a_loop_survives_every_error_of_a_step(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    loop, stop = Script(*[failing(error)] * 3, lambda: 7.0, failing(error)), NoWait()
    run(loop, stop)

    assert loop.steps == []
    assert [round(wait / base, 1) for wait, base in zip(stop.waits, (0.2, 0.4, 0.8, 7.0, 0.2), strict=True)] == (
        pytest.approx([1.1] * 5, abs=0.11)
    )
    logged = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [(record.loop, record.exc_info[1]) for record in logged] == [("script", error)] * 4


@pytest.mark.promise("W1")
@pytest.mark.parametrize("error", [RuntimeError("no disk"), SystemExit(3)])
def test_a_loop_survives_an_error_that_cannot_be_logged(error: BaseException) -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise error

    loop, logger, handler = Script(failing(ValueError()), lambda: 7.0), logging.getLogger(runner.__name__), Broken()
    logger.addHandler(handler)
    try:
        run(loop, NoWait())
    finally:
        logger.removeHandler(handler)
    assert loop.steps == []


def test_a_stop_ends_the_loop_and_its_wait() -> None:
    stop = threading.Event()
    thread = LoopThread(Script(*[lambda: 60.0] * 9), stop)
    thread.start()
    stop.set()
    thread.join(5)

    assert not thread.is_alive()


def test_no_step_begins_after_the_stop() -> None:
    stop, loop = NoWait(), Script(lambda: 0.0)
    stop.set()
    run(loop, stop)

    assert len(loop.steps) == 1


@pytest.mark.promise("W10")
def test_a_loop_is_due_when_its_step_begins_and_when_its_wait_is_over() -> None:
    clock, stop, found = FixedClock(), NoWait(), []

    def look(wait: float) -> Callable[[], float]:
        def step() -> float:
            found.append(thread.due_at - clock.monotonic())
            clock.advance(5)
            return wait

        return step

    thread = LoopThread(Script(look(7.0), look(0.0)), stop, clock)
    stop.then = lambda: found.append(thread.due_at - clock.monotonic())
    clock.advance(100)
    thread.run()

    assert found == [0.0, 7.0, 0.0]


def test_a_step_that_waits_for_the_runtime_gets_on() -> None:
    clock, found = FixedClock(), []

    def step() -> float:
        clock.advance(100)
        get_on()
        found.append(thread.due_at - clock.monotonic())
        return 0.0

    thread = LoopThread(Script(step), NoWait(), clock)
    thread.start()
    thread.join(5)
    get_on()  # in a thread that is no loop it does nothing

    assert found == [0.0]
