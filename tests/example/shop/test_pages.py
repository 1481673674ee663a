import json

import pytest
from django.contrib.auth import get_user_model

from example_project.shop.models import Order, Payment, Receipt
from orbit_django.models import WorkflowStart


@pytest.fixture(autouse=True)
def no_runtime(settings):
    settings.ORBIT = settings.ORBIT | {"SERVER": "http://127.0.0.1:9", "TOKEN": "secret"}


@pytest.fixture
def form(item):
    return {"name": "Siobhán O'Brien", "email": "s@shop.example", "item": item.pk, "quantity": 2, "card": "tok_visa"}


def test_an_order_and_the_start_of_its_workflow_are_written_together(client, form):
    answer = client.post("/", form)
    order, start = Order.objects.get(), WorkflowStart.objects.get()
    assert answer.url == f"/orders/{order.number}/"
    assert (start.workflow, start.execution_id, start.status) == ("PlaceOrder", order.execution_id, "pending")
    assert json.loads(start.input) == order.workflow_input("tok_visa")


def test_a_form_with_a_fault_orders_nothing(client, form):
    answer = client.post("/", form | {"quantity": 0})
    assert answer.status_code == 200
    assert not Order.objects.exists()


def test_the_page_of_an_order_works_without_a_runtime(client, make_order):
    make_order(name="<b>Bold</b>")
    page = client.get("/orders/0001/").content.decode()
    assert "not known" in page
    assert "&lt;b&gt;Bold&lt;/b&gt;" in page


def test_the_page_of_an_order_shows_what_became_of_it(client, make_order):
    order = make_order()
    Payment.objects.create(order=order, charge_id="ch_1", amount_cents=1700)
    Receipt.objects.create(order=order, message_id="<1@shop.example>", sent_to="s@shop.example")
    page = client.get("/orders/0001/").content.decode()
    assert "17.00 for 0001 (ch_1)" in page
    assert "R-0001, sent to s@shop.example" in page


def test_the_front_page_lists_orders_in_few_queries(client, make_order, django_assert_max_num_queries):
    for number in range(5):
        make_order(number=str(number))
    with django_assert_max_num_queries(4):
        page = client.get("/").content.decode()
    assert page.count('href="/orders/') == 5


@pytest.mark.parametrize("model", ["customer", "item", "order", "reservation", "stockmovement", "payment", "receipt"])
def test_every_table_has_a_page_in_the_admin(client, make_order, model):
    make_order()
    client.force_login(get_user_model().objects.create_superuser("demo"))
    assert client.get(f"/admin/shop/{model}/").status_code == 200
