"""Whatever workers, clocks and restarts do, and in whatever order: what must be true at the end."""

from collections import Counter
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from orbit_django.embedded import views
from orbit_django.exceptions import RuntimeRefusalError
from tests.contracts.texts import ORDER
from tests.embedded.world import World

CONTRACTS = (("shop.price", "1.0.0"), ("shop.stock", "2.0.0"), ("shop.charge", "1.0.0"))
OUTPUTS: dict[str, dict[str, Any]] = {
    "price": {"amount": 1.5},
    "stock": {"left": 2},
    "charge": {"charge": "c"},
}
TEXT = ORDER.replace('worker "shop.price"', 'worker "shop.price" timeout 4s retry { attempts: 2, initial_delay: 1s }')
ENDS = {"WorkflowCompleted", "WorkflowFailed", "WorkflowCancelled"}
MOVES = ("start", "register", "poll", "poll", "complete", "complete", "fail", "bad", "beat", "leave", "cancel", "wait")


class Story(World):
    """A world in which everything is picked by number."""

    def __init__(self) -> None:
        super().__init__(TEXT)
        self.sessions: list[str] = []
        self.tasks: list[dict[str, Any]] = []
        self.count = 0

    def move(self, name: str, number: int) -> None:
        with suppress(RuntimeRefusalError):  # a session that expired, an execution that never began
            getattr(self, name)(number)

    def start(self, number: int) -> None:
        self.count += 1
        self.runtime.start("Order", {"order": f"o-{self.count}", "item": "i"}, f"e-{self.count}")

    def register(self, number: int) -> None:
        self.sessions.append(self.session(f"w-{number}", "python", *CONTRACTS))

    def poll(self, number: int) -> None:
        if self.sessions and (task := self.runtime.poll(self.sessions[number % len(self.sessions)])):
            self.tasks.append(task)

    def complete(self, number: int) -> None:
        if self.tasks:
            task = self.tasks[number % len(self.tasks)]
            self.runtime.complete(task["token"], OUTPUTS[task["step_id"]])

    def bad(self, number: int) -> None:
        if self.tasks and number % 4 == 0:
            self.runtime.complete(self.tasks[number % len(self.tasks)]["token"], {})

    def fail(self, number: int) -> None:
        if self.tasks:
            super().fail(self.tasks[number % len(self.tasks)]["token"])

    def beat(self, number: int) -> None:
        if self.sessions:
            self.runtime.heartbeat(self.sessions[number % len(self.sessions)])

    def leave(self, number: int) -> None:
        if self.sessions:
            self.runtime.unregister(self.sessions.pop(number % len(self.sessions)))

    def cancel(self, number: int) -> None:
        if number % 4 == 0:
            self.runtime.cancel(f"e-{number}")

    def wait(self, number: int) -> None:
        self.passes(number / 2)

    def again(self, number: int) -> None:
        before = views.executions_view(self.runtime)
        self.restart(TEXT)
        assert views.executions_view(self.runtime) == before

    def finish(self) -> None:
        """Let one worker do everything that is left."""
        for _ in range(200):
            self.passes(1)
            session = self.session("last", "python", *CONTRACTS)
            while task := self.runtime.poll(session):
                self.runtime.complete(task["token"], OUTPUTS[task["step_id"]])
            if all(execution.is_finished for execution in self.runtime.state.executions.values()):
                return
        raise AssertionError("an execution never ends")


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from((*MOVES, "again")), st.integers(0, 9)), min_size=40, max_size=120))
def test_every_execution_ends_once_whatever_happens(moves: list[tuple[str, int]]) -> None:
    story = Story()
    for name, number in moves:
        story.move(name, number)
    story.finish()

    for execution_id in story.runtime.state.executions:
        history = views.history_view(story.runtime, execution_id)
        events = Counter((entry["event"], entry.get("step")) for entry in history)
        assert sum(count for (event, _), count in events.items() if event in ENDS) == 1
        assert history[-1]["event"] in ENDS
        for step in OUTPUTS:
            outcomes = [events[event, step] for event in ("StepSucceeded", "StepFailed", "StepCancelled")]
            assert sum(outcomes) == 1
            attempts = [entry["attempt"] for entry in history if entry.get("step") == step and "attempt" in entry]
            assert max(attempts, default=1) <= 3
    assert not story.runtime.state.tokens
    assert not len(story.runtime.state.ready)
    assert not any(session.held for session in story.runtime.sessions)
