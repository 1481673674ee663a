"""A worker to be watched, its runtime, and the observer between the two."""

import io
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings as project

from orbit_django import conf, task
from orbit_django.contracts import read
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.logs import ExtrasFormatter
from orbit_django.management.commands.orbit_worker import Command
from orbit_django.tasks import registry
from orbit_django.worker.binding import open_transport
from orbit_django.worker.worker import Worker
from tests.conformance.grpc_face import GrpcFace
from tests.conformance.http_face import HttpFace
from tests.conformance.observer import Observer
from tests.processes import NOTES, Watched, WorkerProcess, wait_for
from tests.worker.staging import HURRY, WORKFLOWS

FACES = {"http": HttpFace, "grpc": GrpcFace}
PAY = """
task "shop.pay" { version "1.0.0" input { seconds: Float } output { paid: String } }
"""
FLOW = """
workflow %s {
  version "1.0.0"
  input { seconds: Float }
  output { paid: String }
  step only { worker "shop.pay" with { seconds: input.seconds } %s }
  return { paid: only.paid }
}
"""
SHOP = (
    PAY
    + FLOW % ("Pay", "")
    + FLOW % ("PayAgain", "retry { attempts: 3, backoff: fixed, initial_delay: 100ms }")
    + FLOW % ("PayInTime", "timeout 1s retry { attempts: 2, backoff: fixed, initial_delay: 60s }")
)
CATALOG = read(SHOP + WORKFLOWS + HURRY)
LINGERING = (
    "orbit-loop",
    "orbit-heartbeat",
    "orbit-relay",
    "orbit-filing",
    "orbit-parked",
)  # the others sleep until they end
SETTINGS: dict[str, Any] = {"worker_id": "watched-1", "concurrency": 2, "poll_wait_ms": 300}


class InsideWorker:
    """A worker in this process: the real thing with all its threads, but for the signals."""

    def __init__(self, settings: conf.OrbitSettings, log: Callable[[], str]) -> None:
        self._worker = Worker(settings, registry.select(), open_transport(settings))
        self._code: int | None = None
        self._thread = threading.Thread(target=self._run, name="watched-worker")
        self._thread.start()
        self.log = log

    def _run(self) -> None:
        self._code = self._worker.run()

    def ask_to_end(self) -> None:
        """Do what a signal does."""
        self._worker.stop()

    def exit_code(self, seconds: float = 15) -> int:
        """Return the exit code, which must come within the time."""
        self._thread.join(seconds)
        assert self._code is not None, f"the worker did not end within {seconds} s"
        return self._code

    def end(self) -> int:
        """Ask for the end and wait for it."""
        self.ask_to_end()
        return self.exit_code()

    def kill(self) -> None:
        """Leave nothing behind, in haste."""
        self._worker.stop()
        self._worker.stop()
        self._thread.join(15)


class Scene(Observer, Watched):
    """Everything that a check needs; it is the observer as well."""

    def __init__(self, binding: str, folder: Path, environment: dict[str, str], records: Any) -> None:
        super().__init__()
        self.binding = binding
        self.face = FACES[binding](self)
        self.face.runtime = lambda: self.runtime
        self.folder = folder
        self.workers: list[Any] = []
        self._environment = environment
        self._records = records
        self._runtime: EmbeddedRuntime | None = None
        self._notes = folder / "notes"
        self._notes.touch()

    @staticmethod
    def face_of(binding: str) -> HttpFace | GrpcFace:
        """Return another port, behind which there is no runtime."""
        return FACES[binding](Observer())

    @property
    def runtime(self) -> EmbeddedRuntime:
        """The runtime behind the observer; an open one with a session timeout of 3 s unless ``serve`` was called."""
        return self._runtime or self.serve()

    def serve(self, **options: Any) -> EmbeddedRuntime:
        """Start a runtime with these options."""
        usual = {"session_timeout_ms": 3_000, "grpc_port": 0 if self.binding == "grpc" else None}
        self._runtime = EmbeddedRuntime(CATALOG, **usual | options).start()
        return self._runtime

    def handle(
        self, function: Callable[..., Any], name: str = "shop.pay", version: str = "1.0.0", **options: Any
    ) -> None:
        """Declare a handler, as a project does."""
        task(name, version=version, **options)(function)

    def work(self, function: Callable[..., Any] | None = None, **settings: Any) -> InsideWorker:
        """Start a worker in this process; a function given is the handler of ``shop.pay``."""
        if function is not None or not len(registry):
            self.handle(function or (lambda input: {}))
        self.serve() if self._runtime is None else None
        given = {"server": self.face.url, "transport": self.binding} | SETTINGS | settings
        if self.binding == "grpc":
            given.setdefault("grpc_target", urlsplit(given["server"]).netloc)
        worker = InsideWorker(conf.load(**given), self.log)
        self.workers.append(worker)
        return worker

    def process(self, *arguments: str, tasks: str = "test.*", **environment: str) -> WorkerProcess:
        """Start a worker process; it serves the test tasks unless ``tasks`` is another pattern, or empty."""
        self.serve() if self._runtime is None else None
        if self.binding == "grpc":
            environment.setdefault("ORBIT_TEST_GRPC_TARGET", self.face.target)
        surroundings = self._environment | {"ORBIT_SERVER": self.face.url, NOTES: str(self._notes)} | environment
        chosen = ("--task", tasks) if tasks else ()
        log = self.folder / f"worker-{len(self.workers) + 1}.log"
        worker = WorkerProcess((*chosen, "--transport", self.binding, *arguments), surroundings, log)
        self.workers.append(worker)
        return worker

    def command(self, *arguments: str) -> tuple[int, str]:
        """Run the command in this process until it ends by itself; return its exit code and what it said."""
        if not len(registry):
            self.handle(lambda input: {})
        self.serve() if self._runtime is None else None
        said, code = io.StringIO(), 0
        if self.binding == "grpc":
            project.ORBIT = {"GRPC_TARGET": self.face.target} | project.ORBIT
        chosen = ["--server", self.face.url, "--transport", self.binding]
        try:
            Command(stderr=said).run_from_argv(["manage.py", "orbit_worker", *chosen, *arguments])
        except SystemExit as ended:
            code = int(ended.code or 0)
        return code, said.getvalue()

    def project(self, handlers: str = "", **orbit: Any) -> dict[str, str]:
        """Write a project of its own, with these handlers and settings; return the environment that chooses it."""
        package = self.folder / "project"
        (package / "app").mkdir(parents=True)
        (package / "app" / "__init__.py").touch()
        (package / "app" / "tasks_orbit.py").write_text(f"from orbit_django import task\n{handlers}", encoding="utf-8")
        if self.binding == "grpc":
            orbit.setdefault("GRPC_TARGET", self.face.target)
        apps = ["django.contrib.auth", "django.contrib.contenttypes", "orbit_django", "app"]
        settings = f"from tests.settings import *\nINSTALLED_APPS = {apps}\nORBIT = {orbit}\n"
        (package / "project_settings.py").write_text(settings, encoding="utf-8")
        path = os.pathsep.join([str(package), self._environment["PYTHONPATH"]])
        return {"PYTHONPATH": path, "DJANGO_SETTINGS_MODULE": "project_settings"}

    def log(self) -> str:
        """Return what workers in this process have logged, as lines."""
        formatter = ExtrasFormatter("%(levelname)s %(name)s %(message)s")
        return "\n".join(formatter.format(record) for record in list(self._records()))

    def start(self, execution_id: str, workflow: str = "Pay", seconds: float = 0.0) -> None:
        with self.runtime.changing() as runtime:
            runtime.start(workflow, {"seconds": seconds}, execution_id)

    def close(self) -> None:
        """Leave no worker, thread or port behind."""
        for worker in self.workers:
            worker.kill()
        self.face.close()
        if self._runtime is not None:
            self._runtime.stop()
        wait_for(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith(LINGERING)])


def watched_logs(caplog: Any) -> Callable[[], list[logging.LogRecord]]:
    """Have the worker's records written down, and return what reads them."""
    caplog.set_level(logging.INFO, "orbit_django")
    return lambda: [record for record in caplog.records if record.name.startswith("orbit_django")]
