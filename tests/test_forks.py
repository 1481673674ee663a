"""Handlers that fork: the copy ends where it comes back, and nothing is done twice."""

import os
import sys

import pytest
from django.db import transaction

from orbit_django.models import OutboxMessage
from tests.ledger import Desk
from tests.testapp.models import Charge
from tests.worker.calling import call
from tests.worker.words import task

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.databases,
    pytest.mark.promise("W6", "E1"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


def returns():
    return {"code": 99}


def exits():
    sys.exit(3)


def exits_with_words():
    sys.exit("these words")


def raises():
    raise KeyError("the copy's own trouble")


ENDS = [(returns, 0), (exits, 3), (exits_with_words, 1), (raises, 1)]


def forked(end):
    """Go on in a copy as ``end`` does, and return the copy's exit code in this process."""
    pid = os.fork()
    if pid == 0:
        return end()
    return {"code": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}


def delivered(desk):
    """Deliver once; a copy that came all the way to here would go on as the test."""
    pid = os.getpid()
    try:
        return desk.deliver()
    finally:
        if os.getpid() != pid:
            os._exit(77)


@pytest.mark.parametrize("is_atomic", [True, False])
@pytest.mark.parametrize(("end", "code"), ENDS)
def test_a_copy_that_leaves_the_handler_ends_there(end, code, is_atomic):
    def handler(input, ctx):
        Charge.objects.create(key="k")
        return forked(end)

    message = delivered(Desk(handler, is_atomic=is_atomic))
    assert (message.kind, OutboxMessage.objects.count(), Charge.objects.count()) == ("complete", 1, 1)
    message.record.refresh_from_db()
    assert message.record.output == f'{{"code":{code}}}'


def test_a_copy_that_leaves_a_hook_ends_there():
    codes = []

    def handler(input, ctx):
        transaction.on_commit(lambda: codes.append(forked(exits)))

    message = delivered(Desk(handler))
    assert (message.kind, codes) == ("complete", [{"code": 3}])


def test_a_copy_of_a_coroutine_ends_there():
    async def handler(value):
        return forked(exits)

    pid = os.getpid()
    try:
        assert call(task(handler)) == {"code": 3}
    finally:
        if os.getpid() != pid:
            os._exit(77)


@pytest.mark.parametrize("way", ["effect", "transaction"])
@pytest.mark.parametrize(("end", "code"), ENDS)
def test_a_copy_that_leaves_a_call_ends_there(end, code, way):
    desk = Desk(lambda input, ctx: getattr(ctx, way)("call", forked, end), is_atomic=False)
    message = delivered(desk)
    assert (message.kind, OutboxMessage.objects.count()) == ("complete", 1)
    message.record.refresh_from_db()
    assert message.record.output == f'{{"code":{code}}}'
