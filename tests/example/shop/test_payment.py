import pytest
from django.db import transaction

from example_project.shop.payment import CardDeclined, provider


def test_one_key_is_charged_once_and_every_call_is_counted():
    first = provider().charge("key", "tok_visa", 500)
    assert provider().charge("key", "tok_visa", 500) == first
    assert provider().charge("other", "tok_visa", 500) != first
    assert provider().calls_per_key() == {"key": 2, "other": 1}
    assert provider().charged_cents() == {"key": 500, "other": 500}


def test_a_declined_card_is_counted_but_not_charged():
    with pytest.raises(CardDeclined):
        provider().charge("key", "tok_stolen", 500)
    assert provider().calls_per_key() == {"key": 1}
    assert provider().charged_cents() == {}


@pytest.mark.django_db(transaction=True)
def test_its_books_are_not_ours_to_roll_back():
    with transaction.atomic():
        provider().charge("key", "tok_visa", 500)
        transaction.set_rollback(True)
    assert provider().charged_cents() == {"key": 500}
