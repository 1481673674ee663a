"""Where Redis answers, and the prefix that keeps the keys of a run apart from everybody else's."""

from __future__ import annotations

import os

URL = os.environ.get("ORBIT_BENCH_REDIS_URL") or "redis://127.0.0.1:6379/9"
PREFIX = os.environ.get("BENCH_PREFIX") or "orbit-bench"


def sweep() -> None:
    """Remove the keys of this run."""
    import redis

    client = redis.Redis.from_url(URL)
    for key in client.scan_iter(f"{PREFIX}*"):
        client.delete(key)
    client.close()
