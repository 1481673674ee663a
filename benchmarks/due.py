"""How long it takes to find the next due message beside few and beside many that were delivered.

Needs PostgreSQL; makes a database of its own, `orbit_bench`, and drops it. Measures the package of this checkout.
"""

from __future__ import annotations

import os
import statistics
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

FEW, MANY, ROUNDS, LOOKS = 1_000, 1_000_000, 7, 40
ADMIN = os.environ.get("ORBIT_BENCH_ADMIN_URL", "postgresql://postgres@127.0.0.1:5432/postgres")

FILL = """
INSERT INTO orbit_django_outboxmessage (record_id, token, token_hash, kind, body, status, due_at, sender, attempts,
  accepted, reason, last_error, last_status, declined_by, attempt, execution_id, worker_id, server, created_at,
  settled_at)
SELECT NULL, 't' || n, md5('a' || n) || md5('b' || n), 'complete', '', 'delivered', NULL, '', 1, true, '', '', NULL, '',
  1, 'e' || n, 'w', 'http://runtime', now(), now() FROM generate_series(%s, %s) AS n
"""


@contextmanager
def database() -> Iterator[None]:
    """Make the database and drop it again."""
    with psycopg.connect(ADMIN, autocommit=True) as admin:
        admin.execute("DROP DATABASE IF EXISTS orbit_bench")
        admin.execute("CREATE DATABASE orbit_bench")
        try:
            yield
        finally:
            from django.db import connections

            connections.close_all()
            admin.execute("DROP DATABASE orbit_bench")


def fill(first: int, last: int) -> None:
    """Add delivered messages."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(FILL, [first, last])
        cursor.execute("VACUUM ANALYZE orbit_django_outboxmessage")


def look() -> float:
    """Return the median of a few looks that find one due message, in milliseconds."""
    from orbit_django import outbox
    from orbit_django.models import OutboxMessage

    origin = outbox.Origin("w", "http://runtime")
    due = OutboxMessage.objects.earliest("pk").pk
    times = []
    for _ in range(LOOKS):
        OutboxMessage.objects.filter(pk=due).update(status="pending", due_at=1, sender="")
        began = time.perf_counter()
        found = outbox.claim_due("default", origin, 4)
        times.append((time.perf_counter() - began) * 1000)
        assert [message.token for message in found] == ["due"]
    return statistics.median(times)


def arguments(parser: ArgumentParser) -> None:
    """Nothing but what all have in common."""


def run(options: Namespace) -> None:
    """Print both medians and their ratio."""
    if options.db != "postgres":
        raise SystemExit("due messages are measured on PostgreSQL only")
    with database():
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        fill(0, 0)
        from orbit_django.models import OutboxMessage

        OutboxMessage.objects.update(token="due", status="pending", due_at=1)  # noqa: S106
        fill(1, FEW)
        few = [look() for _ in range(ROUNDS)]
        fill(FEW + 1, MANY)
        many = [look() for _ in range(ROUNDS)]
        a, b = statistics.median(few), statistics.median(many)
        print(f"due beside {FEW:>9,} delivered: {a:.2f} ms ({min(few):.2f} to {max(few):.2f})")
        print(f"due beside {MANY:>9,} delivered: {b:.2f} ms ({min(many):.2f} to {max(many):.2f})")
        print(f"ratio {b / a:.2f}")
