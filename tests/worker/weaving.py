"""A whole worker in a thread, the Weave server that it serves, and two handlers."""

import threading
import time
from collections.abc import Callable
from typing import Any

from orbit_django.conf import OrbitSettings
from orbit_django.conf.options import RunOptions
from orbit_django.context import TaskContext
from orbit_django.protocol import Contract
from orbit_django.tasks import Task
from orbit_django.worker.binding import open_transport
from orbit_django.worker.worker import Worker
from tests.testapp.models import Charge
from tests.transports.weave.scene import MAIL, Scene, capability

HOLD = "mail.hold@1.0.0"


class World:
    """The server, the handlers, and one worker in a thread."""

    def __init__(self, **options: Any) -> None:
        self.scene = Scene(capability(), capability(HOLD), opt_in=(MAIL,), **options)
        self.runs: list[TaskContext] = []
        self.go_on = threading.Event()
        self.script: list[Callable[[TaskContext], Any]] = []
        self.worker: Worker | None = None
        self._thread: threading.Thread | None = None
        self.code: int | None = None

    def tasks(self) -> list[Task]:
        return [
            Task(Contract("mail.send", "1.0.0"), self.send),
            Task(Contract("mail.hold", "1.0.0"), self.hold, is_atomic=False),
        ]

    def send(self, input: Any, ctx: TaskContext) -> dict[str, Any]:
        self.runs.append(ctx)
        Charge.objects.create(key=ctx.idempotency_key, amount=1, attempt=ctx.attempt)
        if self.script:
            self.script.pop(0)(ctx)
        return {"attempt": ctx.attempt}

    def hold(self, input: Any, ctx: TaskContext) -> dict[str, Any]:
        self.runs.append(ctx)
        while not self.go_on.is_set() and ctx.sleep(0.05):
            pass
        ctx.raise_if_cancelled()
        return {"held": True}

    def settings(self, **more: Any) -> OrbitSettings:
        usual: dict[str, Any] = {"worker_id": "shop-1", "concurrency": 3, "weave": self.scene.settings()}
        return OrbitSettings(transport="weave", **(usual | more))

    def run(self, **more: Any) -> int:
        """Work until nothing is left."""
        return self.made(burst=True, **more).run()

    def made(self, *, burst: bool = False, **more: Any) -> Worker:
        settings = self.settings(**more)
        self.worker = Worker(settings, self.tasks(), open_transport(settings), how=RunOptions(burst=burst))
        return self.worker

    def start(self, **more: Any) -> Worker:
        worker = self.made(**more)

        def run() -> None:
            self.code = worker.run()

        self._thread = threading.Thread(target=run)
        self._thread.start()
        return worker

    def stop(self) -> None:
        self.go_on.set()
        if self._thread is not None and self.worker is not None:
            self.worker.stop()
            self.join()

    def join(self) -> None:
        assert self._thread is not None
        self._thread.join(30)
        assert not self._thread.is_alive()
        self._thread = None

    def task(self, task_id: str) -> Any:
        return self.scene.call("task", task_id=task_id)


def wait_for(condition: Callable[[], Any], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "in time"
        time.sleep(0.02)  # noqa: TID251  (between two looks at another thread)
