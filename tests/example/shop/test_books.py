import pytest
from django.utils import timezone

from example_project.demo.books import Books
from example_project.demo.orders import write_orders
from example_project.demo.scene import Scene
from example_project.shop import mail, stock
from example_project.shop.models import Item, Payment, Receipt, StockMovement
from example_project.shop.payment import provider
from orbit_django.models import OutboxMessage

COUNT = 12  # enough for each kind of end


def carry_out(each):
    """Do for a paid order what its three steps do."""
    order, key = each.order, each.order.execution_id
    stock.take(order)
    charge_id = provider().charge(key, each.card, order.total_cents)
    Payment.objects.create(order=order, charge_id=charge_id, amount_cents=order.total_cents)
    message_id = mail.send_receipt(key, order.customer.email, "Thank you")
    Receipt.objects.create(order=order, sent_to=order.customer.email, message_id=message_id)


def execution(each):
    end = each.end
    return {"status": end.status} | ({"error": {"code": end.code, "message": ""}} if end.code else {})


@pytest.fixture
def orders(db):
    orders = write_orders(COUNT)
    for each in orders:
        if each.expected == "paid":
            carry_out(each)
    return orders


@pytest.fixture
def books(orders, tmp_path):
    books = Books(Scene(folder=tmp_path, port=1), orders)
    books.executions = {each.order.number: execution(each) for each in orders}
    return books


@pytest.fixture
def paid(orders):
    return next(each.order for each in orders if each.expected == "paid" and each.order.total_cents)


@pytest.fixture
def declined(orders):
    return next(each.order for each in orders if each.expected == "declined")


def test_books_without_a_fault_have_no_problem(books):
    assert books.problems() == []


def test_an_execution_that_still_runs_is_told(books, paid):
    books.executions[paid.number] = {"status": "RUNNING"}
    assert books.problems() == [f"order {paid}: its execution is RUNNING, the data file expects COMPLETED"]


def test_an_execution_that_failed_for_another_reason_is_told(books, declined):
    books.executions[declined.number]["error"]["code"] = "TIMEOUT"
    assert "FAILED TIMEOUT, the data file expects FAILED CARD_DECLINED" in books.problems()[0]


def test_a_missing_payment_is_told(books, paid):
    Payment.objects.get(order=paid).delete()
    assert f"order {paid} (paid): 0 payments, expected 1" in books.problems()


def test_a_second_movement_is_told(books, paid):
    StockMovement.objects.create(order=paid, item=paid.item, quantity=-1)
    assert books.problems() == [f"order {paid} (paid): 2 stock movements, expected 1"]


def test_goods_that_vanished_are_told(books, paid):
    Item.objects.filter(pk=paid.item_id).update(on_hand=1)
    assert [problem for problem in books.problems() if "1 pieces on the shelf" in problem]


def test_a_receipt_for_a_declined_order_is_told(books, declined):
    Receipt.objects.create(order=declined, message_id="<x@shop.example>", sent_to="x@shop.example")
    assert f"order {declined} (declined): 1 receipts, expected 0" in books.problems()


def test_a_second_mail_is_told(books, paid):
    mail.send_receipt(paid.execution_id, "x@shop.example", "Thank you again")
    assert books.problems() == [f"order {paid} (paid): 2 mails, expected 1"]


def test_a_mail_that_nobody_accounts_for_is_told(books):
    mail.send_receipt("another key", "x@shop.example", "Hello")
    assert "mails were sent, but the receipts account for" in books.problems()[0]


def test_money_taken_under_a_second_key_is_told(books, paid):
    provider().charge("another key", "tok_visa", 1)
    assert "the provider took" in books.problems()[0]


def test_results_that_wait_are_told(books):
    OutboxMessage.objects.create(
        token="t", token_hash="h", kind="complete", status="pending", created_at=timezone.now()
    )
    assert books.problems() == ["1 results are pending"]


def dispatched(step, attempt=1):
    return {"event": "StepDispatched", "step": step, "attempt": attempt}


def test_deliveries_are_told_apart_and_add_up(books):
    scheduled = {"event": "StepScheduled", "step": "charge", "attempt": 1, "redelivery": True}
    again = [dispatched("reserve"), dispatched("charge"), scheduled, dispatched("charge"), scheduled]
    books.histories = [again, [dispatched("reserve"), dispatched("reserve", attempt=2)]]
    books.runs = 3
    rows = dict(books.rows())
    assert rows["Deliveries by the runtime"] == 5
    assert (rows["  for the first time"], rows["  again, after an unknown outcome"]) == (4, 1)
    assert (rows["  handler runs"], rows["  replays from the record"]) == (3, 0)
    assert rows["  neither, since the worker was killed before"] == 2


def test_a_run_made_again_within_a_delivery_is_taken_off(books):
    books.histories, books.runs = [[dispatched("reserve")]], 2
    assert dict(books.rows())["  less: runs made again within one delivery"] == -1
