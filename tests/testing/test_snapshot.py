import pytest
from django.contrib.auth.models import Group, Permission, User
from django.db.models.signals import post_save

from orbit_django.models import IdempotencyRecord, OutboxMessage
from orbit_django.testing import run_task
from orbit_django.testing.snapshot import Snapshot
from tests.testapp.models import Charge
from tests.testing import handlers

pytestmark = [pytest.mark.databases, pytest.mark.django_db(transaction=True, databases=["default", "other"])]


def test_rows_that_came_went_or_changed_are_put_back(serve):
    user = User.objects.create(username="ada", email="ada@example.com")
    group = Group.objects.create(name="members")
    group.permissions.set(Permission.objects.all()[:3])
    user.groups.add(group)
    Charge.objects.bulk_create(Charge(key=f"k{number}", amount=number) for number in range(50))
    run_task(serve(handlers.charge), {}, idempotency_key="before")
    kept = [
        list(model.objects.order_by("pk").values()) for model in (User, Group, Charge, IdempotencyRecord, OutboxMessage)
    ]
    snapshot = Snapshot(["default", "other"])

    User.objects.filter(pk=user.pk).update(email="")
    group.delete()
    Charge.objects.filter(amount__gt=10).delete()
    Charge.objects.using("other").create(key="new")
    run_task("kit.task", {}, idempotency_key="after")
    OutboxMessage.objects.filter(record__idempotency_key="before").delete()
    snapshot.restore()

    models = (User, Group, Charge, IdempotencyRecord, OutboxMessage)
    assert [list(model.objects.order_by("pk").values()) for model in models] == kept
    assert user.groups.get().permissions.count() == 3
    assert Charge.objects.using("other").count() == 0


def test_tables_that_did_not_change_are_left_alone_and_no_signal_is_sent():
    Charge.objects.create(key="k")
    snapshot, heard = Snapshot(["default"]), []

    def hear(**kwargs):
        heard.append(kwargs)

    Charge.objects.all().delete()
    post_save.connect(hear)
    try:
        snapshot.restore()
    finally:
        post_save.disconnect(hear)

    assert heard == []
    assert Charge.objects.get().key == "k"
