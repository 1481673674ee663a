"""The demo's orders: read from the data file, written into the shop, each with the end it must have."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction

from example_project.demo import DemoError
from example_project.shop.data.make_orders import FILE
from example_project.shop.models import Customer, Item, Order


@dataclass(frozen=True)
class End:
    """How an execution ends."""

    status: str
    code: str  # the failure's code, "" for none
    steps: int  # how many steps get as far as an outcome


ENDS = {
    "paid": End("COMPLETED", "", 3),
    "declined": End("FAILED", "CARD_DECLINED", 2),
    "out_of_stock": End("FAILED", "OUT_OF_STOCK", 1),
    "invalid": End("FAILED", "INVALID_ORDER", 1),
}


@dataclass(frozen=True)
class ExpectedOrder:
    """One order of the data file, as a row of the shop."""

    order: Order
    card: str
    expected: str

    @property
    def end(self) -> End:
        """The end that its execution must have."""
        return ENDS[self.expected]


@transaction.atomic
def write_orders(count: int) -> list[ExpectedOrder]:
    """Fill the empty shop with the file's items and its first orders, and return these."""
    data = json.loads(FILE.read_text(encoding="utf-8"))
    if count > len(data["orders"]):
        raise DemoError(f"{FILE.name} has {len(data['orders'])} orders, {count} were asked for")
    items = {entry["sku"]: Item.objects.create(**entry) for entry in data["items"]}
    chosen = data["orders"][:count]
    customers = _customers(chosen)
    return [
        ExpectedOrder(
            order=Order.objects.create(
                number=entry["number"],
                customer=customers[entry["email"]],
                item=items[entry["sku"]],
                quantity=entry["quantity"],
            ),
            card=entry["card"],
            expected=entry["expected"],
        )
        for entry in chosen
    ]


def _customers(entries: Sequence[dict[str, str]]) -> dict[str, Customer]:
    names = {entry["email"]: entry["customer"] for entry in entries}
    return {email: Customer.objects.create(email=email, name=name) for email, name in names.items()}
