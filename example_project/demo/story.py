"""What happens: a runtime and a worker start, orders come in, the worker is killed again and again, all is counted."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from django.contrib.auth import get_user_model
from django.core.management import call_command

from example_project.demo import DemoError, processes
from example_project.demo.books import Books
from example_project.demo.guide import VISITOR, guide, guide_running
from example_project.demo.orders import ExpectedOrder, write_orders
from example_project.demo.processes import MISHAPS, Child, pause
from example_project.demo.scene import Scene
from example_project.demo.screen import Progress, say, table
from example_project.shop.models import WORKFLOW
from orbit_django.client import Client
from orbit_django.models import IdempotencyRecord, OutboxMessage

STALL_SECONDS = 40.0  # nothing recorded for so long: something is wrong, and the books will say what
ENDING_SECONDS = 30.0  # from the last outcome recorded to the last result delivered; a dead sender's hold lasts 15
TICK_SECONDS = 0.02
READING = """\
Every delivery is a handler run, a replay, or one whose worker was killed before either. A run that a kill cut short
left no rows and was made again. Results are one for each step and one for each replay. A call of the provider that is
repeated under its key takes no second charge.
"""
SHOWN = 20  # so many problems are listed


class Killer:
    """Kills the worker with ``kill -9`` whenever a further share of all steps is done, and starts it again."""

    def __init__(self, worker: Child, progress: Progress, *, steps: int, kills: int) -> None:
        self._worker = worker
        self._progress = progress
        self._at = [steps * place // (kills + 1) for place in range(1, kills + 1)]
        self.kills = 0

    def tick(self) -> int:
        """Look once, kill if it is time, and return how many steps are done."""
        done = IdempotencyRecord.objects.exclude(status="running").count()
        if self.kills < len(self._at) and done >= self._at[self.kills]:
            pause(random.uniform(0, 0.05))  # any moment will do, as with a power cut
            self._worker.kill()
            self.kills += 1
            self._worker.start()
        self._worker.check()
        self._progress.show(done, self.kills)
        return done


def play(scene: Scene, *, count: int, kills: int, keep: bool) -> int:
    """Play the demo with so many orders and kills; return 0, or raise DemoError saying what is wrong."""
    say(f"Setting up {scene.folder}")
    call_command("migrate", verbosity=0)
    get_user_model().objects.create_superuser(VISITOR, password=VISITOR)
    orders = write_orders(count)
    with processes.runtime(scene) as runtime, processes.worker(scene) as worker:
        runtime.start()
        processes.wait_until_open(runtime, scene.port)
        worker.start()
        say(f"Placing {count} orders; {kills} times kill -9, {MISHAPS} tasks come twice, {MISHAPS} answers get lost")
        _perform(scene, orders, worker, kills)
        if keep:
            _wait_for_ctrl_c(scene, runtime, worker)
    say(guide(scene))
    return 0


def _perform(scene: Scene, orders: Sequence[ExpectedOrder], worker: Child, kills: int) -> None:
    steps = sum(each.end.steps for each in orders)
    progress = Progress(steps)
    killer = Killer(worker, progress, steps=steps, kills=kills)
    began_at = time.monotonic()
    _place(orders, killer)
    _watch(killer, steps)
    progress.end()
    if killer.kills:
        say("  waiting for what killed workers held (up to 15 s)")
    _settle(orders)
    books = Books(scene, orders)
    seconds = f"{time.monotonic() - began_at:.0f} s"
    say("\n" + table([("Worker killed with kill -9", killer.kills), *books.rows(), ("Time", seconds)]) + "\n")
    say(READING)
    _judge(books.problems(), worker)


def _place(orders: Sequence[ExpectedOrder], killer: Killer) -> None:
    client = Client()
    for each in orders:
        client.start(WORKFLOW, each.order.workflow_input(each.card), execution_id=each.order.execution_id)
        killer.tick()


def _watch(killer: Killer, steps: int) -> None:
    done, moved_at = 0, time.monotonic()
    while done < steps and time.monotonic() - moved_at < STALL_SECONDS:
        before, done = done, killer.tick()
        moved_at = time.monotonic() if done != before else moved_at
        pause(TICK_SECONDS)


def _settle(orders: Sequence[ExpectedOrder]) -> None:
    """Wait until the runtime has every result; what is open after that is for the books to tell."""
    client = Client()
    deadline = time.monotonic() + ENDING_SECONDS
    for each in orders:
        while client.get(each.order.execution_id)["status"] == "RUNNING" and time.monotonic() < deadline:
            pause(TICK_SECONDS)
    while OutboxMessage.objects.filter(status="pending").exists() and time.monotonic() < deadline:
        pause(TICK_SECONDS)


def _judge(problems: Sequence[str], worker: Child) -> None:
    if not problems:
        say("Every order ended as it must, and every effect happened exactly once.\n")
        return
    shown = "\n".join(f"  - {problem}" for problem in problems[:SHOWN])
    more = f"\n  ... and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
    raise DemoError(f"{len(problems)} things are wrong:\n{shown}{more}\n  The worker's last lines:\n{worker.tail()}")


def _wait_for_ctrl_c(scene: Scene, runtime: Child, worker: Child) -> None:
    say(guide_running(scene))
    try:
        while True:
            runtime.check()
            worker.check()
            pause(1)
    except KeyboardInterrupt:
        say("\nStopping.")
