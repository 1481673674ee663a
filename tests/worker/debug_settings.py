"""The suite's settings as careless people run them: debugging on, every logger at its loudest."""

import logging

from tests.settings import *  # noqa: F403


class AllFormatter(logging.Formatter):
    """Shows everything that is in a record."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{super().format(record)} {vars(record)}"


DEBUG = True
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"all": {"()": "tests.worker.debug_settings.AllFormatter"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "all"}},
    "root": {"handlers": ["console"], "level": "DEBUG"},
    "loggers": {"orbit_django": {"level": "DEBUG"}, "django.db.backends": {"level": "DEBUG"}},
}
