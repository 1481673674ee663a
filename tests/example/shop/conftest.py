import logging
from types import SimpleNamespace

import django
import pytest

from example_project.shop.models import Customer, Item, Order


def mail_by(settings, backend):
    """Have mail sent by a backend; since Django 6.1 the setting is another one."""
    if django.VERSION >= (6, 1):
        settings.MAILERS = {"default": {"BACKEND": backend}}
    else:
        settings.EMAIL_BACKEND = backend


@pytest.fixture(autouse=True)
def own_stores(settings, tmp_path):
    """Give each test its own payment provider and its own mail folder."""
    settings.SHOP_PROVIDER_FILE = tmp_path / "provider.sqlite3"
    settings.SHOP_MAIL_FOLDER = tmp_path / "mail"
    mail_by(settings, "example_project.shop.mail.FolderBackend")


@pytest.fixture
def item(db):
    return Item.objects.create(sku="TEA-1", name="緑茶", price_cents=850, on_hand=10)


@pytest.fixture
def make_order(item):
    def make(quantity=2, number="0001", name="Zoë"):
        customer, _ = Customer.objects.get_or_create(email=f"customer+{number}@shop.example", defaults={"name": name})
        return Order.objects.create(number=number, customer=customer, item=item, quantity=quantity)

    return make


@pytest.fixture
def context():
    """What a handler sees, without a runtime: effects happen, nothing is kept."""

    def call(name, function, *args, find=None, idempotent=False):
        return function(*args)

    return SimpleNamespace(
        idempotency_key="order-0001/step",
        effect=call,
        transaction=call,
        effect_key=lambda name: f"order-0001/step {name}",
        logger=logging.getLogger("orbit_django.handlers"),
    )
