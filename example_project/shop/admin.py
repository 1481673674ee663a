"""The shop's tables in the admin. What the handlers wrote is a record of what happened: shown, not edited."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from example_project.shop.models import Customer, Item, Order, Payment, Receipt, Reservation, StockMovement


class ShopAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # it is generic for the type checker alone
    """What all pages of the shop have in common."""

    list_per_page = 50


class RecordAdmin(ShopAdmin):
    """Rows that only handlers write."""

    def has_add_permission(self, request: HttpRequest, *_args: Any) -> bool:
        """Refuse: a person's row would have no step behind it."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse, which makes the pages read-only."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse: the step's record would go on saying that the row exists."""
        return False


@admin.register(Customer)
class CustomerAdmin(ShopAdmin):
    """Customers."""

    list_display = ["name", "email"]
    search_fields = ["name", "email"]


@admin.register(Item)
class ItemAdmin(ShopAdmin):
    """What the shop sells."""

    list_display = ["sku", "name", "price_cents", "on_hand"]
    search_fields = ["sku", "name"]


@admin.register(Order)
class OrderAdmin(ShopAdmin):
    """Orders, with what became of them."""

    list_display = ["number", "customer", "item", "quantity", "placed_at", "payment", "receipt"]
    list_select_related = ["customer", "item", "payment", "receipt"]
    search_fields = ["number", "customer__name", "customer__email"]
    date_hierarchy = "placed_at"


@admin.register(Reservation)
class ReservationAdmin(RecordAdmin):
    """Goods held."""

    list_display = ["order", "item", "quantity", "held_until"]


@admin.register(StockMovement)
class StockMovementAdmin(RecordAdmin):
    """Goods moved."""

    list_display = ["moved_at", "item", "quantity", "order"]
    search_fields = ["order__number", "item__sku"]


@admin.register(Payment)
class PaymentAdmin(RecordAdmin):
    """Money taken."""

    list_display = ["paid_at", "order", "amount_cents", "charge_id"]
    search_fields = ["order__number", "charge_id"]


@admin.register(Receipt)
class ReceiptAdmin(RecordAdmin):
    """Receipts mailed."""

    list_display = ["sent_at", "order", "sent_to", "message_id"]
    search_fields = ["order__number", "sent_to"]
