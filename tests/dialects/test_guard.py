"""Outcome and report in one go, on every database: the finish is its owner's alone."""

import pytest
from django.db import transaction

from orbit_django import idempotency, outbox
from orbit_django.exceptions import TransactionEndedError
from orbit_django.models import IdempotencyRecord, OutboxMessage
from orbit_django.verdicts import Claim, Key
from tests.ledger import assignment

pytestmark = [pytest.mark.databases, pytest.mark.django_db(transaction=True), pytest.mark.promise("E9")]


@pytest.mark.parametrize("owner", ["me", "somebody else"])
def test_only_the_owner_of_a_claim_leaves_an_outcome_and_a_report(owner: str) -> None:
    with transaction.atomic():
        claim = idempotency.begin(Key.of(assignment(), "default"), owner="me", worker_id="tester", lease_seconds=60)
    assert isinstance(claim, Claim)
    IdempotencyRecord.objects.update(owner=owner)
    report = outbox.draft(assignment(), outbox.Origin("tester", "http://runtime"), using="default")
    try:
        with transaction.atomic():
            idempotency.finish(claim, output="1", report=report)
    except TransactionEndedError:
        assert owner != "me"
    assert OutboxMessage.objects.filter(pk=report.pk).count() == (owner == "me")
    assert IdempotencyRecord.objects.get().status == ("succeeded" if owner == "me" else "running")
