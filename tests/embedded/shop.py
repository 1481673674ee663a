"""A workflow with everything that a file cannot say: fan-out, compensation, handlers, timeouts, defaults."""

from dataclasses import replace
from typing import Any

from orbit_django.contracts import (
    ANY,
    LIST,
    STRING,
    Call,
    Catalog,
    Literal,
    Reference,
    RetryPolicy,
    Step,
    TaskContract,
    Workflow,
)
from orbit_django.embedded.store import Store
from tests.embedded.world import World

TASKS = [
    TaskContract("shop.pack", "1", {"sku": ANY}, {"box": STRING}),
    TaskContract("shop.unpack", "1", {"box": STRING, "sku": ANY}),
    TaskContract(
        "shop.charge", "1", {"boxes": LIST}, {"charge": STRING, "currency": STRING}, defaults={"currency": "EUR"}
    ),
    TaskContract("shop.refund", "1", {"charge": STRING}),
    TaskContract("shop.send", "1", {"charge": STRING}),
    TaskContract("shop.tell", "1", {"why": STRING, "what": STRING}, {"told": STRING}),
    TaskContract("shop.other", "1", {"charge": STRING}, {"missing": STRING}),
    TaskContract("shop.close", "1", {"told": STRING}),
]
EVERY = [(task.name, task.version) for task in TASKS]
TELL = Step(
    name="tell",
    task_name="shop.tell",
    arguments={"why": Reference.to("$failure.reason"), "what": Reference.to("$failure.code")},
)
CLOSE = Step(name="close", task_name="shop.close", arguments={"told": Reference.to("tell.told")})
SHOP = Workflow(
    name="Shop",
    version="1",
    input={"items": LIST},
    output={"charge": STRING, "currency": STRING},
    steps=(
        Step(
            name="pack",
            task_name="shop.pack",
            each=Reference.to("input.items"),
            arguments={"sku": Reference.to("$item.sku")},
            retry=RetryPolicy(2, initial_delay_ms=1_000),
            compensation=Call(
                task_name="shop.unpack",
                arguments={"box": Reference.to("pack.box"), "sku": Reference.to("$item.sku")},
                timeout_ms=5_000,
                retry=RetryPolicy(2, initial_delay_ms=1_000),
            ),
        ),
        Step(
            name="charge",
            task_name="shop.charge",
            arguments={"boxes": Reference.to("pack")},
            compensation=Call(
                task_name="shop.refund",
                arguments={"charge": Reference.to("charge.charge")},
                idempotency_key=Literal("refund-1"),
            ),
        ),
        Step(
            name="send",
            task_name="shop.send",
            arguments={"charge": Reference.to("charge.charge")},
            queue_timeout_ms=4_000,
        ),
    ),
    result={"charge": Reference.to("charge.charge"), "currency": Reference.to("charge.currency")},
    on_failure=(CLOSE, TELL),
    on_cancel=(TELL,),
    on_timeout=(TELL,),
)


class Shop(World):
    """A world with the shop and one worker that takes everything."""

    def __init__(self, store: Store | None = None, **changed: Any) -> None:
        self.catalog = Catalog()
        self.catalog.declare(TASKS, [replace(SHOP, **changed)])
        super().__init__(store=store, text=self.catalog)
        self.worker = self.session("w-1", "python", *EVERY)

    def again(self) -> None:
        """Restart the runtime on the same store."""
        self.restart(self.catalog)
        self.worker = self.session("w-1", "python", *EVERY)

    def order(self, *skus: str, execution_id: str = "e-1") -> None:
        self.runtime.start("Shop", {"items": [{"sku": sku} for sku in skus]}, execution_id)

    def tasks(self) -> dict[str, dict[str, Any]]:
        """Take everything that is there, by step."""
        taken = {}
        while task := self.runtime.poll(self.worker):
            taken[task["step_id"]] = task
        return taken

    def pack(self, *skus: str) -> None:
        """Order, and pack everything."""
        self.order(*skus)
        for name, task in self.tasks().items():
            assert self.runtime.complete(task["token"], {"box": f"box of {name}"}) == {"accepted": True}

    def charge(self) -> None:
        (task,) = self.tasks().values()
        assert self.runtime.complete(task["token"], {"charge": "c-1"}) == {"accepted": True}

    def done(self, task: dict[str, Any], **output: Any) -> None:
        assert self.runtime.complete(task["token"], output) == {"accepted": True}

    def status(self) -> tuple[str, str | None]:
        execution = self.execution()
        return execution.status, execution.error and execution.error["code"]

    def units(self, kind: str) -> list[str]:
        """Return what the events of a kind are about, in order."""
        return [entry.get("step") or entry["unit"] for entry in self.history() if entry["event"] == kind]
