"""The observer's gRPC side: between a worker and the gRPC side of its runtime, passing bytes on."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import grpc

from orbit_django.embedded.answers import Answer as Told
from orbit_django.embedded.grpc_server.calls import TORN, reply
from orbit_django.embedded.grpc_server.messages import BY_ERROR, CALLS, body_of, fields_of
from orbit_django.embedded.grpc_server.port import server_credentials
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.embedded.server.tls import ServerContext
from orbit_django.transports.grpc.statuses import code_of
from tests.conformance.observer import Answer, Call, Observer, Reply

LOOK_SECONDS = 0.02
PLACE = "/orbit.worker.v1.WorkerService/"
NUMBERS = {code: status for status, code in BY_ERROR.items()}


class GoneError(Exception):
    """The worker has hung up."""


def status(code: grpc.StatusCode, text: str, orbit_code: str = "") -> Reply:
    """End the call with exactly this status."""
    return lambda exchange: Answer(0, headers={"code": code.name, "text": text, "orbit-error-code": orbit_code})


class GrpcExchange:
    """One call that has no answer yet."""

    def __init__(self, face: "GrpcFace", method: str, content: bytes, context: Any) -> None:
        self.method, self.body = method, content
        self.headers = dict(context.invocation_metadata())
        self.connection = context.peer()
        self.common_name = next((name.decode() for name in context.auth_context().get("x509_common_name", ())), None)
        self.kind = CALLS[method]
        self._face = face
        self._context = context
        fields = body_of(self.kind, content)
        self.call = Call(self.kind.path.rsplit("/", 1)[-1], fields, time.monotonic(), self)

    def forward(self) -> Answer:
        credential = [("authorization", text) for name, text in self.headers.items() if name == "authorization"]
        with grpc.insecure_channel(self._face.runtime().grpc_target or "") as channel:
            ask = channel.unary_unary(PLACE + self.method, None, None)
            asked = ask.future(self.body, timeout=90, metadata=credential)
            while not asked.done():
                self._check_peer()
                if self.call.name == "poll" and (delivery := self._face.observer.overtaking()):
                    asked.cancel()
                    return delivery
                self._face.stopping.wait(LOOK_SECONDS)
            return self._told(asked)

    def _told(self, asked: Any) -> Answer:
        """Return what the runtime said, in the words of HTTP."""
        if error := asked.exception():
            code, message = code_of(error)
            if not code:
                raise ConnectionError(message)
            said = json.dumps({"error": {"code": code, "message": message}}).encode()
            return Answer(NUMBERS.get(error.code(), 500), said)
        fields = fields_of(self.kind, asked.result())
        if self.call.name == "poll" and not fields["token"]:
            return Answer(204)
        return Answer(200, json.dumps(fields).encode())

    def wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self._face.stopping.wait(LOOK_SECONDS):
            self._check_peer()

    def _check_peer(self) -> None:
        if not self._context.is_active():
            raise GoneError


class GrpcFace:
    """A port that workers take for their runtime."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self.runtime: Any = EmbeddedRuntime
        self.stopping = threading.Event()
        self._tls: ServerContext | None = None
        self._port = 0
        self.open()

    @property
    def url(self) -> str:
        """The URL by which the runtime is known; only the gRPC side of it is here."""
        return f"http{'s' if self.tls else ''}://{self.target}"

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def tls(self) -> ServerContext | None:
        return self._tls

    @tls.setter
    def tls(self, context: ServerContext) -> None:
        self.close()
        self._tls = context
        self.open()

    def open(self) -> None:
        """Listen, on the same port as before."""
        self.stopping.clear()
        self._threads = ThreadPoolExecutor(500)
        served = {name: grpc.unary_unary_rpc_method_handler(partial(self._serve, name)) for name in CALLS}
        handler = grpc.method_handlers_generic_handler("orbit.worker.v1.WorkerService", served)
        self._server = grpc.server(self._threads, [handler], options=[("grpc.so_reuseport", 0)])
        if self._tls is None:
            self._port = self._server.add_insecure_port(self.target)
        else:
            self._port = self._server.add_secure_port(self.target, server_credentials(*self._tls.files))
        self._server.start()

    def close(self) -> None:
        """Refuse connections and cut those that are open."""
        self.stopping.set()
        self._server.stop(None).wait()
        self._threads.shutdown()

    def _serve(self, method: str, content: bytes, context: Any) -> bytes:
        exchange = GrpcExchange(self, method, content, context)
        answer = None
        with suppress(GoneError, OSError):
            answer = self.observer.answer(exchange)
        if exchange.call.answered_at is None:
            exchange.call.left_at = time.monotonic()
        if answer is not None and "code" in answer.headers:
            code, text, orbit_code = (answer.headers[name] for name in ("code", "text", "orbit-error-code"))
            context.set_trailing_metadata((("orbit-error-code", orbit_code),) if orbit_code else ())
            context.abort(grpc.StatusCode[code], text)
        if answer is None:
            context.abort(TORN.code, TORN.text)
            raise AssertionError
        return reply(exchange.kind, Told(answer.status, answer.body), context)
