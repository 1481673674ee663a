"""A poll loop among doubles."""

from collections.abc import Callable
from typing import Any

from orbit_django.context import TaskContext
from orbit_django.models import OutboxMessage
from orbit_django.protocol import Assignment
from orbit_django.worker.delivery import Deferred
from orbit_django.worker.gate import DatabaseGate
from orbit_django.worker.held import Held
from orbit_django.worker.loop import PollLoop, Rooms
from orbit_django.worker.session import SessionHolder
from orbit_django.worker.vitals import Vitals
from tests.worker.words import REGISTRATION, HookedTransport, NoWait, TickingClock, assignment

MESSAGE = OutboxMessage(status=OutboxMessage.Status.PENDING)
EMPTY = None


class World:
    """A poll loop among doubles; each answer of the executor is returned, raised or called."""

    def __init__(self) -> None:
        self.transport = HookedTransport()
        self.clock = TickingClock(0.0)
        self.held = Held()
        self.stop = NoWait()
        self.gate = DatabaseGate()
        self.answers: list[Any] = []
        self.executed: list[TaskContext] = []
        self.delivered: list[OutboxMessage] = []
        self.parked: list[tuple[TaskContext, Callable[[], bool], Callable[[], None]]] = []
        self.holder = SessionHolder(
            self.transport, REGISTRATION, held=self.held, clock=self.clock, stop=self.stop, on_refused=print
        )
        self.rooms = Rooms(
            transport=self.transport,
            session=self.holder,
            executor=self,
            relay=self,
            parking=self,
            held=self.held,
            gate=self.gate,
            clock=self.clock,
            stop=self.stop,
            worker_id="shop-1",
            concurrency=1,
            wait_ms=20_000,
            vitals=Vitals(self.clock),
        )
        self.loop = PollLoop(self.rooms, 1)

    def execute(self, given: Assignment, context: TaskContext) -> OutboxMessage | Deferred:
        self.executed.append(context)
        assert len(self.held) == 1, "a delivery is held while it runs"
        answer = self.answers.pop(0)
        answer = answer() if callable(answer) else answer
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def handler_of(self, given: Assignment) -> None:
        """Serve nothing, as far as signals are concerned."""

    def report(self, message: OutboxMessage) -> None:
        assert len(self.held) == 1, "a delivery is held until its report was sent"
        self.delivered.append(message)

    def park(self, context: TaskContext, ask: Callable[[], bool], leave: Callable[[], None]) -> None:
        self.parked.append((context, ask, leave))

    def receive(self, *answers: Any) -> float:
        """Poll a task and answer so when it is executed."""
        self.transport.script("poll", assignment())
        self.answers.extend(answers)
        return self.loop.step()

    def polled(self) -> list[str]:
        return [session_id for session_id, _ in self.transport.named("poll")]
