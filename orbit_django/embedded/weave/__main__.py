"""``python -m orbit_django.embedded.weave``: the Weave server alone, until it is stopped."""

from __future__ import annotations

import sys

from orbit_django.embedded.weave.entry import parser, serve
from orbit_django.exceptions import ConfigurationError


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Serve, and return the exit code."""
    options = vars(parser("python -m orbit_django.embedded.weave").parse_args())
    try:
        serve(options, _say)
    except ConfigurationError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
