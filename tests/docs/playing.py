"""A page that is followed: its files are written, its commands run, and what they show is what the page shows."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.docs.pages import ROOT, Block
from tests.management.test_orbit_dev import free_port
from tests.processes import wait_for

WAIT_SECONDS = 40


def _heed_ctrl_c() -> None:
    """Have it as on a terminal, also where the tests themselves run in the background, which ignores Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """A program that goes on while the reader types elsewhere."""

    def __init__(self, command: str, folder: Path, environment: Mapping[str, str], log: Path) -> None:
        self._log = log
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a group of its own, as a terminal makes it
                preexec_fn=_heed_ctrl_c,  # noqa: PLW1509  (nothing but a signal is set)
            )

    def said(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def interrupt(self) -> int:
        """Press Ctrl-C; return the exit code."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(WAIT_SECONDS)

    def end(self) -> None:
        """Leave nothing behind."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)


class Reader:
    """Somebody who does what a page says, in an empty folder."""

    def __init__(self, folder: Path, replaced: Mapping[str, str]) -> None:
        self.folder = folder / "project"
        self.folder.mkdir()
        self._logs = folder
        self._replaced = dict(replaced)
        self.terminals: dict[str, Terminal] = {}
        self.done: list[Block] = []
        self._last = lambda: ""
        path = os.pathsep.join([str(self.folder), str(ROOT)])
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith(("ORBIT_", "DJANGO_", "PYTEST"))
        }
        programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        self.environment = clean | {"PYTHONPATH": path, "PATH": programs, "PYTHONUNBUFFERED": "1"}

    def follow(self, block: Block) -> None:
        """Do what a block, or a comment that stands alone, says."""
        ways = {"mark": self._press, "sh": self._type, "text": self._see, "python": self._write}
        ways.get(block.language, self._write)(block)
        self.done.append(block)

    def run(self, command: str, **environment: str) -> str:
        """Run a command in the project and return what it shows; it has to succeed."""
        done = subprocess.run(
            ["bash", "-ec", command],
            cwd=self.folder,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def close(self) -> None:
        for terminal in self.terminals.values():
            terminal.end()

    def _text(self, block: Block) -> str:
        text = block.text
        for old, new in self._replaced.items():
            text = text.replace(old, new)
        return text

    def _write(self, block: Block) -> None:
        assert block.file, f"{block}: no file is named before this block"
        path = self.folder / block.file
        before = path.read_text(encoding="utf-8") if block.mark == "append" else ""
        path.write_text(before + self._text(block), encoding="utf-8")

    def _type(self, block: Block) -> None:
        way, about = block.way
        command = self._text(block)
        if way == "not run":
            return
        if way == "terminal":
            self._open(about, command)
        elif way == "until it is so":
            self._last = lambda: self.run(command)
        elif way == "with a password":
            said = self.run(f"{command.strip()} --noinput", DJANGO_SUPERUSER_PASSWORD="bread-and-butter")
            self._last = lambda: said
        else:
            if way.endswith(" is"):
                command = command.replace(way.removesuffix(" is"), str(self.terminals[about].process.pid))
            assert way.endswith(" is") or not way, f"{block}: unknown comment {block.mark!r}"
            said = self.run(command)
            self._last = lambda: said

    def _open(self, name: str, command: str) -> None:
        if name in self.terminals:
            self.terminals[name].process.wait(10)  # killed before it is started again
        log = self._logs / f"{name}-{len(self.done)}.log"
        self.terminals[name] = terminal = Terminal(command, self.folder, self.environment, log)
        self._last = terminal.said

    def _see(self, block: Block) -> None:
        expected = self._text(block)
        goes_on = any(self._last == terminal.said for terminal in self.terminals.values())
        shows = is_among if goes_on else is_all
        try:
            wait_for(lambda: shows(expected, self._last()), WAIT_SECONDS)
        except AssertionError:
            raise AssertionError(f"{block} shows\n{expected}\nbut this was seen\n{self._last()}") from None

    def _press(self, block: Block) -> None:
        way, names = block.way
        assert way == "ctrl-c", f"{block}: unknown comment {block.mark!r}"
        for name in names.split(", "):
            code = self.terminals[name].interrupt()
            assert code == 0, f"{name} ended with {code}\n{self.terminals[name].said()}"


def is_among(expected: str, seen: str) -> bool:
    """Return whether each expected line is among the lines seen, in this order; `…` stands for anything."""
    lines = iter(_lines(seen))
    return all(any(_fits(pattern, line) for line in lines) for pattern in _lines(expected))


def is_all(expected: str, seen: str) -> bool:
    """Return whether the lines seen are those expected, and no others."""
    patterns, lines = _lines(expected), _lines(seen)
    return len(patterns) == len(lines) and all(map(_fits, patterns, lines))


def _lines(text: str) -> list[str]:
    return [line for line in (" ".join(each.split()) for each in text.splitlines()) if line]


def _fits(pattern: str, line: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("…"))), line) is not None


def ports(*usual: int) -> dict[str, str]:
    """Return what to write in the place of ports that somebody else may use."""
    return {str(port): str(free_port()) for port in usual}


def inside(reader: Reader, program: str) -> Any:
    """Run a program in the project's Django and return what it prints."""
    return reader.run(
        f"python - <<'END'\nimport django\ndjango.setup()\n{program}\nEND", DJANGO_SETTINGS_MODULE="bakery.settings"
    )
