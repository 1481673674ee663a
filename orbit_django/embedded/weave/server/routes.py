"""Which endpoint does what: checks the credential and the body, calls the state machine, shapes the answer.

The order of the checks is: outer limits, scope, credential, JSON, form, place to execute, lock of the project; the rest
is the state machine's.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

from orbit_django.embedded.weave.access import Caller
from orbit_django.embedded.weave.exchange import Answer, Host, Request, json_answer
from orbit_django.embedded.weave.forms import FORMS
from orbit_django.embedded.weave.platform import Platform
from orbit_django.embedded.weave.problems import invalid, not_found
from orbit_django.embedded.weave.values import check_tokens, parse

_NO_STORE = (("Cache-Control", "no-store"), ("Pragma", "no-cache"))
_SCOPE = re.compile(r"(?:/api/v1)?/tenants/([^/]+)/projects/([^/]+)/environments/([^/]+)(/.*)")
_ID = r"/([^/]+)"
Act = Callable[[Platform, Caller, Any], Any]


class Route(NamedTuple):
    """One endpoint."""

    method: str
    pattern: re.Pattern[str]
    call: str
    act: Act  # takes the checked body, or the id in the path
    status: int = 200


def _route(method: str, pattern: str, call: str, act: Act, status: int = 200) -> Route:
    return Route(method, re.compile(pattern), call, act, status)


ROUTES = [
    _route("POST", "/worker-releases", "admit", lambda platform, who, body: platform.releases.admit(who, body), 201),
    _route("POST", "/workers", "register", lambda platform, who, body: platform.releases.register(who, body), 201),
    _route("POST", "/tasks/claim", "claim", lambda platform, who, body: platform.leases.claim(who, body)),
    _route("POST", "/tasks/heartbeat", "heartbeat", lambda platform, who, body: platform.leases.heartbeat(who, body)),
    _route("POST", "/tasks/complete", "complete", lambda platform, who, body: platform.settlement.complete(who, body)),
    _route("POST", "/tasks/fail", "fail", lambda platform, who, body: platform.settlement.fail(who, body)),
    _route("POST", "/tasks/context", "context", lambda platform, who, body: platform.connections.context(who, body)),
    _route("POST", "/tasks/credentials", "credentials", lambda platform, who, body: None),
    _route(
        "POST",
        "/worker-connection-grants",
        "grant",
        lambda platform, who, body: platform.releases.grant(who, body),
        201,
    ),
    _route(
        "POST", f"/workers{_ID}/revoke", "", lambda platform, who, name: platform.releases.revoke_instance(who, name)
    ),
    _route("GET", f"/workers{_ID}", "", lambda platform, who, name: platform.releases.show_instance(who, name)),
    _route("GET", f"/worker-releases{_ID}", "", lambda platform, who, name: platform.releases.show_release(who, name)),
]


class Target(NamedTuple):
    """What a path leads to."""

    route: Route
    scope: str
    name: str  # the id in the path


def call_of(method: str, path: str) -> str:
    """Return the word by which a request is known to faults and in the log."""
    target = find(method, path)
    return (target.route.call if target else "") or "other"


def find(method: str, path: str) -> Target | None:
    """Return what a path leads to, None when that is nothing."""
    scope = _SCOPE.fullmatch(path)
    if scope is None:
        return None
    for route in ROUTES:
        match = route.pattern.fullmatch(scope[4])
        if match and route.method == method:
            return Target(route, "/".join(scope.groups()[:3]), match[1] if match.re.groups else "")
    return None


def respond(host: Host, request: Request) -> Answer:
    """Return the answer to a request within the outer limits; raises ProblemError."""
    if request.call not in {"other", ""}:
        check_tokens(request.body)
    target = find(request.method, request.path)
    scope = _canonical(target.scope) if target else ""
    with host.changing() as platform:
        caller = platform.access.caller(request.headers.get("authorization"), scope)
    if target is None:
        raise not_found()
    body = FORMS[target.route.call](parse(request.body)) if target.route.call else target.name
    if target.route.method == "GET":
        with host.changing() as platform:
            return json_answer(target.route.act(platform, caller, body))
    with host.executing():
        if target.route.call == "credentials":
            return _credentials(host, caller, body)
        with host.transaction(scope) as platform:
            value = target.route.act(platform, caller, body)
    return json_answer(value, target.route.status)


def _credentials(host: Host, caller: Caller, body: Any) -> Answer:
    """Look twice at what may be given: before the provider is asked, outside of any transaction, and after."""
    with host.transaction(caller.scope) as platform:
        first = platform.connections.look(caller, body)
    host.ask_provider()
    with host.transaction(caller.scope) as platform:
        return json_answer(platform.connections.give(caller, body, first), 200, *_NO_STORE)


def _canonical(scope: str) -> str:
    try:
        return "/".join(str(uuid.UUID(part)) for part in scope.split("/"))
    except ValueError:
        raise invalid() from None
