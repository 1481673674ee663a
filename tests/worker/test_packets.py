"""Results that MariaDB does not take for their size, although the runtime would."""

import json

import pytest
from django.db import connection

from orbit_django.models import IdempotencyRecord, OutboxMessage
from tests import databases
from tests.ledger import Desk, charge
from tests.testapp.models import Charge

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.databases,
    pytest.mark.promise("E8"),
    pytest.mark.skipif(databases.chosen() != "mariadb", reason="the others have no such limit"),
]


@pytest.mark.parametrize("is_atomic", [True, False])
def test_one_is_a_failure_that_says_where_the_limit_is(is_atomic: bool) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@max_allowed_packet")
        limit = int(cursor.fetchone()[0])

    def handler(input, ctx):
        if is_atomic:
            charge(input, ctx)
        return {"text": "x" * (limit + 1_000)}

    desk = Desk(handler, is_atomic=is_atomic, settings={"max_body_bytes": 4 * limit})
    message = desk.deliver()

    assert isinstance(message, OutboxMessage)
    body = json.loads(message.body)
    assert (body["error_code"], body["retryable"]) == ("RESULT_TOO_LARGE", False)
    assert "max_allowed_packet" in body["error_message"]
    assert body["details"]["size"] > limit
    assert (desk.runs, Charge.objects.count()) == (1, 0)
    assert IdempotencyRecord.objects.get().status == "failed"
