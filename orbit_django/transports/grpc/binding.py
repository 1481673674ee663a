"""The gRPC binding: the six calls of the worker protocol as messages (O160 to O172).

It turns statuses and messages into words of the protocol and decides nothing: no retries, no waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from orbit_django.exceptions import NoAnswerError, PayloadError, TransportError, UnknownSessionError
from orbit_django.protocol import MAX_WAIT_MS, Assignment, Kind, Receipt, Registration, Session
from orbit_django.redaction import redacted
from orbit_django.transports.credential import Credential, bearer, token_of
from orbit_django.transports.grpc.assignments import assignment_of
from orbit_django.transports.grpc.lines import Lines, TlsSide
from orbit_django.transports.grpc.reports import message_of
from orbit_django.transports.grpc.statuses import Code, code_of, failure_of
from orbit_django.transports.proto import worker_pb2 as messages

Answer = TypeVar("Answer", bound=Message)

PLACE = "/orbit.worker.v1.WorkerService/"
CALL_SECONDS = 10.0  # for register and the two reports
POLL_EXTRA_SECONDS = 15.0  # beyond wait_ms (O063)
UNKNOWN_SESSION = "UNKNOWN_SESSION"
REPORTS = {Kind.COMPLETE: "CompleteTask", Kind.FAIL: "FailTask"}
SENDING, ASKING, BEATING = "reports", "polls", "heartbeats"  # what lines are for


class GrpcTransport:
    """The contract of a binding over gRPC.

    ``target`` is ``host:port``, ``server`` the URL by which the runtime is known whatever the binding, ``credential``
    is asked for the bearer token before each call, ``max_body_bytes`` bounds the message of a success.
    """

    name = "grpc"

    def __init__(
        self, target: str, *, server: str, credential: Credential, max_body_bytes: int, tls: TlsSide | None = None
    ) -> None:
        self.server = server
        self._credential = credential
        self._limit = max_body_bytes
        self._lines = Lines(target, tls)

    def register(self, registration: Registration) -> Session:
        """Open a session (O050 to O057)."""
        request = messages.RegisterWorkerRequest(
            worker_id=registration.worker_id,
            runtime=registration.runtime,
            contracts=[
                messages.TaskContract(task_name=each.task_name, contract_version=each.contract_version)
                for each in registration.contracts
            ],
            sdk=registration.sdk,
        )
        content = self._call("RegisterWorker", request.SerializeToString(), CALL_SECONDS)
        answer = _read(messages.RegisterWorkerResponse, content)
        try:
            return Session.from_wire(
                {
                    "worker_session_id": answer.worker_session_id,
                    "heartbeat_interval_ms": answer.heartbeat_interval_ms,
                    "session_timeout_ms": answer.session_timeout_ms,
                    "warnings": list(answer.warnings),
                }
            )
        except PayloadError as error:
            raise NoAnswerError(f"the answer is not what the protocol says: {error}") from None

    def poll(self, session_id: str, wait_ms: int) -> Assignment | None:
        """Wait up to ``wait_ms`` for a task; None when there was none (O060 to O067, O164, O165)."""
        wait_ms = min(max(wait_ms, 1), MAX_WAIT_MS)
        request = messages.PollTaskRequest(worker_session_id=session_id, wait_ms=wait_ms).SerializeToString()
        seconds = wait_ms / 1000 + POLL_EXTRA_SECONDS
        return assignment_of(self._call("PollTask", request, seconds, line=ASKING, has_session=True))

    def heartbeat(self, session_id: str, *, timeout_seconds: float) -> tuple[str, ...]:
        """Keep the session alive; return the tokens of attempts to stop (O080 to O084)."""
        request = messages.HeartbeatRequest(worker_session_id=session_id).SerializeToString()
        content = self._call("Heartbeat", request, timeout_seconds, line=BEATING, has_session=True)
        return tuple(_read(messages.HeartbeatResponse, content).cancel)

    def check_report(self, kind: Kind, body: str) -> None:
        """Refuse what gRPC cannot carry, and a success whose message is too large (O162, O167)."""
        message_of(kind, body, self._limit)

    def send(self, kind: Kind, body: str) -> Receipt:
        """Report an attempt; equal texts are sent as equal bytes (O090 to O102, O166, O168)."""
        content = message_of(kind, body, self._limit)
        answer = _read(messages.TaskResultAck, self._call(REPORTS[kind], content, CALL_SECONDS, report=body))
        return Receipt(answer.accepted, "" if answer.accepted else answer.reason)

    def unregister(self, session_id: str, *, timeout_seconds: float) -> None:
        """Close a session (O110 to O112)."""
        request = messages.UnregisterWorkerRequest(worker_session_id=session_id).SerializeToString()
        self._call("UnregisterWorker", request, timeout_seconds, has_session=True)

    def close(self) -> None:
        """Break off open polls and let go of every connection."""
        self._lines.close()

    def _call(
        self,
        method: str,
        request: bytes,
        seconds: float,
        *,
        line: str = SENDING,
        has_session: bool = False,
        report: str = "",
    ) -> bytes:
        authorization = bearer(self._credential())
        metadata = (("authorization", authorization),) if authorization else ()
        try:
            with self._lines.use(line) as used:
                return used.method(PLACE + method)(request, timeout=seconds, metadata=metadata)
        except grpc.RpcError as error:
            raise self._failure(error, method, has_session=has_session, report=report) from None
        except ValueError:  # the line was closed in this moment
            raise NoAnswerError(f"{method}: the connection was closed", is_maybe_processed=False) from None

    def _failure(self, error: grpc.RpcError, method: str, *, has_session: bool, report: str) -> TransportError:
        def hide(text: str) -> str:
            return redacted(text, credentials=(self._credential(),), tokens=(token_of(report),))

        if has_session and error.code() is Code.NOT_FOUND:
            code, message = code_of(error)
            if code == UNKNOWN_SESSION:
                return UnknownSessionError(hide(message)[:500])
        return failure_of(error, method, self._lines.target, hide)


def _read(kind: Callable[[], Answer], content: bytes) -> Answer:
    answer = kind()
    try:
        answer.ParseFromString(content)
    except DecodeError:
        raise NoAnswerError("the answer is no message of the protocol") from None
    return answer
