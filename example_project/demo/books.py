"""The books after the last order: what the shop, the provider, the mail folder and the runtime have written down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import requests
from django.db.models import Sum

from example_project.demo.orders import ExpectedOrder
from example_project.demo.scene import Scene
from example_project.demo.screen import Row
from example_project.shop.mail import sent_mails
from example_project.shop.models import Item, Payment, Receipt, StockMovement
from example_project.shop.payment import provider
from example_project.shop.tasks_orbit import STARTED
from orbit_django.client import Client
from orbit_django.models import OutboxMessage

UNSENT = ("pending", "blocked")


class Books:
    """Every record of one performance, and what is wrong with it."""

    def __init__(self, scene: Scene, orders: Sequence[ExpectedOrder]) -> None:
        self._scene = scene
        self._orders = orders

    @cached_property
    def executions(self) -> dict[str, dict[str, Any]]:
        """What the runtime says of each execution, by order number."""
        client = Client()
        return {each.order.number: client.get(each.order.execution_id) for each in self._orders}

    @cached_property
    def histories(self) -> list[list[dict[str, Any]]]:
        """What happened, execution by execution: each a list of events."""
        headers = {"authorization": f"Bearer {self._scene.admin_token}"}
        found = []
        for each in self._orders:
            path = f"{self._scene.server}/v1/executions/{each.order.execution_id}/history"
            answer = requests.get(path, headers=headers, timeout=10)
            answer.raise_for_status()
            found.append(answer.json())
        return found

    @cached_property
    def runs(self) -> int:
        """How often a handler began to run, those that died included."""
        log = self._scene.run_log
        return log.read_text(encoding="utf-8").splitlines().count(STARTED) if log.exists() else 0

    @property
    def deliveries(self) -> Counter[str]:
        """How many deliveries were the ``first`` of their attempt, and how many came ``again``."""
        found: Counter[str] = Counter()
        for history in self.histories:
            given = [(event["step"], event["attempt"]) for event in history if event["event"] == "StepDispatched"]
            found.update(first=len(set(given)), again=len(given) - len(set(given)))
        return found

    @property
    def replays(self) -> int:
        """How many deliveries were answered with a stored outcome, under the new delivery's token."""
        reports = OutboxMessage.objects.filter(record__isnull=False)
        return reports.count() - reports.values("record", "attempt").distinct().count()

    def problems(self) -> list[str]:
        """Return everything that is not as it must be, one text each."""
        return [*self._wrong_ends(), *self._wrong_rows(), *self._wrong_stock(), *self._wrong_money(), *self._unsent()]

    def rows(self) -> list[Row]:
        """Return the table for people."""
        ends = Counter(_end(execution) for execution in self.executions.values())
        calls = provider().calls_per_key()
        messages = OutboxMessage.objects.all()
        deliveries = self.deliveries
        return [
            ("Executions", len(self.executions)),
            *((f"  {status} {code}".rstrip(), number) for (status, code), number in sorted(ends.items())),
            ("Deliveries by the runtime", deliveries.total()),
            ("  for the first time", deliveries["first"]),
            ("  again, after an unknown outcome", deliveries["again"]),
            ("What came of them", ""),
            ("  handler runs", self.runs),
            ("  replays from the record", self.replays),
            _rest(deliveries.total() - self.runs - self.replays),
            ("Results delivered", f"{messages.exclude(status__in=UNSENT).count()} of {messages.count()}"),
            ("Calls of the payment provider", calls.total()),
            ("  most for one order", max(calls.values(), default=0)),
            ("  charges taken", len(provider().charged_cents())),
            ("Payments", Payment.objects.count()),
            ("Stock movements", StockMovement.objects.count()),
            ("Receipts", Receipt.objects.count()),
            ("Mails", sent_mails().total()),
        ]

    def _wrong_ends(self) -> Iterator[str]:
        for each in self._orders:
            found, wanted = _end(self.executions[each.order.number]), (each.end.status, each.end.code)
            if found != wanted:
                yield f"order {each.order}: its execution is {_words(found)}, the data file expects {_words(wanted)}"

    def _wrong_rows(self) -> Iterator[str]:
        mails = sent_mails()
        mailed = {receipt.order_id: mails[receipt.message_id] for receipt in Receipt.objects.all()}
        counted = {
            "payments": Counter(Payment.objects.values_list("order_id", flat=True)),
            "stock movements": Counter(StockMovement.objects.values_list("order_id", flat=True)),
            "receipts": Counter(Receipt.objects.values_list("order_id", flat=True)),
            "mails": mailed,
        }
        for each in self._orders:
            wanted = 1 if each.expected == "paid" else 0
            for what, by_order in counted.items():
                if (found := by_order.get(each.order.pk, 0)) != wanted:
                    yield f"order {each.order} ({each.expected}): {found} {what}, expected {wanted}"
        if mails.total() != sum(mailed.values()):
            yield f"{mails.total()} mails were sent, but the receipts account for {sum(mailed.values())}"

    def _wrong_stock(self) -> Iterator[str]:
        bought: Counter[int] = Counter()
        for each in self._orders:
            bought[each.order.item_id] += each.order.quantity if each.expected == "paid" else 0
        before = {each.order.item_id: each.order.item.on_hand for each in self._orders}
        for item in Item.objects.filter(pk__in=before):
            wanted = before[item.pk] - bought[item.pk]
            if item.on_hand != wanted:
                yield f"{item}: {item.on_hand} pieces on the shelf, expected {wanted}"

    def _wrong_money(self) -> Iterator[str]:
        taken = provider().charged_cents()
        paid = Payment.objects.aggregate(total=Sum("amount_cents"))["total"] or 0
        wanted = [each.order.total_cents for each in self._orders if each.expected == "paid"]
        if (len(taken), sum(taken.values()), paid) != (len(wanted), sum(wanted), sum(wanted)):
            yield (
                f"the provider took {sum(taken.values())} cents in {len(taken)} charges and the shop recorded {paid}; "
                f"expected {sum(wanted)} cents in {len(wanted)} charges"
            )

    def _unsent(self) -> Iterator[str]:
        for status in UNSENT:
            if number := OutboxMessage.objects.filter(status=status).count():
                yield f"{number} results are {status}"


def _rest(number: int) -> Row:
    """Return the row that makes the deliveries add up."""
    if number < 0:
        return ("  less: runs made again within one delivery", number)
    return ("  neither, since the worker was killed before", number)


def _end(execution: dict[str, Any]) -> tuple[str, str]:
    """Return status and failure code of an execution."""
    return execution["status"], (execution.get("error") or {}).get("code", "")


def _words(end: tuple[str, str]) -> str:
    return " ".join(end).strip()
