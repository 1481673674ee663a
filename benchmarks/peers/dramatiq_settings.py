"""Dramatiq over Redis, with the middleware that keeps each task and its state in the database."""

from benchmarks.peers.redis_url import PREFIX, URL

APPS = ["django_dramatiq", "benchmarks.work"]
DRAMATIQ_BROKER = {
    "BROKER": "dramatiq.brokers.redis.RedisBroker",
    "OPTIONS": {"url": URL, "namespace": f"{PREFIX}:dramatiq"},
    "MIDDLEWARE": [
        "dramatiq.middleware.AgeLimit",
        "dramatiq.middleware.TimeLimit",
        "dramatiq.middleware.Callbacks",
        "dramatiq.middleware.Retries",
        "django_dramatiq.middleware.DbConnectionsMiddleware",
        "django_dramatiq.middleware.AdminMiddleware",
    ],
}
