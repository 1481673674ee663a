"""The tables of the shop.

An order keeps what was asked for; what became of it is never written a second time, it shows in the rows that the
steps of its workflow left: a reservation, a stock movement and a payment, a receipt. Money is whole cents.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from django.db import models
from django.utils import timezone

WORKFLOW = "PlaceOrder"


def as_amount(cents: int) -> Decimal:
    """Return cents as an exact amount with two decimals."""
    return Decimal(cents).scaleb(-2)


class Customer(models.Model):
    """Someone who orders, known by the e-mail address."""

    email = models.EmailField(unique=True, help_text="Where receipts go; one customer per address.")
    name = models.CharField(max_length=200, help_text="As the customer writes it, in any script.")

    def __str__(self) -> str:
        return f"{self.name} <{self.email}>"


class Item(models.Model):
    """Something the shop sells."""

    sku = models.CharField(max_length=40, unique=True, help_text="The shop's own number of the item.")
    name = models.CharField(max_length=200, help_text="What customers see.")
    price_cents = models.PositiveBigIntegerField(help_text="Price of one piece, in cents.")
    on_hand = models.PositiveBigIntegerField(help_text="Pieces on the shelf; stock movements change it.")

    class Meta:
        ordering = ["sku"]

    def __str__(self) -> str:
        return f"{self.name} ({self.sku})"


class Order(models.Model):
    """What a customer asked for, and the name of the execution that carries it out."""

    number = models.CharField(max_length=40, unique=True, help_text="The number the customer is told.")
    customer = models.ForeignKey(Customer, on_delete=models.PROTECT, help_text="Who ordered.")
    item = models.ForeignKey(Item, on_delete=models.PROTECT, help_text="What was ordered.")
    quantity = models.PositiveIntegerField(help_text="Pieces ordered. An imported order may say 0: it is refused.")
    placed_at = models.DateTimeField(default=timezone.now, help_text="When the order came in.")

    class Meta:
        ordering = ["-placed_at", "-pk"]

    def __str__(self) -> str:
        return self.number

    @property
    def execution_id(self) -> str:
        """The id under which the workflow runs: starting one order twice is the same execution."""
        return f"order-{self.number}"

    @property
    def total_cents(self) -> int:
        """What the order costs, in cents."""
        return self.quantity * self.item.price_cents

    def workflow_input(self, card: str) -> dict[str, str]:
        """Return the input of ``PlaceOrder``; the card's token is only passed on, never stored with the order."""
        return {"order": self.number, "customer": self.customer.name, "email": self.customer.email, "card": card}


class ReservationQuerySet(models.QuerySet["Reservation"]):
    """The words for reservations."""

    def live(self, now: datetime | None = None) -> ReservationQuerySet:
        """Return those that still hold goods."""
        return self.filter(held_until__gt=now or timezone.now())


class Reservation(models.Model):
    """Goods held for an order while its card is charged.

    It ends by itself: an order that is never paid needs nobody to give its goods back.
    """

    order = models.OneToOneField(Order, on_delete=models.CASCADE, help_text="For which order.")
    item = models.ForeignKey(Item, on_delete=models.CASCADE, help_text="Which goods.")
    quantity = models.PositiveIntegerField(help_text="How many pieces.")
    held_until = models.DateTimeField(db_index=True, help_text="From then on others may have them.")

    objects = ReservationQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{self.quantity} of {self.item} for {self.order}"


class StockMovement(models.Model):
    """Pieces that left the shelf (negative) or came onto it (positive)."""

    item = models.ForeignKey(Item, on_delete=models.PROTECT, help_text="Which goods.")
    order = models.ForeignKey(Order, on_delete=models.PROTECT, related_name="movements", help_text="For which order.")
    quantity = models.BigIntegerField(help_text="How many pieces; negative when they left.")
    moved_at = models.DateTimeField(default=timezone.now, help_text="When.")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~models.Q(quantity=0), name="shop_movement_moves_something"),
        ]

    def __str__(self) -> str:
        return f"{self.quantity:+} of {self.item} for {self.order}"


class Payment(models.Model):
    """Money that the payment provider took for an order."""

    order = models.OneToOneField(Order, on_delete=models.PROTECT, help_text="For which order.")
    charge_id = models.CharField(max_length=80, unique=True, help_text="The provider's name for this charge.")
    amount_cents = models.PositiveBigIntegerField(help_text="How much, in cents.")
    paid_at = models.DateTimeField(default=timezone.now, help_text="When.")

    def __str__(self) -> str:
        return f"{as_amount(self.amount_cents)} for {self.order}"


class Receipt(models.Model):
    """A receipt that was mailed."""

    order = models.OneToOneField(Order, on_delete=models.PROTECT, help_text="For which order.")
    message_id = models.CharField(max_length=120, unique=True, help_text="The mail's Message-ID.")
    sent_to = models.EmailField(help_text="The address it went to.")
    sent_at = models.DateTimeField(default=timezone.now, help_text="When it was recorded.")

    def __str__(self) -> str:
        return f"R-{self.order}"
