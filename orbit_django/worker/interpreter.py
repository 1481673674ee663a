"""How this program is started once more: in a fresh interpreter, never by fork, which threads bear badly."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import autoreload

from orbit_django.exceptions import ConfigurationError

STDLIB = Path(sysconfig.get_path("stdlib")).resolve()


def is_program(argv: Sequence[str]) -> bool:
    """Return whether these are the arguments that this very process was started with, by whoever calls the command.

    Called from a test or from another program, a command's arguments are not those of the process, nor is the
    process the command's to end.
    """
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    return bool(main) and list(argv) == sys.argv and Path(sys.argv[0]).resolve() == Path(str(main)).resolve()


def same_program() -> list[str]:
    """Return the command line of this process, as Django's autoreloader would repeat it."""
    return [str(part) for part in autoreload.get_child_arguments()]


def command(name: str, options: Mapping[str, Any]) -> list[str]:
    """Return a command line that runs a management command with these options, None and False left out.

    Raises ConfigurationError when no other process could find the settings.
    """
    if not getattr(settings, "SETTINGS_MODULE", None):
        raise ConfigurationError("other processes cannot find these settings: name them in DJANGO_SETTINGS_MODULE")
    line = [sys.executable, *(f"-W{option}" for option in sys.warnoptions), "-m", "django", name]
    for option, value in options.items():
        flag = f"--{option.replace('_', '-')}"
        if value is True:
            line.append(flag)
        elif isinstance(value, list | tuple):
            line.extend([flag, *map(str, value)] if value else [])
        elif value is not None and value is not False:
            line.append(f"{flag}={value}")
    return line


def is_installed(path: str | Path) -> bool:
    """Return whether a file or a folder belongs to Python or to an installed package, not to the project."""
    whole = Path(path)
    return bool({"site-packages", "dist-packages"} & set(whole.parts)) or whole.is_relative_to(STDLIB)


def module_files() -> frozenset[Path]:
    """Return the files of the project's modules that this process has loaded."""
    return frozenset(path for path in autoreload.iter_all_python_module_files() if not is_installed(path))


def surroundings() -> dict[str, str]:
    """Return the environment in which another process finds this one's settings and modules."""
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    return os.environ | {"DJANGO_SETTINGS_MODULE": str(settings.SETTINGS_MODULE), "PYTHONPATH": path}
