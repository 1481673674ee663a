"""The lean runtime with a gRPC side beside the HTTP one: one plan, so that both bindings are measured in one run.

It prints the HTTP port and then the gRPC port. Messages are built by hand from bytes that were prepared beforehand.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from benchmarks.plan import ANSWERS, ELSEWHERE
from benchmarks.runtime import Runtime
from orbit_django.embedded.grpc_server.messages import CALLS, content_of
from orbit_django.transports.proto import worker_pb2 as pb

LOOK_SECONDS = 0.002
HEAD = b"\r\n\r\n"


class GrpcSide:
    """The six calls, from the plan of the runtime beside it."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = threading.Lock()
        self._accepted = pb.TaskResultAck(accepted=True).SerializeToString()
        served = {
            "RegisterWorker": self._register,
            "PollTask": self._poll,
            "CompleteTask": self._complete,
            "FailTask": self._fail,
            "Heartbeat": self._beat,
            "UnregisterWorker": lambda content, context: pb.UnregisterWorkerResponse(accepted=True).SerializeToString(),
        }
        handlers = {name: grpc.unary_unary_rpc_method_handler(serve) for name, serve in served.items()}
        handler = grpc.method_handlers_generic_handler("orbit.worker.v1.WorkerService", handlers)
        self._server = grpc.server(ThreadPoolExecutor(64), [handler])
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def _register(self, content: bytes, context: Any) -> bytes:
        with self._lock:
            body = json.loads(self._runtime._register().partition(HEAD)[2])
        return content_of(CALLS["RegisterWorker"], body)

    def _poll(self, content: bytes, context: Any) -> bytes:
        asked = pb.PollTaskRequest.FromString(content)
        plan = self._runtime.plan
        plan.calls["poll"] = plan.calls.get("poll", 0) + 1
        plan.polled_at = plan.polled_at or time.monotonic()
        if "poll" in plan.refuse:
            context.abort(grpc.StatusCode.INTERNAL, "UNAVAILABLE: away")
        if asked.worker_session_id.encode() not in self._runtime._sessions:
            context.abort(grpc.StatusCode.NOT_FOUND, json.loads(ELSEWHERE)["error"]["code"] + ": register again")
        return self._found(time.monotonic() + asked.wait_ms / 1000)

    def _found(self, end: float) -> bytes:
        while (now := time.monotonic()) < end:
            plan = self._runtime.plan
            with self._lock:
                task = plan.assignment(now) if plan.is_due(now) else None
            if task is not None:
                return content_of(CALLS["PollTask"], json.loads(task.partition(HEAD)[2]))
            threading.Event().wait(LOOK_SECONDS)
        return b""

    def _complete(self, content: bytes, context: Any) -> bytes:
        return self._reported("complete", pb.CompleteTaskRequest.FromString(content).token)

    def _fail(self, content: bytes, context: Any) -> bytes:
        return self._reported("fail", pb.FailTaskRequest.FromString(content).token)

    def _reported(self, name: str, token: str) -> bytes:
        with self._lock:
            answer = self._runtime.plan.report(name, token.encode())
        if answer is ANSWERS["accepted"]:
            return self._accepted
        return content_of(CALLS["CompleteTask"], json.loads(answer.partition(HEAD)[2]))

    def _beat(self, content: bytes, context: Any) -> bytes:
        return pb.HeartbeatResponse(accepted=True).SerializeToString()


if __name__ == "__main__":
    runtime = Runtime(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    side = GrpcSide(runtime)
    print(runtime.port, flush=True)
    print(side.port, flush=True)
    runtime.run()
