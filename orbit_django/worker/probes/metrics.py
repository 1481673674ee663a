"""What was counted, in the text format of Prometheus; the package for that is loaded only when somebody asks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from orbit_django.worker.probes.health import Condition
from orbit_django.worker.vitals import BUCKETS, Numbers

if TYPE_CHECKING:
    from prometheus_client.core import Metric

# Names without the prefix, what they tell, and their labels.
COUNTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "polls": ("Polls, by outcome: task, empty, no_answer, refused or unknown_session.", ("outcome",)),
    "tasks": ("Committed outcomes of tasks: complete, fail, replay or conflict.", ("task", "outcome")),
    "task_failures": ("Failures, by code; OTHER is any code of the project's own.", ("task", "code")),
    "delivery_attempts": (
        "Reports sent: delivered, superseded, not_accepted, refused, blocked or no_answer.",
        ("result",),
    ),
    "session_registrations": ("Sessions opened; each beyond the first of a process replaced a lost one.", ()),
    "process_restarts": ("Worker processes that the supervisor started again.", ()),
}
GAUGES: dict[str, str] = {
    "loops": "Poll loops.",
    "loops_busy": "Poll loops in a handler, or on the way from there to the next poll.",
    "held_deliveries": "Deliveries received whose report was not tried yet, parked ones included.",
    "heartbeat_age_seconds": "Time since the runtime answered a heartbeat; of several processes, the longest.",
    "processes": "Worker processes that run.",
}


def render(condition: Condition) -> tuple[str, str]:
    """Return content type and text; raise ImportError without the extra ``metrics``."""
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

    return CONTENT_TYPE_LATEST, generate_latest(_Collected(condition)).decode()


class _Collected:
    """What a registry would be, for one answer."""

    def __init__(self, condition: Condition) -> None:
        self._condition = condition

    def collect(self) -> Iterator[Metric]:
        """Yield every family, with or without samples."""
        from prometheus_client.core import GaugeMetricFamily

        faults, obstacles, numbers = self._condition
        yield GaugeMetricFamily("orbit_live", "1 while /livez answers 200.", value=int(not faults))
        yield GaugeMetricFamily("orbit_ready", "1 while /readyz answers 200.", value=int(not obstacles))
        for name, value in numbers.gauges.items():
            yield GaugeMetricFamily(f"orbit_{name}", GAUGES[name], value=value)
        yield from _counters(numbers)
        yield _handlers(numbers)
        yield from _outbox(numbers)


def _counters(numbers: Numbers) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily

    for name, (text, labels) in COUNTERS.items():
        family = CounterMetricFamily(f"orbit_{name}", text, labels=labels)
        for counted, *values in numbers.counts:
            if counted == name:
                family.add_metric(values[:-1], values[-1])
        yield family


def _handlers(numbers: Numbers) -> Metric:
    from prometheus_client.core import HistogramMetricFamily

    family = HistogramMetricFamily("orbit_handler_seconds", "Time that handlers took, each run.", labels=["task"])
    edges = [*map(str, BUCKETS), "+Inf"]
    for task, (total, *counts) in numbers.seconds.items():
        buckets = list(zip(edges, accumulate(counts), strict=True))
        family.add_metric([task], buckets=buckets, sum_value=total)
    return family


def _outbox(numbers: Numbers) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    text = "Results that the runtime has not answered, up to 10000; blocked ones wait for a person."
    depth = GaugeMetricFamily("orbit_outbox_messages", text, labels=["database", "status"])
    text = "Age of the oldest pending result; 0 when there is none."
    age = GaugeMetricFamily("orbit_outbox_oldest_pending_seconds", text, labels=["database"])
    for using, (pending, blocked, oldest) in numbers.outbox.items():
        depth.add_metric([using, "pending"], pending)
        depth.add_metric([using, "blocked"], blocked)
        age.add_metric([using], oldest or 0.0)
    yield depth
    yield age
