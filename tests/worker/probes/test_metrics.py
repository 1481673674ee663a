import re
import sys

import pytest
from prometheus_client.parser import text_string_to_metric_families

from orbit_django.worker.probes.health import Condition
from orbit_django.worker.probes.metrics import COUNTERS, GAUGES, render
from orbit_django.worker.vitals import Depth, Numbers, Vitals


def samples(condition: Condition) -> dict[str, float]:
    """Return every sample by its name and its labels' values."""
    found = {}
    for family in text_string_to_metric_families(render(condition)[1]):
        assert family.documentation
        for sample in family.samples:
            found[" ".join([sample.name, *(value for _, value in sorted(sample.labels.items()))])] = sample.value
    return found


def busy() -> Numbers:
    vitals = Vitals()
    vitals.tell("polls", "task")
    vitals.tell("polls", "task")
    vitals.finished('odd "task"\n\\', "fail", "MINE")
    vitals.tell("delivery_attempts", "no_answer")
    for seconds in (0.001, 0.3, 99_999.0):
        vitals.ran("shop.pay", seconds)
    vitals.measured("default", Depth(3, 1, vitals.clock.wall() - 60))
    vitals.measured("other", Depth(0, 0, None))
    return vitals.numbers()


def test_what_was_counted() -> None:
    found = samples(Condition([], [], busy()))

    assert found["orbit_polls_total task"] == 2
    assert found['orbit_tasks_total fail odd "task"\n\\'] == 1
    assert found['orbit_task_failures_total OTHER odd "task"\n\\'] == 1
    assert found["orbit_delivery_attempts_total no_answer"] == 1
    assert (found["orbit_live"], found["orbit_ready"]) == (1, 1)


def test_the_time_of_handlers_is_a_histogram() -> None:
    found = samples(Condition([], [], busy()))

    assert found["orbit_handler_seconds_count shop.pay"] == 3
    assert found["orbit_handler_seconds_sum shop.pay"] == pytest.approx(99_999.301)
    edges = [("0.005", 1), ("0.1", 1), ("0.5", 2), ("1800.0", 2), ("+Inf", 3)]
    assert [found[f"orbit_handler_seconds_bucket {edge} shop.pay"] for edge, _ in edges] == [n for _, n in edges]


def test_the_depth_of_the_outbox() -> None:
    found = samples(Condition([], [], busy()))

    assert found["orbit_outbox_messages default pending"] == 3
    assert found["orbit_outbox_messages default blocked"] == 1
    assert found["orbit_outbox_oldest_pending_seconds default"] == pytest.approx(60, abs=5)
    assert found["orbit_outbox_oldest_pending_seconds other"] == 0


def test_life_and_readiness_are_figures_as_well() -> None:
    assert samples(Condition(["x"], ["x"], Numbers()))["orbit_live"] == 0
    found = samples(Condition([], ["draining"], Numbers()))
    assert (found["orbit_live"], found["orbit_ready"]) == (1, 0)


def test_names_keep_to_the_customs_of_prometheus() -> None:
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", name) for name in (*COUNTERS, *GAUGES))
    kind, text = render(Condition([], [], busy()))

    assert kind.startswith("text/plain; version=")
    for name in re.findall(r"^# TYPE (\S+) counter$", text, re.MULTILINE):
        assert name.endswith("_total")
    assert len(re.findall(r"^# HELP orbit_", text, re.MULTILINE)) == len(re.findall(r"^# TYPE ", text, re.MULTILINE))


def test_the_package_is_needed_only_for_that(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("prometheus_client")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)

    with pytest.raises(ImportError):
        render(Condition([], [], Numbers()))
