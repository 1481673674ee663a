"""A registration as a worker makes it, given back at once: the only call that tells whether a worker would be let in.

It leaves a line in the runtime's list of workers, so it is made when it is asked for, and with the real tasks: a
registration without any would break the protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from orbit_django.conf import OrbitSettings
from orbit_django.doctor.findings import Finding, note, ok, wrong
from orbit_django.exceptions import ConfigurationError, NoAnswerError, RefusedError, TransportError
from orbit_django.payloads import counted, cut
from orbit_django.protocol import SDK, Contract, Registration, Session
from orbit_django.transports.base import Transport
from orbit_django.transports.inspection import CALL_SECONDS
from orbit_django.worker.binding import open_transport

ABOUT = "registration"
ADVICE = "compare WORKER_ID, RUNTIME and the tasks with what the runtime's workers file allows this credential"
TOLD_WARNINGS = 20


def look_at_registration(settings: OrbitSettings, contracts: tuple[Contract, ...]) -> Iterator[Finding]:
    """Open a session over the binding that workers speak, and give it back; tell what the runtime said (O050-O057)."""
    if not contracts:
        yield note(ABOUT, "nothing was registered, since there is no task to announce")
        return
    try:
        transport = open_transport(settings)
    except ConfigurationError as error:
        yield wrong(ABOUT, str(error), "a worker ends with code 2 until that is corrected")
        return
    with closing(transport):
        try:
            session = transport.register(Registration(settings.worker_name(), settings.runtime, contracts, SDK))
        except RefusedError as error:
            yield wrong(ABOUT, f"the worker {settings.worker_name()!r} is not let in: {error}", ADVICE)
        except (NoAnswerError, ConfigurationError, OSError) as error:
            yield wrong(ABOUT, str(error), "workers wait until the runtime answers")
        else:
            yield from _opened(settings, transport, session, len(contracts))


def _opened(settings: OrbitSettings, transport: Transport, session: Session, count: int) -> Iterator[Finding]:
    yield ok(ABOUT, f"the worker {settings.worker_name()!r} is let in with {counted(count, 'task')}")
    for warning in session.warnings[:TOLD_WARNINGS]:
        yield note(ABOUT, f"the runtime warns: {cut(warning, 500)}", "compare names and versions with its workflows")
    try:
        transport.unregister(session.session_id, timeout_seconds=CALL_SECONDS)
    except TransportError as error:
        seconds = session.session_timeout_ms / 1000
        yield note(ABOUT, f"its session was not closed, and ends by itself within {seconds:g} s: {error}")
