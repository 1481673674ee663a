"""How grave a mistake is, which depends on who asks."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from django.core import checks


def level_of_mistakes(databases: Sequence[str] | None) -> int:
    """Return how grave a mistake is that keeps a worker from its work: not for ``migrate``, which errors would stop.

    A check that is given databases may be that of ``migrate``, and since Django 6.1 may be any: the command line tells.
    """
    is_migrate = databases is not None and sys.argv[1:2] == ["migrate"]
    return checks.WARNING if is_migrate else checks.ERROR
