"""docs/how-to/stuck.md: its workflows run, and no step is done twice by following it."""

import pytest

from orbit_django import effects
from orbit_django.client import Client
from orbit_django.contracts import load
from orbit_django.exceptions import RefusedError
from orbit_django.models import Effect
from orbit_django.tasks import registry, task
from orbit_django.testing import run_until_idle, running_runtime
from tests.docs.pages import blocks

PAGE = "docs/how-to/stuck.md"
pytestmark = [pytest.mark.django_db, pytest.mark.promise("E10")]


@pytest.fixture
def files(tmp_path, settings):
    """Write the page's contracts, with one attempt for each step, and those that Pay had before it got keys."""
    by_key, rest = [block.text for block in blocks(PAGE) if block.language == "orbit"]
    by_key = by_key.replace("attempts: 8", "attempts: 1")
    before = by_key.replace("PayByKey", "Pay").replace(", key: String", "").replace("idempotency_key: input.key", "")
    texts = {"before": before, "by_key": by_key, "rest": rest}
    for name, text in texts.items():
        (tmp_path / f"{name}.orbit").write_text(text, encoding="utf-8")
    return lambda *names: load(tmp_path / f"{name}.orbit" for name in names)


@pytest.fixture
def calls(monkeypatch):
    """Serve the page's tasks; return what the outside world and the packers saw."""
    monkeypatch.setattr(registry, "_tasks", {})
    seen = []

    def pay(cents):
        seen.append(f"charge {cents}")
        raise TimeoutError

    @task("orders.charge", version="1.0.0", atomic=False)
    def charge(input, ctx):
        return ctx.effect("charge", pay, input["cents"])

    @task("orders.pack", version="1.0.0")
    def pack(input):
        seen.append(f"pack {input['receipt']}")
        return {"parcel": 1}

    return seen


def started(runtime, workflow, execution_id, **given):
    Client().start(workflow, given, execution_id=execution_id)
    run_until_idle(runtime)
    return runtime.execution(execution_id)["status"]


def settle():
    return effects.settle(Effect.objects.get(), result='{"receipt": "r-7"}', settled_by="ann")


def test_a_workflow_with_keys_from_its_input_is_started_again(files, calls):
    with running_runtime(contracts=files("by_key")) as runtime:
        assert started(runtime, "PayByKey", "first", cents=450, key="order-1") == "FAILED"
        assert "start it under another execution id" in settle()
        assert started(runtime, "PayByKey", "second", cents=450, key="order-1") == "COMPLETED"
    assert calls == ["charge 450", "pack r-7"]


def test_what_is_left_of_one_with_keys_of_its_own_is_done_alone(files, calls):
    with running_runtime(contracts=files("before", "rest")) as runtime:
        assert started(runtime, "Pay", "first", cents=450) == "FAILED"
        assert "do not start the workflow again" in settle()
        given = {"receipt": "r-7", "key": "order-1-rest"}
        assert started(runtime, "PackAlone", "order-1-rest", **given) == "COMPLETED"
        assert started(runtime, "PackAlone", "once-more", **given) == "COMPLETED"
    assert calls == ["charge 450", "pack r-7"]


def test_a_runtime_that_has_not_read_the_new_file_starts_nothing(files, calls):
    with running_runtime(contracts=files("before")) as runtime, pytest.raises(RefusedError, match="no workflow"):
        started(runtime, "PayByKey", "first", cents=450, key="order-1")
    assert calls == []
