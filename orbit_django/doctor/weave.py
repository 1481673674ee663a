"""A Weave platform's side: address, token, release, and whether the handlers are those of the release."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from http import HTTPStatus
from urllib.parse import urlsplit

from orbit_django.conf import OrbitSettings
from orbit_django.conf.addresses import is_loopback
from orbit_django.doctor.findings import Finding, note, ok, wrong
from orbit_django.doctor.runtime import look_at_clock
from orbit_django.exceptions import ConfigurationError, NoAnswerError, RefusedError
from orbit_django.tasks import Task
from orbit_django.transports.answers import Answer
from orbit_django.transports.weave.admission import Admission
from orbit_django.transports.weave.words import FORBIDDEN, LEASE_LOST, problem
from orbit_django.worker.binding import wire_options


def look_at_weave(settings: OrbitSettings, tasks: Iterable[Task]) -> Iterator[Finding]:
    """Tell all that can be learned of a platform; when it does not answer, only that. Nothing is left behind there."""
    try:
        admission = Admission(settings.weave, **wire_options(settings))
    except ConfigurationError as error:
        yield wrong("platform", str(error), "complete settings.ORBIT['WEAVE']")
        return
    with closing(admission):
        yield from _look_at_address(settings)
        try:
            answer = admission.probe()
        except RefusedError as error:
            yield wrong("token", str(error), "look at OAUTH")
            return
        except (NoAnswerError, ConfigurationError) as error:
            yield wrong("platform", str(error), "workers wait until it answers")
            return
        yield ok("platform", f"{settings.weave.server} answers")
        yield from look_at_clock(answer)
        yield from _look_at_token(answer)
        yield from _look_at_release(settings, admission, tasks)


def _look_at_address(settings: OrbitSettings) -> Iterator[Finding]:
    parts = urlsplit(settings.weave.server)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        yield note("address", f"{settings.weave.server} is not encrypted", "use https; tokens and inputs can be read")
    else:
        yield ok("address", settings.weave.address)


def _look_at_token(answer: Answer) -> Iterator[Finding]:
    code = problem(answer)[0]
    if code == LEASE_LOST:
        yield ok("token", "is accepted, for a worker's calls")
    elif answer.status == HTTPStatus.UNAUTHORIZED:
        yield wrong(
            "token", "is not accepted", "it has expired, is for another audience, or its identity is not linked"
        )
    elif code == FORBIDDEN:
        yield wrong("token", "is accepted, but not for work here", "ask for the worker role in this environment")
    else:
        yield wrong("token", f"a claim was answered {answer.status} {code}", "look at SERVER, TENANT and the others")


def _look_at_release(settings: OrbitSettings, admission: Admission, tasks: Iterable[Task]) -> Iterator[Finding]:
    release_id = settings.weave.release_id
    if release_id is None:
        yield wrong("release", "WEAVE['RELEASE_ID'] is not set", "manage.py orbit_weave admit tells it")
        return
    try:
        answer = admission.release(release_id)
        value = answer.value() if answer.is_success else None
    except NoAnswerError as error:
        yield note("release", f"{release_id}: {error}")
        return
    if not isinstance(value, dict):
        yield note("release", f"{release_id}; what it offers cannot be read with a worker's token")
        return
    offered = {f"{one.get('taskType')}@{one.get('taskVersion')}" for one in value.get("capabilities", ())}
    missing = sorted({f"{one.contract.task_name}@{one.contract.contract_version}" for one in tasks} - offered)
    if missing:
        yield wrong("release", f"{release_id} does not offer {', '.join(missing)}", "admit the present build")
    else:
        yield ok("release", f"{release_id} offers every handler")
