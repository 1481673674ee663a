"""Build the sdist and, from it, the wheel, and look inside: everything that runs is in both, nothing else is."""

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from packaging.metadata import Metadata

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "orbit_django"
BESIDE = ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md")
NOT_SHIPPED = {"__pycache__"}
MADE = re.compile(r"PKG-INFO|setup\.cfg|orbit_django\.egg-info/.+")  # what building adds to an sdist
PLUGIN = "[pytest11]\norbit_django.testing.plugin = orbit_django.testing.plugin"


def build(folder: Path) -> tuple[set[str], dict[str, str]]:
    """Build both with the installed tools, without the network; return the sdist's names and the wheel's texts.

    They are built from a copy: what an earlier build left in the checkout would find its way into them. Texts that
    are none are empty.
    """
    source = folder / "source"
    leave = shutil.ignore_patterns(*NOT_SHIPPED)
    for name in (PACKAGE.name, "tests", "docs"):
        shutil.copytree(ROOT / name, source / name, ignore=leave)
    for name in BESIDE:
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(source)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"the package cannot be built:\n{result.stdout}\n{result.stderr}")
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    with tarfile.open(sdist) as archive:
        inside = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    with zipfile.ZipFile(wheel) as archive:
        return inside, {name: archive.read(name).decode(errors="replace") for name in archive.namelist()}


def files_of(folder: Path) -> set[str]:
    """Return every file of a folder of the checkout that is shipped."""
    files = (path for path in folder.rglob("*") if path.is_file() and not NOT_SHIPPED & set(path.parts))
    return {path.relative_to(ROOT).as_posix() for path in files}


def compare(what: str, found: set[str], wanted: set[str]) -> Iterator[str]:
    """Say what is missing and what has no place there."""
    yield from (f"the {what} lacks {name}" for name in sorted(wanted - found))
    yield from (f"{name} has no place in the {what}" for name in sorted(found - wanted))


def look_at_wheel(texts: dict[str, str]) -> Iterator[str]:
    """Say what is wrong with the files of the wheel."""
    files = {name for name in texts if ".dist-info/" not in name}
    yield from compare("wheel", files, files_of(PACKAGE))
    for name in ("orbit_django/py.typed", "orbit_django/migrations/0001_initial.py"):
        if name not in files:
            yield f"the wheel lacks {name}"
    entries = next((text for name, text in texts.items() if name.endswith(".dist-info/entry_points.txt")), "")
    if PLUGIN not in entries:
        yield f"the wheel has no entry point of pytest: {entries!r}"
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in texts):
        yield "the wheel lacks the licence"


def look_at_metadata(text: str, project: dict[str, Any]) -> Iterator[str]:
    """Say what is wrong with the metadata, which an index would refuse or show badly."""
    told = Metadata.from_email(text, validate=True)
    extras = set(project["optional-dependencies"])
    if set(told.provides_extra or ()) != extras:
        yield f"the extras are {told.provides_extra}, expected {sorted(extras)}"
    if told.classifiers != project["classifiers"]:
        yield f"the classifiers are {told.classifiers}"
    if told.description_content_type != "text/markdown":
        yield f"the description is {told.description_content_type}, expected Markdown"
    if "<h1>orbit_django</h1>" not in MarkdownIt("commonmark").enable("table").render(told.description or ""):
        yield "the description does not render with the title of the README"


def complaints(inside: set[str], texts: dict[str, str]) -> list[str]:
    """Say what is wrong with both."""
    wanted = files_of(PACKAGE) | files_of(ROOT / "docs") | set(BESIDE)
    (metadata,) = (text for name, text in texts.items() if name.endswith(".dist-info/METADATA"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [
        *compare("sdist", {name for name in inside if not MADE.fullmatch(name)}, wanted),
        *look_at_wheel(texts),
        *look_at_metadata(metadata, project),
    ]


def main() -> int:
    """Check both and return the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        inside, texts = build(Path(folder))
    lines = complaints(inside, texts)
    print(*(lines or [f"sdist and wheel are complete: {len(inside)} and {len(texts)} files"]), sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
