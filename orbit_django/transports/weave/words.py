"""Weave's words and ours: leases read, outcomes written, receipts and refusals understood. Pure.

Section numbers are those of ``docs/reference/weave-protocol.md``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from orbit_django.exceptions import NoAnswerError, NotCarriedError, PayloadError, PayloadTooLargeError, RefusedError
from orbit_django.payloads import compact
from orbit_django.protocol import REASON_STALE, REASON_UNKNOWN_TOKEN, Code, Kind, Receipt
from orbit_django.transports.answers import Answer, read_json

CAPACITY = ("WV-REQUEST-CAPACITY", "WV-OPERATION-CAPACITY")
LEASE_LOST = "WV-LEASE"
FORBIDDEN = "WV-FORBIDDEN"
TRANSIENT = "TRANSIENT"
RECOVERED = (TRANSIENT, "UNAVAILABLE", "RATE_LIMITED", "TIMEOUT")  # codes after which recovery tries again (V62)
NOT_STARTED = (Code.UNKNOWN_TASK, Code.INVALID_INPUT, Code.IDEMPOTENCY_CONFLICT)
UNCERTAIN = (Code.EFFECT_UNCERTAIN, Code.RESULT_REFUSED, Code.DELIVERY_LIMIT)
SHOWN_TYPES = 5
MAX_CODE = 64
MAX_OUTPUT_BYTES, MAX_OUTPUT_DEPTH, MAX_OUTPUT_NODES = 1_048_576, 32, 100_000
MAX_INTEGER = 2**53 - 1
SHOWN = ("status", "generation", "completion_id", "accepted_at", "accepted_output_hash", "reason_code", "unavailable")
HEAD = '{"token":'  # how every report begins
OUTPUT = ',"output":'  # inside a text of the body its quotes are escaped, so that the first one is the member


class Lease(NamedTuple):
    """What a claim brings for one task, as far as a worker needs it."""

    proof: str  # JSON text; a secret
    secret: str  # the part of it that is one
    owner: str
    generation: int
    input: Any
    operation_key: str
    capability: str
    deadline: datetime
    expires_at: datetime


def read_lease(body: object) -> Lease:
    """Read one lease; raise PayloadError when it is none. Unknown members are let pass (V40)."""
    fields = _object(body, "$")
    proof = _object(fields.get("proof"), "$.proof")
    if "input" not in fields:
        raise PayloadError("$.input", "missing")
    generation = proof.get("generation")
    if not isinstance(generation, int) or isinstance(generation, bool) or generation < 1:
        raise PayloadError("$.proof.generation", "is no whole number from 1")
    _text(proof, "task_id", "$.proof")
    return Lease(
        proof=compact(dict(proof)),
        secret=_text(proof, "token", "$.proof"),
        owner=_text(proof, "owner", "$.proof"),
        generation=generation,
        input=fields["input"],
        operation_key=_text(fields, "operation_key", "$"),
        capability=_text(fields, "capability", "$"),
        deadline=read_time(fields, "deadline"),
        expires_at=read_time(fields, "expires_at"),
    )


def read_time(fields: Mapping[str, Any], name: str) -> datetime:
    """Return a time with its offset; raise PayloadError when it is none."""
    try:
        found = datetime.fromisoformat(_text(fields, name, "$"))
    except ValueError:
        raise PayloadError(f"$.{name}", "is no time") from None
    if found.tzinfo is None:
        raise PayloadError(f"$.{name}", "has no offset")
    return found


def proof_of(body: str) -> str:
    """Return the proof under which a report was made; raise ValueError for a text that is no report."""
    return str(json.JSONDecoder().raw_decode(body, len(HEAD))[0])


def secret_of(proof: str) -> str:
    """Return the part of a proof that is a secret of its own."""
    try:
        return str(json.loads(proof).get("token", ""))
    except (ValueError, AttributeError):
        return ""


def report_of(kind: Kind, body: str) -> tuple[str, str]:
    """Return path and exact request body of an outcome; equal reports make equal bytes (V50 to V56).

    Raises PayloadError for a report that was not made for a lease.
    """
    head, found, output = body.partition(OUTPUT)
    fields = json.loads(head + "}" if kind is Kind.COMPLETE and found else body)
    proof, completion_id = fields.get("token"), fields.get("completion_id")
    if not isinstance(proof, str) or not proof.startswith("{") or not completion_id:
        raise PayloadError("$.token", "is no proof of a lease")
    if kind is Kind.COMPLETE:
        return "/tasks/complete", f'{{"lease":{proof},"completion_id":{compact(completion_id)}{OUTPUT}{output}'
    code = str(fields.get("error_code", ""))
    error = {
        "completion_id": completion_id,
        "code": code_of(code, is_retryable=bool(fields.get("retryable"))),
        "outcome": outcome_of(code),
    }
    return "/tasks/fail", f'{{"lease":{proof},"error":{compact(error)}}}'


def code_of(code: str, *, is_retryable: bool) -> str:
    """Return the code that says whether recovery may try again; only the code does (V61)."""
    if is_retryable:
        return TRANSIENT
    shown = re.sub(r"[^A-Z0-9_-]", "_", code.upper())
    shown = (shown if shown[:1].isalpha() else f"E{shown}")[:MAX_CODE]
    return f"{shown}_FINAL" if shown in RECOVERED else shown


def outcome_of(code: str) -> str:
    """Return what is known of the effect: a person reads it, recovery does not (V63)."""
    if code in NOT_STARTED:
        return "not_started"
    return "unknown" if code in UNCERTAIN else "failed"


def check_output(body: str) -> None:
    """Raise what keeps a completion from ever being taken: its size, its depth, its numbers (V57, V58)."""
    output = read_json(body.partition(OUTPUT)[2][:-1].encode())
    size = len(compact(output, is_ascii=False).encode())
    if size > MAX_OUTPUT_BYTES:
        raise PayloadTooLargeError(size, MAX_OUTPUT_BYTES, "Weave takes an output of")
    count, waiting = 0, [("$", output, 1)]
    while waiting:
        path, value, depth = waiting.pop()
        count += 1
        if depth > MAX_OUTPUT_DEPTH or count > MAX_OUTPUT_NODES:
            raise NotCarriedError(path, f"Weave takes {MAX_OUTPUT_DEPTH} levels and {MAX_OUTPUT_NODES} values")
        if isinstance(value, int) and abs(value) > MAX_INTEGER:
            raise NotCarriedError(path, f"Weave takes whole numbers up to {MAX_INTEGER}")
        if isinstance(value, dict):
            waiting += [(f"{path}.{name}", item, depth + 1) for name, item in value.items()]
        elif isinstance(value, list):
            waiting += [(f"{path}[{index}]", item, depth + 1) for index, item in enumerate(value)]


def problem(answer: Answer) -> tuple[str, str]:
    """Return code and message of a refusal that is the platform's own; an empty code for any other (V14)."""
    try:
        body = read_json(answer.body)
    except (ValueError, RecursionError):
        return "", ""
    code = body.get("code") if isinstance(body, dict) else None
    if not isinstance(code, str) or not code.startswith("WV-"):
        return "", ""
    return " ".join(code.split())[:100], " ".join(str(body.get("message", "")).split())[:500]


def release_refusal(answer: Answer, release_id: str, types: list[str]) -> RefusedError:
    """Return what it means that an instance was refused: the release is not known, or not one of these types (V30)."""
    code = problem(answer)[0]
    release = f"the release {release_id} of WEAVE['RELEASE_ID']"
    shown = ", ".join(types[:SHOWN_TYPES]) + (f" and {len(types) - SHOWN_TYPES} more" if types[SHOWN_TYPES:] else "")
    what = f"{'' if len(types) == 1 else 'all of '}{shown}"
    told = {
        LEASE_LOST: f"{release} is unknown there; admit one with manage.py orbit_weave admit",
        FORBIDDEN: f"{release} does not offer {what}, or the token is not a worker's there; a new handler or version"
        " takes another image digest and manage.py orbit_weave admit",
    }[code]
    return RefusedError(answer.status, code, f"{told}, and set RELEASE_ID to what that prints", is_from_runtime=True)


def is_capacity(answer: Answer) -> bool:
    """Return whether the request was turned away before anything happened, so that it may be repeated (V20)."""
    return answer.status == 429 and problem(answer)[0] in CAPACITY


def read_receipt(body: object, sent: str) -> Receipt:
    """Read the receipt of a report with that body; raise NoAnswerError when it is none of it (V70 to V74)."""
    request = json.loads(sent.partition(OUTPUT)[0] + "}") if OUTPUT in sent else json.loads(sent)
    proof = request["lease"]
    own = (proof["task_id"], proof["generation"], request.get("completion_id") or request["error"]["completion_id"])
    if not isinstance(body, dict) or (body.get("task_id"), body.get("generation"), body.get("completion_id")) != own:
        raise NoAnswerError("the answer is no receipt of this outcome")
    status = body.get("status")
    is_unavailable = body.get("unavailable") is True
    if is_unavailable and (body.get("payload_match") != "unavailable" or "accepted_output_hash" in body):
        raise NoAnswerError("the answer is half a receipt without evidence")
    text = compact({name: body[name] for name in SHOWN if body.get(name) is not None})
    if status in ("completed", "failed"):
        return Receipt(accepted=True, text=text)
    if status == "ignored":
        return Receipt(False, f"{REASON_STALE}: ignored, its branch or run had ended before", text)
    if status == "rejected":
        return Receipt(
            False, f"rejected: {body.get('reason_code')}; the output holds what the schema keeps secret", text
        )
    raise NoAnswerError("the answer is no receipt: it has no status that is known")


def final_refusal(status: int, code: str, message: str) -> Receipt | None:
    """Return the receipt that a refusal amounts to where it is the end of the attempt; else None (V80 to V84)."""
    told = f"{status} {code}: {message}"
    if code == LEASE_LOST:
        return Receipt(False, f"{REASON_STALE} ({told})")
    if status == 404:
        return Receipt(False, f"{REASON_UNKNOWN_TOKEN} ({told})")
    return Receipt(False, told) if status == 409 or code == FORBIDDEN else None


def _object(body: object, path: str) -> Mapping[str, Any]:
    if not isinstance(body, Mapping):
        raise PayloadError(path, "is not an object")
    return body


def _text(fields: Mapping[str, Any], name: str, path: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise PayloadError(f"{path}.{name}", "missing" if value is None else "is not a text")
    return value
