"""`python -m benchmarks.peers.feed TASKS COUNT INPUT`: give a package so many tasks with this input."""

from __future__ import annotations

import json
import sys
from importlib import import_module

import django

if __name__ == "__main__":
    django.setup()
    import_module(sys.argv[1]).feed(int(sys.argv[2]), json.loads(sys.argv[3]))
