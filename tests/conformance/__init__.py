"""The worker protocol, proven from outside: every clause of docs/protocol.md is checked here or excused.

A check watches a worker as a runtime would: its calls with their times, order and bytes, its exit code, its log, and
what its handlers are given. `python -m tests.conformance` runs all of it and writes docs/conformance.md.
"""
