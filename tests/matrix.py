"""Run the suite under every Python with every line of Django that the package is for: `make matrix`.

Each combination has a virtual environment of its own, below .venv-matrix, made from the pinned requirement files.
Arguments after those of this program are pytest's. The last lines say what became of each combination.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CHECKS = (["check", "--fail-level", "WARNING"], ["makemigrations", "--check", "--dry-run"])


class Combination(NamedTuple):
    """One Python and one line of Django."""

    python: str
    django: str  # "5.2", which requirements/base.txt pins, or "next", which requirements/django-next.txt does

    @property
    def name(self) -> str:
        return f"{self.python}-django-{self.django}"

    @property
    def folder(self) -> Path:
        return ROOT / ".venv-matrix" / self.name


COMBINATIONS = (
    Combination("3.11", "5.2"),
    Combination("3.12", "5.2"),
    Combination("3.13", "5.2"),
    Combination("3.12", "next"),
    Combination("3.13", "next"),
)


def interpreter(version: str) -> str | None:
    """Return an interpreter of that version: one on the path, else the newest that pyenv has built."""
    name = f"python{version}"
    built = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = sorted(built.glob(f"{version}.*/bin/{name}"), key=lambda path: int(path.parts[-3].split(".")[2]))
    for candidate in (shutil.which(name), *map(str, reversed(found))):
        if candidate and subprocess.run([candidate, "-V"], capture_output=True, check=False).returncode == 0:
            return candidate
    return None


def steps(combination: Combination, python: str, arguments: list[str]) -> list[list[str]]:
    """Return what is run, in this order, as long as all goes well."""
    own = str(combination.folder / "bin" / "python")
    setup = ["make", "--no-print-directory", "setup", f"VENV={combination.folder.relative_to(ROOT)}"]
    return [
        [*setup, f"PYTHON={python}", f"DJANGO={combination.django}"],
        *([own, "-W", "error", "manage.py", *check] for check in CHECKS),
        [own, "tests/run.py", *arguments],
    ]


def run(combination: Combination, arguments: list[str]) -> str:
    """Run one combination and return what became of it; "passed" is the only good word."""
    python = interpreter(combination.python)
    if python is None:
        return f"not run: there is no Python {combination.python} on the path or under pyenv"
    for step in steps(combination, python, arguments):
        print(f"\n===== {combination.name}: {' '.join(step)}", flush=True)
        if code := subprocess.run(step, cwd=ROOT, check=False).returncode:
            return f"failed: exit code {code} of {' '.join(step[:4])}"
    return "passed"


def main(given: list[str]) -> int:
    """Run what is asked for and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="NAME", choices=[each.name for each in COMBINATIONS])
    options, arguments = parser.parse_known_args(given)
    told = {}
    for combination in COMBINATIONS:
        if options.only is None or combination.name in options.only:
            began = time.monotonic()
            outcome = run(combination, arguments)
            told[combination.name] = f"{outcome}, {(time.monotonic() - began) / 60:.1f} min"
    print("", *(f"{name}: {outcome}" for name, outcome in told.items()), sep="\n")
    return 0 if all(outcome.startswith("passed") for outcome in told.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
