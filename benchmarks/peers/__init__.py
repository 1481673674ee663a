"""Other packages that run tasks in the background, each set up as its documentation advises for durable results."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Peer:
    """How one package is started and how its finished tasks are counted."""

    name: str
    module: str  # its tasks, below this package; its settings are beside it
    imports: tuple[str, ...]
    packages: tuple[str, ...]  # whose versions are shown
    table: str
    is_done: str
    command: tuple[str, ...]  # of one process, after the interpreter; {threads}, {processes}, {number} are filled in
    has_threads: bool = True
    starts_processes: bool = False  # one command starts them all
    databases: tuple[str, ...] = field(default=("postgres", "mariadb", "sqlite"))

    @property
    def tasks(self) -> str:
        """The dotted path of its tasks."""
        return f"benchmarks.peers.{self.module}_tasks"

    @property
    def settings(self) -> str:
        """The dotted path of its settings."""
        return f"benchmarks.peers.{self.module}_settings"

    def trouble(self, database: str) -> str:
        """Return why it cannot be measured here, or an empty text."""
        missing = [name for name in self.imports if importlib.util.find_spec(name) is None]
        if missing:
            return f"{', '.join(missing)} is not installed"
        return "" if database in self.databases else f"it does not work on {database}"

    def version(self) -> str:
        """Return its packages with their versions."""
        return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in self.packages)

    def commands(self, processes: int, threads: int) -> list[list[str]]:
        """Return the commands that make so many processes of so many threads, or as many processes in all."""
        count = 1 if self.starts_processes else processes if self.has_threads else processes * threads
        return [
            [part.format(threads=threads, processes=processes, number=number) for part in self.command]
            for number in range(1, count + 1)
        ]


PEERS = (
    Peer(
        name="celery",
        module="celery",
        imports=("celery", "django_celery_results", "redis"),
        packages=("celery", "django-celery-results"),
        table="django_celery_results_taskresult",
        is_done="status = 'SUCCESS'",
        command=(
            *("-m", "celery", "-A", "benchmarks.peers.celery_tasks", "worker", "--pool", "prefork"),
            *("--concurrency", "{threads}", "--loglevel", "WARNING", "-n", "w{number}@bench"),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
        ),
    ),
    Peer(
        name="procrastinate",
        module="procrastinate",
        imports=("procrastinate",),
        packages=("procrastinate",),
        table="procrastinate_jobs",
        is_done="status = 'succeeded'",
        command=("-m", "django", "procrastinate", "worker", "--concurrency", "{threads}"),
        databases=("postgres",),
    ),
    Peer(
        name="dramatiq",
        module="dramatiq",
        imports=("dramatiq", "django_dramatiq", "redis"),
        packages=("dramatiq", "django-dramatiq"),
        table="django_dramatiq_task",
        is_done="status = 'done'",
        command=(
            *("-m", "dramatiq", "benchmarks.peers.dramatiq_tasks"),
            *("--processes", "{processes}", "--threads", "{threads}"),
        ),
        starts_processes=True,
    ),
    Peer(
        name="django-tasks-db",
        module="tasksdb",
        imports=("django_tasks_db",),
        packages=("django-tasks-db",),
        table="django_tasks_database_dbtaskresult",
        is_done="status = 'SUCCESSFUL'",
        command=("-m", "django", "db_worker", "--no-startup-delay", "--no-reload", "--verbosity", "0"),
        has_threads=False,
    ),
)
