"""Build the wheel and look inside: everything that runs is in it, nothing else is."""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "orbit_django"
NEEDED = ("pyproject.toml", "README.md", "LICENSE")
NOT_SHIPPED = {"__pycache__"}


def build(folder: str) -> list[str]:
    """Build the wheel with the installed tools, without the network, and return the names inside.

    It is built from a copy: what an earlier build left in the checkout would find its way into the wheel.
    """
    copy = Path(folder) / "source"
    shutil.copytree(PACKAGE, copy / PACKAGE.name, ignore=shutil.ignore_patterns(*NOT_SHIPPED))
    shutil.copytree(ROOT / "tests", copy / "tests", ignore=shutil.ignore_patterns(*NOT_SHIPPED))
    for name in NEEDED:
        shutil.copy(ROOT / name, copy)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, str(copy)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"the wheel cannot be built:\n{result.stdout}\n{result.stderr}")
    (wheel,) = Path(folder).glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def expected() -> set[str]:
    """Return every file of the package, as the wheel should name it."""
    files = (path for path in PACKAGE.rglob("*") if path.is_file() and not NOT_SHIPPED & set(path.parts))
    return {path.relative_to(ROOT).as_posix() for path in files}


def complaints(names: list[str]) -> list[str]:
    """Say what is missing from the wheel and what has no place in it."""
    files = {name for name in names if ".dist-info/" not in name}
    lines = [f"missing: {name}" for name in sorted(expected() - files)]
    lines += [f"has no place in the wheel: {name}" for name in sorted(files - expected())]
    lines += [f"missing: {name}" for name in ("orbit_django/py.typed",) if name not in files]
    if not any(name.startswith("orbit_django/migrations/0") for name in files):
        lines.append("missing: the migrations")
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in names):
        lines.append("missing: the licence")
    return lines


def main() -> int:
    """Check the wheel and return the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        names = build(folder)
    lines = complaints(names)
    print(*(lines or [f"the wheel is complete: {len(names)} files"]), sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
