"""The two doors beside the wire: the token endpoint of an identity provider, and what tests ask of the server."""

from __future__ import annotations

import base64
import binascii
import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote

from orbit_django.embedded.weave.exchange import Answer, Request, json_answer
from orbit_django.exceptions import ConfigurationError

TOKEN_PATH = "/oauth/token"  # noqa: S105 (a path)
CONTROL_PATH = "/control/"
Exchange = Callable[[str, str], tuple[str, float] | None]  # client id and secret; token and seconds


def token_answer(request: Request, exchange: Exchange) -> Answer:
    """Return a token for client credentials, given as HTTP Basic or in the form (RFC 6749, 4.4)."""
    form = dict(parse_qsl(request.body.decode("utf-8", "replace"), keep_blank_values=True))
    if request.method != "POST" or form.get("grant_type") != "client_credentials":
        return _refused(400, "unsupported_grant_type")
    name, secret = _basic(request.headers.get("authorization")) or (
        form.get("client_id", ""),
        form.get("client_secret", ""),
    )
    given = exchange(name, secret)
    if given is None:
        return _refused(401, "invalid_client")
    shown = {"access_token": given[0], "token_type": "Bearer", "expires_in": int(given[1])}
    return json_answer(shown, 200, ("Cache-Control", "no-store"))


def control_answer(request: Request, methods: Mapping[str, Callable[..., Any]]) -> Answer:
    """Call what the path names with the members of the body, and answer ``{"result": …}``."""
    name = request.path.removeprefix(CONTROL_PATH)
    if name not in methods:
        return json_answer({"error": f"no control {name}; known are {', '.join(sorted(methods))}"}, 404)
    try:
        members = json.loads(request.body or b"{}")
        if fault := _members_fault(methods[name], members):
            raise ConfigurationError(fault)
        return json_answer({"result": methods[name](**members)})
    except (ConfigurationError, TypeError, ValueError) as error:
        return json_answer({"error": f"{name}: {error}"}, 400)
    except KeyError as error:
        return json_answer({"error": f"{name}: there is no {error}"}, 404)


def _members_fault(method: Callable[..., Any], members: object) -> str:
    """Return in one sentence why a control cannot be called with these members; "" when it can."""
    known = inspect.signature(method).parameters
    needed = [name for name, about in known.items() if about.default is about.empty]
    if not isinstance(members, dict):
        return "the body is no JSON object"
    faults = [f"{name!r} is missing" for name in needed if name not in members]
    faults += [f"{name!r} is unknown" for name in members if name not in known]
    optional = ", ".join(name for name in known if name not in needed)
    takes = f"{', '.join(needed) or 'nothing'}{f' and, if wanted, {optional}' if optional else ''}"
    return f"{', '.join(faults)}; it takes {takes}" if faults else ""


def public_methods(*rooms: object) -> dict[str, Callable[..., Any]]:
    """Return the public methods of the rooms by their names."""
    named = ((name, getattr(room, name)) for room in rooms for name in dir(room) if not name.startswith("_"))
    return {name: method for name, method in named if callable(method)}


def _basic(header: str | None) -> tuple[str, str] | None:
    scheme, _, encoded = (header or "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, secret = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (unquote(name), unquote(secret)) if colon else None


def _refused(status: int, error: str) -> Answer:
    return json_answer({"error": error}, status, ("Cache-Control", "no-store"))
