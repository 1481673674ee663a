import time

import pytest
from django.db import connection, connections, transaction
from django.test import override_settings

from orbit_django.worker import housekeeping
from tests.testapp.models import Charge

pytestmark = [pytest.mark.django_db(transaction=True, databases=["default", "other"]), pytest.mark.databases]


@pytest.fixture(autouse=True)
def connected():
    """Begin with open connections, and leave none behind that a test has spoilt."""
    for each in connections.all():
        each.ensure_connection()
    yield
    for each in list(connections.all()):
        housekeeping.discard(each.alias)


def raw(alias: str = "default") -> object:
    return connections[alias].connection


@pytest.mark.promise("W6")
def test_a_healthy_connection_is_kept() -> None:
    before = raw()
    housekeeping.before_task()
    assert housekeeping.after_task() == []

    assert raw() is before


@pytest.mark.promise("W6")
@pytest.mark.parametrize("clean", [housekeeping.before_task, housekeeping.after_task])
def test_a_connection_that_is_too_old_is_closed(clean) -> None:
    connection.close_at = time.monotonic() - 1
    clean()

    assert raw() is None
    assert raw("other") is not None
    assert Charge.objects.count() == 0


@pytest.mark.promise("W6")
def test_a_connection_is_left_alone_inside_a_transaction() -> None:
    with transaction.atomic():
        connection.close_at = time.monotonic() - 1
        Charge.objects.create(key="k")
        housekeeping.before_task()
        assert raw() is not None

    assert Charge.objects.count() == 1


@pytest.mark.promise("W6")
def test_a_query_log_does_not_grow_from_task_to_task() -> None:
    with override_settings(DEBUG=True):
        Charge.objects.count()
        assert connection.queries_log
        housekeeping.before_task()

    assert not connection.queries_log


@pytest.mark.promise("W6")
@pytest.mark.parametrize("alias", ["default", "other"])
def test_a_transaction_left_open_is_named_and_rolled_back(alias: str) -> None:
    transaction.atomic(using=alias).__enter__()
    Charge.objects.using(alias).create(key="k")

    assert housekeeping.after_task() == [alias]
    assert not connections[alias].in_atomic_block
    assert Charge.objects.using(alias).count() == 0


@pytest.mark.promise("W6")
def test_a_connection_without_autocommit_is_named_and_rolled_back() -> None:
    connection.set_autocommit(False)
    Charge.objects.create(key="k")

    assert housekeeping.after_task() == ["default"]
    assert connection.get_autocommit()
    assert Charge.objects.count() == 0


def test_a_connection_in_any_state_is_discarded() -> None:
    transaction.atomic().__enter__()
    raw().close()
    housekeeping.discard("default")

    assert Charge.objects.count() == 0
    housekeeping.discard("default")
    housekeeping.discard("default")
    assert Charge.objects.count() == 0
