"""The shop's pages: the order form, and one page per order."""

from contextlib import closing
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from example_project.shop.forms import OrderForm
from example_project.shop.models import Order
from example_project.shop.ordering import place_order
from orbit_django.client import Client
from orbit_django.exceptions import OrbitError


def home(request: HttpRequest) -> HttpResponse:
    """Show the order form and the latest orders; on POST, take an order and show its page."""
    form = OrderForm(request.POST or None)
    if form.is_valid():
        return redirect("order", place_order(**form.cleaned_data).number)
    latest = Order.objects.select_related("customer", "item", "payment", "receipt")[:20]
    return render(request, "shop/home.html", {"form": form, "orders": latest})


def order(request: HttpRequest, number: str) -> HttpResponse:
    """Show what became of one order: its rows, and what the runtime says of its execution."""
    found = get_object_or_404(Order.objects.select_related("customer", "item"), number=number)
    return render(request, "shop/order.html", {"order": found, "execution": _execution(found)})


def _execution(order: Order) -> dict[str, Any]:
    """Return what the runtime says; the page works without a runtime, so that one says why instead."""
    try:
        with closing(Client()) as client:
            return client.get(order.execution_id)
    except OrbitError as error:
        return {"status": "not known", "error": {"message": str(error)}}
