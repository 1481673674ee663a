"""Procrastinate, which keeps tasks and their state in PostgreSQL."""

APPS = ["procrastinate.contrib.django", "benchmarks.work"]
PROCRASTINATE_IMPORT_PATHS = ["benchmarks.peers.procrastinate_tasks"]
