import json
import unicodedata
from collections import Counter

import pytest

from example_project.shop.data import make_orders

DATA = json.loads(make_orders.FILE.read_text(encoding="utf-8"))
ITEMS = {item["sku"]: item for item in DATA["items"]}
ORDERS = DATA["orders"]
FIRST = ORDERS[:300]  # those that the demo plays unless told otherwise


def scripts(orders):
    letters = {letter for order in orders for letter in order["customer"] if letter.isalpha()}
    return {unicodedata.name(letter, "?").split()[0] for letter in letters}


def test_the_file_is_what_its_maker_makes():
    assert make_orders.make() == DATA


def test_there_are_enough_orders_and_every_number_is_one_order():
    assert len(ORDERS) >= 500
    assert len({order["number"] for order in ORDERS}) == len(ORDERS)


@pytest.mark.parametrize("end", ["paid", "declined", "out_of_stock", "invalid"])
def test_each_end_is_expected_many_times(end):
    assert sum(order["expected"] == end for order in FIRST) >= 10


def test_names_come_in_many_scripts():
    assert {"ARABIC", "HEBREW", "CYRILLIC", "GREEK", "DEVANAGARI", "CJK", "HANGUL", "THAI", "ETHIOPIC"} <= scripts(
        FIRST
    )


@pytest.mark.parametrize(
    "is_awkward",
    [
        pytest.param(lambda name: any(unicodedata.combining(sign) for sign in name), id="combining characters"),
        pytest.param(lambda name: any(ord(sign) > 0xFFFF for sign in name), id="beyond the basic plane"),
        pytest.param(lambda name: any(unicodedata.bidirectional(sign) in "R AL" for sign in name), id="right to left"),
        pytest.param(lambda name: "\u200d" in name, id="joined emoji"),
        pytest.param(lambda name: "'" in name, id="apostrophe"),
        pytest.param(lambda name: "<b>" in name, id="markup"),
        pytest.param(lambda name: name != name.strip(), id="blanks at the ends"),
        pytest.param(lambda name: len(name) > 100, id="long"),
    ],
)
def test_names_are_as_awkward_as_real_ones(is_awkward):
    assert any(is_awkward(order["customer"]) for order in FIRST)


def test_equal_looking_names_differ_in_their_characters():
    names = {order["customer"] for order in FIRST}
    assert any(unicodedata.normalize("NFD", name) in names - {name} for name in names)


def test_customers_come_back():
    assert max(Counter(order["email"] for order in FIRST).values()) >= 3
    assert len({(order["email"], order["customer"]) for order in ORDERS}) == len({order["email"] for order in ORDERS})


def test_amounts_go_from_nothing_to_more_than_32_bits():
    amounts = [order["quantity"] * ITEMS[order["sku"]]["price_cents"] for order in FIRST]
    assert min(amounts) == 0
    assert 2**32 < max(amounts) < 2**53


def test_no_order_of_execution_changes_an_end():
    """An item has enough for all orders together, or too little for any that expects to find too little."""
    wanted = Counter()
    for order in ORDERS:
        on_hand = ITEMS[order["sku"]]["on_hand"]
        if order["expected"] == "out_of_stock":
            assert order["quantity"] > on_hand
        elif order["expected"] != "invalid":
            wanted[order["sku"]] += order["quantity"]
    assert all(ITEMS[sku]["on_hand"] >= quantity for sku, quantity in wanted.items())
