"""The laboratory over a Weave server: the same handlers, workers and strikes, but another judge of what it knows."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from orbit_django.embedded.weave.faults import Faults
from orbit_django.embedded.weave.platform import ENVIRONMENT, PROJECT, SECRET, TENANT
from orbit_django.embedded.weave.server import ORDINARY, EmbeddedWeave
from orbit_django.models import IdempotencyRecord, OutboxMessage
from tests.crash.invariants import concurrent, effects, fields_of, ledger, unended
from tests.crash.lab import LOOPS, Experiment, none_pending
from tests.crash.lab_handlers import FOLDER
from tests.crash.nursery import MORE, Nursery
from tests.crash.proxy import Proxy
from tests.crash.schedule import Schedule, Start, Strike
from tests.embedded.wire import Client
from tests.testapp.models import Charge

CALLS = {"poll": "claim"}
DIGEST = "sha256:" + "c" * 64
LEASE_SECONDS = 3.0  # shorter than a pause of a worker, so that leases are lost


class WeaveExperiment(Experiment):
    """One schedule over a Weave server; keys that are used again have no counterpart there."""

    limit_seconds = 40.0  # an attempt that is lost comes again only after its lease and a step of recovery

    def __init__(self, plan: Schedule, folder: Path, nursery: Nursery, proxy: Proxy | None) -> None:
        firsts = tuple(start for start in plan.starts if "-again-" not in start.execution_id)
        self.plan, self._folder, self._nursery, self._proxy = replace(plan, starts=firsts), folder, nursery, proxy
        self._faults = Faults()
        self._runtime = EmbeddedWeave(
            faults=self._faults, limits=ORDINARY, lease_seconds=LEASE_SECONDS, recovery_seconds=0.2, token_seconds=60
        )
        self._tasks: dict[str, str] = {}
        self._prepare()

    def __enter__(self) -> "WeaveExperiment":
        self._stack.enter_context(self._runtime)
        self._stack.callback(self._end_workers)
        self._release_id = self._admit()
        return self

    def _judge(self) -> list[str]:
        tasks = {key: self._runtime.call("task", task_id=task_id) for key, task_id in self._tasks.items()}
        starts = tuple(replace(start, key=tasks[start.key]["operation_key"]) for start in self.plan.starts)
        self._evidence.plan = replace(self.plan, starts=starts)
        for call in ("complete", "fail"):
            self._evidence.bodies += [(call, one.body or b"") for one in self._runtime.recorder.of(call)]
        found = [*ends(tasks), *same_bytes(self._evidence.bodies), *proofs_left(), *unended(self._evidence)]
        return [*found, *ledger(self._evidence.plan), *effects(self._evidence), *concurrent(self._evidence)]

    def _key_of(self, key: str) -> str:
        return str(self._runtime.call("task", task_id=self._tasks[key])["operation_key"]) if key in self._tasks else ""

    def _is_over(self) -> bool:
        if len(self._tasks) < len(self.plan.starts):
            return False
        statuses = {self._runtime.call("task", task_id=task_id)["status"] for task_id in self._tasks.values()}
        return none_pending() and statuses == {"completed"}

    def _admit(self) -> str:
        declared = [
            {
                "taskType": f"lab.{name}",
                "taskVersion": "1.0.0",
                "inputSchema": {},
                "outputSchema": {},
                "sideEffect": "idempotency_key",
                "timeoutSeconds": 300,
            }
            for name in ("atomic", "effect", "flaky", "forgetful", "rows")
        ]
        client = Client(self._runtime.url)
        headers = {"authorization": f"Bearer {self._runtime.call('issue_token', name='deployer')}"}
        path = self._runtime.base_url.removeprefix(self._runtime.url) + "/worker-releases"
        body = json.dumps({"image_digest": DIGEST, "capabilities": declared}).encode()
        try:
            return str(client.send("POST", path, body, headers).json["id"])
        finally:
            client.close()

    def _hatch(self, number: int) -> int:
        self._count += 1
        worker_id = f"w{number}-{self._count}"
        arguments = ["--concurrency", str(LOOPS), "--task", "lab.*", "--worker-id", worker_id]
        oauth = {"TOKEN_URL": self._runtime.token_url, "CLIENT_ID": "worker", "CLIENT_SECRET": SECRET}
        place = {"SERVER": self._runtime.url, "TENANT": TENANT, "PROJECT": PROJECT, "ENVIRONMENT": ENVIRONMENT}
        weave = place | {"OAUTH": oauth, "RELEASE_ID": self._release_id}
        environment = {MORE: json.dumps({"TRANSPORT": "weave", "WEAVE": weave}), FOLDER: str(self._folder)}
        self._named[worker_id] = self._nursery.hatch(arguments, environment, self._folder / "workers.log")
        return self._named[worker_id]

    def _start(self, start: Start) -> None:
        self._tasks[start.key] = self._runtime.call(
            "create_task",
            capability=f"lab.{start.workflow.lower()}@1.0.0",
            input={"key": start.key, "pause_ms": start.pause_ms},
            step=start.key,
            retry={"maxAttempts": 60, "initialDelaySeconds": 0.1, "maxDelaySeconds": 0.5},
        )

    def _lost(self, strike: Strike) -> None:
        self._faults.add("lost", CALLS.get(strike.call, strike.call), times=strike.times)

    def _status(self, strike: Strike) -> None:
        self._faults.add("status", CALLS.get(strike.call, strike.call), value=503, times=strike.times)

    def _garbage(self, strike: Strike) -> None:
        self._faults.add("garbage", CALLS.get(strike.call, strike.call), times=strike.times)

    def _duplicate(self, strike: Strike) -> None:
        """Turn some calls away for want of room, since nothing is delivered twice here."""
        self._faults.add("capacity", "*", times=strike.times * 3)

    def _restart(self, strike: Strike) -> None:
        self._runtime.restart()

    def _expire(self, strike: Strike) -> None:
        """Take the rights of every instance and every token, in turn."""
        if strike.worker:
            self._runtime.call("expire_tokens")
            return
        for one in self._runtime.call("instances"):
            self._runtime.call("revoke_instance", worker_id=one["id"])


def ends(tasks: dict[str, Any]) -> Iterator[str]:
    """Every task is completed, once, by the outcome that the ledger and the business know."""
    for key, task in tasks.items():
        if task["status"] != "completed":
            yield f"{key} is {task['status']}: {task['incident']} {task['failure']}"
        counted = Counter(receipt["status"] for receipt in task["receipts"])
        if counted["completed"] != 1 or set(counted) - {"completed", "failed"}:
            yield f"{key} has the receipts {dict(counted)}"
        yield from _agreement(key, task)


def _agreement(key: str, task: dict[str, Any]) -> Iterator[str]:
    record = IdempotencyRecord.objects.filter(idempotency_key=task["operation_key"]).first()
    output = fields_of(record.output) or None if record else None
    if task["output"] != output:
        yield f"{key} was told {task['output']}, its record says {output}"
    row = Charge.objects.filter(key=task["operation_key"]).first()
    if row is not None and task["output"] and row.nonce != task["output"].get("nonce"):
        yield f"{key} was told of the row {task['output'].get('nonce')}, there is {row.nonce}"
    failed = [receipt["generation"] for receipt in task["receipts"] if receipt["status"] == "failed"]
    if record is not None and record.output is not None and any(number >= record.attempt for number in failed):
        yield f"generations {failed} of {key} failed, a success of {record.attempt} is stored"


def same_bytes(bodies: list[tuple[str, bytes]]) -> Iterator[str]:
    """All tries of one outcome were the same bytes, under the same completion id: a lease has one outcome."""
    seen: dict[tuple[str, str], set[bytes]] = {}
    for call, body in bodies:
        proof = fields_of(body).get("lease")
        if not isinstance(proof, dict):
            yield f"{call}: no report at all, {body[:200]!r}"
            continue
        seen.setdefault((call, f"{proof.get('task_id')}, generation {proof.get('generation')}"), set()).add(body)
    for (call, lease), different in seen.items():
        if len(different) > 1:
            yield f"{call}: {len(different)} different bodies for {lease}, such as {sorted(different)[:2]}"


def proofs_left() -> Iterator[str]:
    """No proof is kept once its outcome was answered."""
    for message in OutboxMessage.objects.answered().exclude(token=""):
        yield f"the proof of the {message.status} message {message.pk} is still there"
