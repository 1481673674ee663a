"""Taking an order from a person: the order and the start of its workflow are one transaction."""

from django.db import transaction
from django.utils.crypto import get_random_string

from example_project.shop.models import WORKFLOW, Customer, Item, Order
from orbit_django.client import start_on_commit

READABLE = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"


@transaction.atomic
def place_order(*, name: str, email: str, item: Item, quantity: int, card: str) -> Order:
    """Write an order and have its workflow started once this transaction has committed.

    The wish to start is a row of the same transaction: when the process dies right after it, or the runtime is
    away, a worker starts the workflow later, and the id makes it the same execution however often it is asked for.
    """
    customer, _ = Customer.objects.update_or_create(email=email, defaults={"name": name})
    number = get_random_string(10, READABLE)
    order = Order.objects.create(number=number, customer=customer, item=item, quantity=quantity)
    start_on_commit(WORKFLOW, order.workflow_input(card), execution_id=order.execution_id)
    return order
