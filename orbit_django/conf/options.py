"""How a worker is to be run: the options of its command that are no settings, read like these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orbit_django.conf.readers import OPTIONS
from orbit_django.exceptions import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What one start of the command is asked for."""

    processes: int | None = None  # worker processes under a supervisor; None: this process is the worker
    max_tasks: int | None = None  # that a process receives before it ends; None: as many as come
    burst: bool = False  # whether to end when nothing is left to do
    reload: bool = False  # whether a changed file starts the worker afresh
    health: tuple[str, int] | None = None  # host and port of the probes; None: there are none
    lifeline: int | None = None  # file descriptor of the socket to a supervisor, in a process that it started


def read_options(given: Mapping[str, Any]) -> RunOptions:
    """Return the options in force; None and the empty text count as unset.

    Raises ConfigurationError for the first one that makes no sense, naming option and value.
    """
    found: dict[str, Any] = {}
    for name, read in OPTIONS.items():
        value = given.get(name)
        if value is None or value == "":
            continue
        try:
            found[name] = read(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise ConfigurationError(f"--{name.replace('_', '-')}: {error}") from None
    how = RunOptions(**found)
    if how.reload and ((how.processes or 1) > 1 or how.burst):
        other = "--burst" if how.burst else f"--processes {how.processes}"
        raise ConfigurationError(f"--reload: cannot be combined with {other}")
    return how
