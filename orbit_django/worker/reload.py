"""Development: a supervisor of one worker process that starts it afresh when a file of the project changes.

The files are watched here and never in the process that uses them, so that no change is missed while one process ends
and the next one starts, nor while a broken edit lets none start at all.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from django.apps import apps
from django.utils import autoreload

from orbit_django.clock import Clock
from orbit_django.logs import SteadyLogger
from orbit_django.worker.child import Child, Program
from orbit_django.worker.interpreter import is_installed
from orbit_django.worker.processes import KILL_SECONDS, Supervisor
from orbit_django.worker.runner import LoopThread

logger = SteadyLogger(logging.getLogger(__name__))

LOOK_SECONDS = 0.5
HANDLER_SECONDS = 2.0  # what running handlers get when a file has changed


class Watch:
    """The loop that looks for changed files, as Django's reloader finds them; its step is one look."""

    name = "watch"

    def __init__(self, on_change: Callable[[Path], object]) -> None:
        self._on_change = on_change
        self._reloader = autoreload.StatReloader()
        self._seen: dict[Path, float] = {}  # when each file was changed, in seconds since the epoch
        self._newest = 0.0  # of the files that were there at the first look
        self.is_unchanged = True
        for config in apps.get_app_configs():
            if not is_installed(config.path):
                self._reloader.watch_dir(Path(config.path), "**/*.py")
        autoreload.autoreload_started.send(sender=self._reloader)  # for those who have more to be watched

    def add(self, files: frozenset[Path]) -> None:
        """Watch these files as well, which only the worker's process has imported."""
        if not files <= self._reloader.extra_files:
            self._reloader.extra_files = self._reloader.extra_files | files  # another thread may be reading the old set

    def step(self) -> float:
        """Look at each file; return the seconds until the next look."""
        is_first = not self._seen
        for file, changed_at in self._reloader.snapshot_files():
            before = self._seen.get(file)
            self._seen[file] = changed_at
            is_new = before is None and not is_first and file.suffix == ".py" and changed_at > self._newest
            is_new = is_new and not is_installed(file)  # what a handler imports late was not written just now
            if is_new or before not in (None, changed_at):
                autoreload.file_changed.send_robust(sender=self._reloader, file_path=file)
                self.is_unchanged = False
                self._on_change(file)
        if is_first:
            self._newest = max(self._seen.values(), default=0.0)
        return LOOK_SECONDS


class Reloader(Supervisor):
    """Keeps one worker process running on the newest code."""

    def __init__(self, program: Program, clock: Clock | None = None) -> None:
        super().__init__(program, 1, clock=clock)
        self._changed = threading.Event()
        self._watch = Watch(self._note)
        self._asked = 0  # how often the process of the old code was told to end
        self._next_at = 0.0  # when it is told again

    def run(self) -> int:
        """Supervise until stopped; return the exit code of the whole."""
        self._watch.step()  # before the first process reads any of the files
        end = threading.Event()
        LoopThread(self._watch, end).start()
        try:
            return super().run()
        finally:
            end.set()

    def step(self) -> None:
        """Look once, at the files as well."""
        (child,) = self._children
        self._watch.add(child.files)
        if self._changed.is_set() and not self.is_stopping:
            self._reload(child)
        super().step()

    def _note(self, file: Path) -> None:
        logger.info("a file has changed; the worker is started again", extra={"file": str(file)})
        self._changed.set()

    def _reload(self, child: Child) -> None:
        """Have the process end: in order while handlers have time, then at once, then by force."""
        now = self._clock.monotonic()
        if not child.is_running:
            child.restart_in(0)
        elif not self._asked or now >= self._next_at:
            self._asked += 1
            self._next_at = now + (HANDLER_SECONDS if self._asked == 1 else KILL_SECONDS)
            child.order() if self._asked < 3 else child.kill()

    def _is_needed(self) -> bool:
        return not self.is_stopping or super()._is_needed()

    def _start(self, child: Child) -> None:
        self._changed.clear()  # this process reads everything that has changed so far
        super()._start(child)

    def _ended(self, child: Child, code: int) -> None:
        """Start the next one when this was asked to end, and wait for a change when it could not work."""
        was_asked, self._asked = self._asked > 0, 0
        is_broken = not child.has_reported or child.mistake is not None
        is_first = self._watch.is_unchanged and child.mistake is not None
        if self.is_stopping or is_first:
            super()._ended(child, code)
        elif was_asked:
            child.restart_in(0)
        elif is_broken:
            about = {"exit_code": code} if child.mistake is None else {"error": child.mistake}
            logger.error("the worker cannot work like this; it is started again after the next change", extra=about)
        else:
            super()._ended(child, code)
