"""What each kind of fault does. ``before`` acts instead of the runtime, ``after`` on what the runtime has answered."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

from orbit_django.embedded import fault_values as values
from orbit_django.embedded.answers import HTML, TEXT, Answer, Host, Request, json_answer
from orbit_django.embedded.listener import ClosedError

Before = Callable[[Any, Request, Host], Answer | None]
After = Callable[[Any, Request, Answer, Host], Answer]
ELSEWHERE = "http://127.0.0.2:7233"
_CODES = {400: "INVALID_REQUEST", 401: "UNAUTHENTICATED", 403: "FORBIDDEN"}
_UNAUTHENTICATED = {401, 403}


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind: how its value is read and what it is by default, what it does, and a sentence about it."""

    about: str
    read: values.Read = values.nothing
    default: Any = None
    before: Before | None = None
    after: After | None = None
    needs_object: bool = False  # meets only a 200 that holds a JSON object
    is_last: bool = False  # leaves nothing that another one could read


def _lost(value: Any, request: Request, answer: Answer, host: Host) -> Answer:
    raise ClosedError


def _drop(value: Any, request: Request, host: Host) -> Answer | None:
    raise ClosedError


def _refuse(milliseconds: int, request: Request, host: Host) -> Answer | None:
    host.go_away(milliseconds / 1000)
    raise ClosedError


def _restart(milliseconds: int, request: Request, host: Host) -> Answer | None:
    host.go_away(milliseconds / 1000, is_restart=True)
    raise ClosedError


def _status(value: int | tuple[int, str], request: Request, host: Host) -> Answer | None:
    status = values.Status(value) if isinstance(value, int) else values.Status(*value)
    code = status.code or _CODES.get(status.number, HTTPStatus(status.number).name)
    answer = json_answer({"error": {"code": code, "message": "injected"}}, status.number)
    return replace(answer, version=None) if status.number in _UNAUTHENTICATED else answer


def _html(status: int, request: Request, host: Host) -> Answer | None:
    text = f"<html><body><h1>{status} {HTTPStatus(status).phrase}</h1><p>a proxy in between</p></body></html>"
    return Answer(status, text.encode(), HTML, version=None)


def _text(status: int, request: Request, host: Host) -> Answer | None:
    return Answer(status, b"injected, in plain text", TEXT)


def _leader(url: str, request: Request, host: Host) -> Answer | None:
    error = {"code": "NOT_LEADER", "message": f"this node is a standby; the leader is {url}", "leader": url}
    return json_answer({"error": error}, 503)


def _redirect(url: str, request: Request, host: Host) -> Answer | None:
    return Answer(307, headers=(("location", url.rstrip("/") + request.path),))


def _answer(value: Any, request: Request, host: Host) -> Answer | None:
    return value if isinstance(value, Answer) else json_answer(value)


def _hold(milliseconds: int, request: Request, host: Host) -> Answer | None:
    host.pause(milliseconds / 1000)
    return None


def _delay(milliseconds: int, request: Request, answer: Answer, host: Host) -> Answer:
    host.pause(milliseconds / 1000)
    return answer


def _expire(value: Any, request: Request, host: Host) -> Answer | None:
    with host.changing() as runtime:
        for session in runtime.sessions:
            runtime.sessions.close(session, "expired on purpose")
        runtime.state.journal.commit()
    return None


def _timeout(milliseconds: int, request: Request, host: Host) -> Answer | None:
    host.session_timeout_ms = milliseconds
    return None


def _duplicate(value: Any, request: Request, answer: Answer, host: Host) -> Answer:
    token = json.loads(answer.body).get("token")
    with host.changing() as runtime:
        found = runtime.state.find_delivery(token) if token else None
        if found and found[1].current is found[2]:
            runtime.attempts.lose(found[0], found[1], "delivered again on purpose")
            runtime.state.journal.commit()
    return answer


def _garbage(value: Any, request: Request, answer: Answer, host: Host) -> Answer:
    return replace(answer, body=answer.body[: len(answer.body) // 2])


def _cut(value: Any, request: Request, answer: Answer, host: Host) -> Answer:
    return replace(answer, is_cut=True)


def _empty(value: Any, request: Request, answer: Answer, host: Host) -> Answer:
    return replace(answer, body=b"{}")


def _set(members: dict[str, Any], request: Request, answer: Answer, host: Host) -> Answer:
    return replace(answer, body=json.dumps(json.loads(answer.body) | members).encode())


def _texts(value: Any, request: Request, answer: Answer, host: Host) -> Answer:
    found = json.loads(answer.body).items()
    return _set({name: str(number) for name, number in found if name.endswith("_ms")}, request, answer, host)


def _version(value: str, request: Request, answer: Answer, host: Host) -> Answer:
    return replace(answer, version=None if value == "none" else value)


_EXTRA = {"x_unknown": {"members": [1, None, "ü"]}, "accepted_by": "nobody"}
_STRAY = {"task_name": "never.announced", "contract_version": "0.0.0"}

KINDS: dict[str, Kind] = {
    "lost": Kind("processed, then the connection closes without an answer", after=_lost),
    "drop": Kind("not processed: the connection closes without an answer", before=_drop),
    "refuse": Kind(
        "not processed; for a time all connections are cut and new ones refused, the sessions go on",
        values.milliseconds,
        1000,
        before=_refuse,
    ),
    "restart": Kind(
        "not processed; the runtime ends, and begins anew after the time, without its sessions",
        values.milliseconds,
        0,
        before=_restart,
    ),
    "status": Kind("not processed: STATUS or STATUS/CODE as a JSON error", values.status, 503, before=_status),
    "html": Kind("not processed: the status with a page, as of a proxy", values.number, 502, before=_html),
    "text": Kind("not processed: the status with plain text", values.number, 422, before=_text),
    "leader": Kind("not processed: 503 NOT_LEADER, naming another address", values.url, ELSEWHERE, before=_leader),
    "redirect": Kind("not processed: 307 to another address", values.url, ELSEWHERE, before=_redirect),
    "answer": Kind("not processed: 200 with this JSON", values.anything, {}, before=_answer),
    "hold": Kind("held for a time, then processed", values.milliseconds, 1000, before=_hold),
    "delay": Kind("processed, then the answer is held for a time", values.milliseconds, 1000, after=_delay),
    "expire": Kind("every session ends before the call", before=_expire),
    "timeout": Kind("sessions opened from this call on have this timeout", values.milliseconds, 3000, before=_timeout),
    "duplicate": Kind(
        "the task just handed out is queued again while its holder works", after=_duplicate, needs_object=True
    ),
    "garbage": Kind(
        "processed; of the JSON only the first half is answered", after=_garbage, needs_object=True, is_last=True
    ),
    "cut": Kind("processed; the connection closes in the middle of the answer", after=_cut, needs_object=True),
    "empty": Kind("processed; the answer is {}", after=_empty, needs_object=True, is_last=True),
    "set": Kind(
        "members of the answer are replaced by those of this object", values.members, {}, after=_set, needs_object=True
    ),
    "texts": Kind("milliseconds in the answer are texts", after=_texts, needs_object=True),
    "stray": Kind(
        "the task handed out has a name and a version that nobody announced",
        values.members,
        _STRAY,
        after=_set,
        needs_object=True,
    ),
    "extra": Kind("the answer has members that nobody knows", values.members, _EXTRA, after=_set, needs_object=True),
    "version": Kind("the version header says this; none: there is none", values.word, "orbit-api/2", after=_version),
}
