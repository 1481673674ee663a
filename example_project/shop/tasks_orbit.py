"""The three handlers that carry an order out; ``workflows/order.orbit`` says in which order they run.

``reserve`` is atomic, the default: its rows commit together with the record that says "done", or none do. ``charge``
talks to a payment provider and ``send_receipt`` to a mail server, which no transaction can undo, so they are not
atomic: each call is on record before it is made, and each group of rows is written once.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from example_project.shop import mail, stock
from example_project.shop.models import Order, Payment, Receipt, as_amount
from example_project.shop.payment import CardDeclined, provider
from orbit_django import TaskContext, TaskError, task

STARTED = "handler started"  # the logger adds execution, step and attempt; counting these lines counts the runs


@dataclass(frozen=True)
class ReserveInput:
    """The order whose goods are wanted."""

    order: str


@dataclass(frozen=True)
class Reserved:
    """What the order costs, now that its goods are held."""

    amount_cents: int


@dataclass(frozen=True)
class ChargeInput:
    """The order, the card's token and the amount to take."""

    order: str
    card: str
    amount_cents: int


@dataclass(frozen=True)
class Charged:
    """The provider's name for the charge."""

    charge: str


@dataclass(frozen=True)
class ReceiptInput:
    """The order that was paid, and how the customer wanted to be called and reached."""

    order: str
    customer: str
    email: str
    charge: str
    amount_cents: int


@dataclass(frozen=True)
class ReceiptSent:
    """The receipt's number."""

    receipt: str


@task("shop.reserve", version="1.0.0")
def reserve(input: ReserveInput, ctx: TaskContext) -> Reserved:
    """Hold the goods of an order, so that nobody else gets them while the card is charged."""
    ctx.logger.info(STARTED)
    order = _find(input.order)
    if order.quantity == 0:
        raise TaskError("INVALID_ORDER", "an order needs at least one piece", retryable=False)
    with _refusals():
        stock.hold(order)
    return Reserved(amount_cents=order.total_cents)


@task("shop.charge", version="1.0.0", atomic=False, sensitive=True)
def charge(input: ChargeInput, ctx: TaskContext) -> Charged:
    """Take the money off the card and the goods off the shelf.

    When the process dies while charging, the next run asks again with the same key, and the provider takes nothing
    twice. What the order was given meanwhile is on record, so no later run decides differently.
    """
    ctx.logger.info(STARTED)
    key = ctx.effect_key("charge")
    ctx.transaction("hold", _hold, input.order)  # again, so that the goods stay free for as long as the call takes
    charge_id: str = ctx.effect("charge", _charge, key, input.card, input.amount_cents, idempotent=True)
    if not ctx.transaction("payment", _book, input.order, charge_id, input.amount_cents):
        ctx.effect("refund", provider().refund, key, idempotent=True)
        raise TaskError("OUT_OF_STOCK", "the goods went to others; the money was given back", retryable=False)
    return Charged(charge=charge_id)


@task("shop.send_receipt", version="1.0.0", atomic=False)
def send_receipt(input: ReceiptInput, ctx: TaskContext) -> ReceiptSent:
    """Mail the receipt once and keep a row of it.

    When the process dies while mailing, the next run does not mail again on a guess: it asks ``find_receipt``.
    """
    ctx.logger.info(STARTED)
    key = ctx.effect_key("mail")
    text = mail.TEXT.format(**asdict(input), amount=as_amount(input.amount_cents))
    message_id = ctx.effect("mail", mail.send_receipt, key, input.email, text, find=mail.find_receipt)
    number = ctx.transaction("receipt", _keep_receipt, input.order, input.email, message_id)
    return ReceiptSent(receipt=number)


def _hold(number: str) -> None:
    with _refusals():
        stock.hold(_find(number))


def _charge(key: str, card: str, amount_cents: int) -> str:
    with _refusals():  # a TaskError says that nothing was taken
        return provider().charge(key, card, amount_cents)


def _book(number: str, charge_id: str, amount_cents: int) -> bool:
    """Record the payment and take the goods; return False when a hold ran out and others have them."""
    order = _find(number)
    try:
        stock.take(order)
    except stock.OutOfStock:
        return False
    Payment.objects.create(order=order, charge_id=charge_id, amount_cents=amount_cents)
    return True


def _keep_receipt(number: str, email: str, message_id: str) -> str:
    receipt = Receipt.objects.create(order=_find(number), sent_to=email, message_id=message_id)
    return str(receipt)


def _find(number: str) -> Order:
    try:
        return Order.objects.select_related("item").get(number=number)
    except Order.DoesNotExist:
        raise TaskError("UNKNOWN_ORDER", f"there is no order {number}", retryable=False) from None


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn the shop's own refusals into failures that the workflow knows and never retries."""
    try:
        yield
    except stock.OutOfStock as refusal:
        raise TaskError("OUT_OF_STOCK", str(refusal), retryable=False) from refusal
    except CardDeclined as refusal:
        raise TaskError("CARD_DECLINED", str(refusal), retryable=False) from refusal
