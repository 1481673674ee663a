"""Where the worker's CPU goes: py-spy looks at the product under load, and each sample is charged to a layer.

Only the thread that holds the interpreter lock is looked at, so waiting costs nothing here; the time inside system
calls is a line of its own, as the kernel accounts for it. A sample belongs to the layer of the innermost frame that
has one; what a library calls in the standard library is the library's.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks import databases, lab, results
from benchmarks.cases import Case, Load, Shape, Stage
from benchmarks.control import ROOT
from benchmarks.processes import pause

LAYERS = (  # what a frame's file contains, and the layer that it is charged to; the first that fits
    ("json/", "json"),
    ("orbit_django/payloads", "json: our encoding, digests"),
    ("orbit_django/protocol", "json: our encoding, digests"),
    ("urllib3/", "HTTP client"),
    ("requests/", "HTTP client"),
    ("http/", "HTTP client"),
    ("email/", "HTTP client"),
    ("orbit_django/transports/", "our transports"),
    ("psycopg", "driver of the database"),
    ("MySQLdb", "driver of the database"),
    ("/django/db/backends/", "Django: backends, transactions"),
    ("/django/db/transaction", "Django: backends, transactions"),
    ("/django/db/", "Django: models, queries"),
    ("/django/", "Django: other"),
    ("benchmarks/work", "the handler itself"),
    ("logging/", "logging"),
    ("orbit_django/logs", "logging"),
    ("orbit_django/dialects/", "our ledger: records, outbox, dialects"),
    ("orbit_django/idempotency", "our ledger: records, outbox, dialects"),
    ("orbit_django/outbox", "our ledger: records, outbox, dialects"),
    ("orbit_django/worker/", "our worker"),
    ("orbit_django/", "our other rooms"),
)
LOOK = ("--gil", "--nonblocking", "--format", "raw")  # a pause would wake every thread that waits
RATE = 250  # looks per second


def arguments(parser: ArgumentParser) -> None:
    """Declare the options."""
    lab.names_option(parser, "product")
    parser.add_argument("--shape", default="1x4", help="threads of the one process, as 1x4 (%(default)s)")
    parser.add_argument("--top", type=int, default=25, help="functions that are listed (%(default)s)")


def run(options: Namespace) -> None:
    """Look at each case for a while, show where its CPU went, keep the stacks."""
    shape = Shape.read(options.shape)
    seconds = max(options.seconds, 8.0)
    with lab.opened(options, options.cases) as room:
        found = {case.name: _one(case, room.stages[case.name], shape, seconds) for case in room.cases}
        text = "\n\n".join(_text(name, profile, options.top) for name, profile in found.items())
        title = f"CPU of one worker process, {shape}, {seconds:g} s"
        lab.close(options, room, "profile", {name: _kept(profile) for name, profile in found.items()}, title, text)


def _one(case: Case, stage: Stage, shape: Shape, seconds: float) -> dict[str, Any]:
    spy = Path(sys.executable).with_name("py-spy")
    if not spy.exists():
        raise SystemExit("py-spy is not installed: see requirements/bench.txt")
    case.begin(stage, Load())
    with lab.worker(case, stage, Shape(1, shape.threads)) as processes:
        lab.finish(stage.runtime, 50)
        pause(0.5)
        path = databases.scratch() / f"{case.label}.stacks"
        command = [
            spy,
            "record",
            "--gil",
            "--nonblocking",
            "--format",
            "raw",
            "--rate",
            str(RATE),
            "--duration",
            str(int(seconds)),
        ]
        pid = processes.pids[0]
        began, used = stage.runtime.state(), databases.cpu_split(pid)
        subprocess.run([*command, "--output", path, "--pid", str(pid)], check=True, capture_output=True)
        ended, now_used = stage.runtime.state(), databases.cpu_split(pid)
    results.FOLDER.mkdir(exist_ok=True)
    kept = results.FOLDER / f"{case.label}.stacks"
    shutil.copy(path, kept)
    count = ended["completed"] - began["completed"]
    user, system = ((now - before) * 1000 / count for now, before in zip(now_used, used, strict=True))
    return {"stacks": _read(path), "cpu_ms": user, "system_ms": system, "count": count, "kept": kept}


def _read(path: Path) -> Counter[tuple[str, ...]]:
    stacks: Counter[tuple[str, ...]] = Counter()
    for line in path.read_text().splitlines():
        frames, _, count = line.rpartition(" ")
        stacks[tuple(frames.split(";"))] += int(count)
    return stacks


def layer_of(stack: tuple[str, ...]) -> str:
    """Return the layer that a stack is charged to."""
    for frame in reversed(stack):
        place = f"/{frame.partition(' (')[2]}"
        for part, layer in LAYERS:
            if part in place:
                return layer
    return "other"


def _layers(profile: dict[str, Any]) -> list[tuple[str, float, float]]:
    """Return share and milliseconds per task of each layer, the largest first."""
    layers: Counter[str] = Counter()
    for stack, count in profile["stacks"].items():
        layers[layer_of(stack)] += count
    all_ms = profile["cpu_ms"] + profile["system_ms"]
    found = {name: profile["cpu_ms"] * count / layers.total() for name, count in layers.items()}
    found["system calls (network)"] = profile["system_ms"]
    return [(name, 100 * ms / all_ms, ms) for name, ms in sorted(found.items(), key=lambda item: -item[1])]


def _functions(profile: dict[str, Any]) -> list[tuple[str, float]]:
    """Return the milliseconds per task that pass in each function and what it calls, the largest first."""
    functions: Counter[str] = Counter()
    for stack, count in profile["stacks"].items():
        for frame in {_name(frame) for frame in stack}:
            functions[frame] += count
    total = profile["stacks"].total()
    return [(name, profile["cpu_ms"] * count / total) for name, count in functions.most_common()]


def _name(frame: str) -> str:
    """Return a frame without its line: the function, and its file from the package on."""
    function, _, place = frame.partition(" (")
    file = place.rstrip(")").rpartition(":")[0] or place.rstrip(")")
    return f"{function} ({file.rpartition('site-packages/')[2].removeprefix(f'{ROOT}/')})"


def _text(name: str, profile: dict[str, Any], top: int) -> str:
    layers = results.table((f"{name}: layer", "% of CPU", "ms per task"), _layers(profile))
    ours = [row for row in _functions(profile) if "threading.py" not in row[0]]
    functions = results.table(("function, with what it calls, system calls left out", "ms per task"), ours[:top])
    where = profile["kept"].relative_to(ROOT)
    total = profile["cpu_ms"] + profile["system_ms"]
    head = f"{profile['count']:,} tasks, {total:.2f} ms of CPU each while watched; stacks in {where}"
    return f"{head}\n\n{layers}\n\n{functions}"


def _kept(profile: dict[str, Any]) -> dict[str, Any]:
    return {
        "cpu_ms": profile["cpu_ms"] + profile["system_ms"],
        "layers": _layers(profile),
        "functions": _functions(profile)[:100],
    }
