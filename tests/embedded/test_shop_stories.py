"""The same as in ``test_stories``, for what only Python can declare: fan-out, compensations, handlers, time limits."""

from collections import Counter
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from orbit_django.embedded import views
from orbit_django.exceptions import RuntimeRefusalError
from tests.embedded.shop import EVERY, Shop

ENDS = {"WorkflowCompleted", "WorkflowFailed", "WorkflowCancelled", "WorkflowTimedOut"}
OUTCOMES = ("StepSucceeded", "StepFailed", "StepCancelled")
OUTPUTS: dict[str, dict[str, Any]] = {
    "shop.pack": {"box": "b"},
    "shop.charge": {"charge": "c"},
    "shop.tell": {"told": "t"},
}
MOVES = (
    "start",
    "poll",
    "poll",
    "poll",
    "complete",
    "complete",
    "complete",
    "fail",
    "leave",
    "cancel",
    "wait",
    "later",
)


class ShopStory(Shop):
    """A shop in which everything is picked by number."""

    def __init__(self) -> None:
        super().__init__(timeout_ms=30_000)
        self.taken: list[dict[str, Any]] = []
        self.count = 0

    def move(self, name: str, number: int) -> None:
        with suppress(RuntimeRefusalError):
            getattr(self, f"go_{name}")(number)

    def go_start(self, number: int) -> None:
        self.count += 1
        self.order(*"abc"[: number % 4], execution_id=f"e-{self.count}")

    def go_poll(self, number: int) -> None:
        try:
            task = self.runtime.poll(self.worker)
        except RuntimeRefusalError:  # it has expired
            self.worker = self.session("w-1", "python", *EVERY)
            return
        if task:
            self.taken.append(task)

    def go_complete(self, number: int) -> None:
        if self.taken:
            task = self.taken[-1 - number % len(self.taken)]
            self.runtime.complete(task["token"], OUTPUTS.get(task["task_name"], {}))

    def go_work(self, number: int) -> None:
        for _ in range(number):
            self.go_poll(0)
            self.go_complete(0)

    def go_fail(self, number: int) -> None:
        if self.taken:
            self.fail(self.taken[-1 - number % len(self.taken)]["token"], retryable=number % 2 > 0)

    def go_leave(self, number: int) -> None:
        self.runtime.unregister(self.worker)

    def go_cancel(self, number: int) -> None:
        self.runtime.cancel(f"e-{number}")

    def go_wait(self, number: int) -> None:
        self.passes(number / 2)

    def go_later(self, number: int) -> None:
        """Restart the runtime: nothing that is shown changes."""
        before = views.executions_view(self.runtime, status=None)
        self.again()
        assert views.executions_view(self.runtime, status=None) == before

    def finish(self) -> None:
        """Let a new session do everything that is left."""
        self.move("leave", 0)
        for _ in range(100):
            self.worker = self.session("w-1", "python", *EVERY)
            while task := self.runtime.poll(self.worker):
                self.runtime.complete(task["token"], OUTPUTS.get(task["task_name"], {}))
            self.passes(1)
            if all(execution.is_finished for execution in self.runtime.state.executions.values()):
                return
        raise AssertionError("an execution never ends")


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, 9)), min_size=40, max_size=120))
def test_every_execution_ends_once_and_what_succeeded_is_undone_when_it_ends_badly(
    moves: list[tuple[str, int]],
) -> None:
    story = ShopStory()
    for name, number in moves:
        story.move(name, number)
    story.finish()

    for execution in story.runtime.state.executions.values():
        history = story.history(execution.id)
        assert sum(entry["event"] in ENDS for entry in history) == 1
        assert history[-1]["event"] in ENDS
        outcomes = Counter(entry["step"] for entry in history if entry["event"] in OUTCOMES)
        scheduled = {entry["step"] for entry in history if entry["event"] == "StepScheduled"}
        assert set(outcomes.values()) <= {1}
        assert not outcomes.keys() & {entry["step"] for entry in history if entry["event"] == "StepFanOut"}
        assert scheduled <= outcomes.keys()
        undone = [entry["unit"] for entry in history if entry["event"] == "CompensationStarted"]
        ended = [
            entry["unit"] for entry in history if entry["event"] in {"CompensationCompleted", "CompensationFailed"}
        ]
        succeeded = [
            entry["step"] for entry in history if entry["event"] == "StepSucceeded" and ":" not in entry["step"]
        ]
        to_undo = [step for step in reversed(succeeded) if step != "send"]
        assert undone == ended == ([] if execution.status == "COMPLETED" else to_undo)
    assert not story.runtime.state.tokens
    assert not len(story.runtime.state.ready)
    assert not any(session.held for session in story.runtime.sessions)
