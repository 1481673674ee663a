"""The demo's command line: ``python -m example_project.demo [--orders 300] [--kills 6] [--keep]``."""

import argparse
import os
import signal
import sys
from pathlib import Path

import django

from example_project.demo import DemoError
from example_project.demo.scene import PROJECT, Scene


def main() -> int:
    """Play the demo; return 0 only when every order ended as it must."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the children are ended then, too
    try:
        scene = Scene.build(options.folder)
        os.environ.update(scene.environment)
        django.setup()
        from example_project.demo.story import play  # the models need the settings above

        return play(scene, count=options.orders, kills=options.kills, keep=options.keep)
    except DemoError as error:
        print(f"\nThe demo failed: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        return 130
    return 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m example_project.demo", description="Orders under kill -9.")
    parser.add_argument("--orders", type=_whole, default=300, help="how many orders to place (default: 300)")
    parser.add_argument("--kills", type=_whole, default=6, help="how often to kill the worker (default: 6)")
    parser.add_argument("--keep", action="store_true", help="keep the runtime and the worker running until Ctrl-C")
    parser.add_argument("--folder", type=Path, default=PROJECT / ".demo", help="where to play; emptied first")
    return parser.parse_args()


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number, found {text}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
