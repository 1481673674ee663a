"""Taking an order from a person: first the order is committed, then its workflow is started."""

from contextlib import closing

from django.db import transaction
from django.utils.crypto import get_random_string

from example_project.shop.models import WORKFLOW, Customer, Item, Order
from orbit_django.client import Client

READABLE = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"


@transaction.atomic
def place_order(*, name: str, email: str, item: Item, quantity: int, card: str) -> Order:
    """Write an order, and start its workflow as soon as the order is committed.

    When the runtime is away the order stays, and the error is logged: start it later under the same id, which makes
    a second start of one order the same execution.
    """
    customer, _ = Customer.objects.update_or_create(email=email, defaults={"name": name})
    number = get_random_string(10, READABLE)
    order = Order.objects.create(number=number, customer=customer, item=item, quantity=quantity)
    transaction.on_commit(lambda: _start(order, card), robust=True)
    return order


def _start(order: Order, card: str) -> None:
    with closing(Client()) as client:
        client.start(WORKFLOW, order.workflow_input(card), execution_id=order.execution_id)
