from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from example_project.shop import mail
from example_project.shop.models import Item, Payment, Receipt, Reservation, StockMovement
from example_project.shop.payment import Provider, provider
from example_project.shop.tasks_orbit import (
    ChargeInput,
    ReceiptInput,
    ReserveInput,
    charge,
    reserve,
    send_receipt,
)
from orbit_django import TaskError


def fail_with(code):
    return pytest.raises(TaskError, check=lambda error: error.code == code and not error.retryable)


def test_reserve_holds_the_goods_and_says_what_they_cost(make_order, context):
    order = make_order(quantity=3)
    assert reserve(ReserveInput("0001"), context).amount_cents == 2550
    held = Reservation.objects.live().get()
    assert (held.order, held.quantity) == (order, 3)


def test_reserve_refuses_an_order_for_nothing(make_order, context):
    make_order(quantity=0)
    with fail_with("INVALID_ORDER"):
        reserve(ReserveInput("0001"), context)


def test_reserve_refuses_an_order_that_does_not_exist(db, context):
    with fail_with("UNKNOWN_ORDER"):
        reserve(ReserveInput("4711"), context)


def test_goods_that_others_hold_are_not_free(make_order, context):
    make_order(quantity=7)
    reserve(ReserveInput("0001"), context)
    make_order(quantity=4, number="0002")
    with fail_with("OUT_OF_STOCK"):
        reserve(ReserveInput("0002"), context)


def test_a_reservation_that_ran_out_holds_nothing(make_order, context):
    make_order(quantity=7)
    reserve(ReserveInput("0001"), context)
    Reservation.objects.update(held_until=timezone.now() - timedelta(seconds=1))
    make_order(quantity=4, number="0002")
    assert reserve(ReserveInput("0002"), context).amount_cents == 3400


def test_charge_takes_the_goods_and_the_money(make_order, item, context):
    order = make_order(quantity=2)
    reserve(ReserveInput("0001"), context)
    charged = charge(ChargeInput("0001", "tok_visa", 1700), context)
    item.refresh_from_db()
    assert item.on_hand == 8
    assert not Reservation.objects.exists()
    assert StockMovement.objects.get(order=order).quantity == -2
    assert Payment.objects.get(order=order).charge_id == charged.charge


def test_charge_reserves_again_what_ran_out_meanwhile(make_order, item, context):
    make_order(quantity=2)
    charge(ChargeInput("0001", "tok_visa", 1700), context)
    item.refresh_from_db()
    assert item.on_hand == 8


def test_a_declined_card_leaves_the_goods_on_the_shelf(make_order, item, context):
    make_order(quantity=2)
    reserve(ReserveInput("0001"), context)
    with fail_with("CARD_DECLINED"):
        charge(ChargeInput("0001", "tok_declined", 1700), context)
    item.refresh_from_db()
    assert item.on_hand == 10
    assert not StockMovement.objects.exists()
    assert not Payment.objects.exists()
    assert provider().charged_cents() == {}


def test_a_run_that_died_after_the_provider_answered_is_repeated_without_a_second_charge(make_order, context):
    make_order(quantity=2)
    with transaction.atomic():  # what the handler wrote is lost with its process; the provider forgets nothing
        charge(ChargeInput("0001", "tok_visa", 1700), context)
        transaction.set_rollback(True)
    charge(ChargeInput("0001", "tok_visa", 1700), context)
    assert provider().calls_per_key().total() == 2
    assert provider().charged_cents() == {"order-0001/step charge": 1700}


def test_goods_that_went_to_others_while_the_card_was_charged_are_paid_back(make_order, item, context, monkeypatch):
    make_order(quantity=2)
    pay = Provider.charge

    def pay_slowly(*arguments):
        Reservation.objects.all().delete()
        Item.objects.update(on_hand=1)
        return pay(*arguments)

    monkeypatch.setattr(Provider, "charge", pay_slowly)
    with fail_with("OUT_OF_STOCK"):
        charge(ChargeInput("0001", "tok_visa", 1700), context)
    assert not StockMovement.objects.exists()
    assert not Payment.objects.exists()
    assert provider().charged_cents() == {}


def test_send_receipt_mails_and_keeps_a_row(make_order, context):
    order = make_order()
    assert send_receipt(ReceiptInput("0001", "Zoë", "zoe@shop.example", "ch_1", 1700), context).receipt == "R-0001"
    receipt = Receipt.objects.get(order=order)
    assert receipt.sent_to == "zoe@shop.example"
    assert mail.sent_mails() == {receipt.message_id: 1}
