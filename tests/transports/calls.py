"""Calls of a connection, and what tests of it have in common."""

import time

import pytest

from orbit_django.exceptions import NoAnswerError
from orbit_django.transports.answers import Answer
from orbit_django.transports.connection import HttpConnection

SECRET = "tok-SECRET-1"
WAY = {"is_lean": False}  # how the tests' connections go; the fixture `way` has each test go both ways


def connect(server: str, credential: str | None = None, **options) -> HttpConnection:
    return HttpConnection(server, credential=lambda: credential, **(WAY | options))


def post(connection: HttpConnection, body: str = "{}", *, total: float = 5.0, connecting: float = 2.0) -> Answer:
    return connection.post("/v1/x", body, connect_seconds=connecting, total_seconds=total)


def failed(connection: HttpConnection, **options) -> NoAnswerError:
    with pytest.raises(NoAnswerError) as caught:
        post(connection, **options)
    assert SECRET not in str(caught.value)
    return caught.value


def assert_ends_in_time(connection: HttpConnection, *, body: str = "{}", **limits: float) -> NoAnswerError:
    started = time.monotonic()
    error = failed(connection, body=body, **limits)
    assert 0.4 < time.monotonic() - started < 2
    return error
