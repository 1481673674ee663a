import pytest
from django.db import OperationalError, transaction

from orbit_django import idempotency
from orbit_django.dialects import dialect_of
from orbit_django.models import IdempotencyRecord
from orbit_django.verdicts import Claim, Key
from orbit_django.worker.claims import Claims
from tests.worker.words import assignment

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]


def claim(name: str, lease_seconds: float = 30) -> Claim:
    key = Key.of(assignment(idempotency_key=name), "default")
    with dialect_of("default").writing(), transaction.atomic():
        found = idempotency.begin(key, owner=idempotency.new_owner(), worker_id="shop-1", lease_seconds=lease_seconds)
    assert isinstance(found, Claim)
    return found


def left(made: Claim) -> float:
    """Return how many seconds a claim still lives, by the database's clock."""
    lease_ms = IdempotencyRecord.objects.get(pk=made.record.pk).lease_ms
    return (lease_ms - dialect_of("default").read_now_ms()) / 1000


def test_without_claims_the_database_is_left_alone(django_assert_num_queries) -> None:
    with django_assert_num_queries(0):
        assert 0 < Claims(30).step() <= 1
        assert Claims(0.6).step() == pytest.approx(0.2)


@pytest.mark.promise("E9")
def test_claims_are_renewed_at_a_third_of_their_life() -> None:
    claims, first, second = Claims(90), claim("a"), claim("b")
    claims.add(first)
    claims.add(second)

    assert claims.step() == 30
    assert 85 < left(first) <= 90
    assert 85 < left(second) <= 90


def test_a_claim_that_ended_is_not_renewed() -> None:
    claims, ended = Claims(90), claim("a")
    claims.add(ended)
    claims.remove(ended)
    claims.remove(ended)
    claims.step()

    assert left(ended) <= 30


@pytest.mark.promise("E9")
def test_a_claim_that_somebody_took_over_stays_his() -> None:
    claims, stale = Claims(90), claim("a", lease_seconds=-1)
    claims.add(stale)
    taken = claim("a", lease_seconds=10)
    claims.step()

    assert taken.owner != stale.owner
    assert left(taken) <= 10


def test_an_error_of_one_claim_costs_no_other_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    claims, made = Claims(90), [claim("a"), claim("b"), claim("c")]
    for each in made:
        claims.add(each)
    extend, failures = idempotency.extend, [OperationalError("lost"), None, OperationalError("lost")]

    def unsteady(held: list[Claim], seconds: float) -> None:
        if error := failures.pop(0):
            raise error
        extend(held, seconds)

    monkeypatch.setattr(idempotency, "extend", unsteady)

    assert claims.step() == 30
    assert [left(each) > 85 for each in made] == [False, True, False]
