"""Goods: held for an order, then taken off the shelf. Both need a transaction around them."""

from datetime import timedelta

from django.db.models import F, Sum
from django.utils import timezone

from example_project.shop.models import Item, Order, Reservation, StockMovement

HOLD = timedelta(minutes=15)


class OutOfStock(Exception):
    """There are fewer free pieces than the order asks for."""


def hold(order: Order) -> None:
    """Reserve the goods of an order; raise OutOfStock when too few are free."""
    item = Item.objects.select_for_update().get(pk=order.item_id)  # two orders for the last piece take turns here
    others = Reservation.objects.live().filter(item=item).exclude(order=order)
    free = item.on_hand - (others.aggregate(held=Sum("quantity"))["held"] or 0)
    if order.quantity > free:
        raise OutOfStock(f"{order.quantity} of {item} wanted, {max(free, 0)} free")
    Reservation.objects.update_or_create(
        order=order,
        defaults={"item": item, "quantity": order.quantity, "held_until": timezone.now() + HOLD},
    )


def take(order: Order) -> None:
    """Move the goods of an order off the shelf, which ends their reservation.

    A reservation that ran out meanwhile is made again first, so this raises OutOfStock as ``hold`` does.
    """
    if not Reservation.objects.live().filter(order=order).exists():
        hold(order)
    Reservation.objects.filter(order=order).delete()
    Item.objects.filter(pk=order.item_id).update(on_hand=F("on_hand") - order.quantity)
    StockMovement.objects.create(item=order.item, order=order, quantity=-order.quantity)
