"""What happens in one run of the laboratory, made from a seed: which tasks begin when, and which faults strike."""

import random
from dataclasses import dataclass

from tests.crash.proxy import WAYS

SECONDS = 4.0  # in which tasks begin and faults strike
WORKFLOWS = ("Atomic", "Atomic", "Flaky", "Effect", "Rows", "Rows")
KEYS, REPEATED = 20, 5  # so many keys, and so many executions more that use one of them again
FORGETFUL = 3  # tasks that make the server forget what it keeps for their connection
STALE_PAUSE_MS = 500
CALLS = ("complete", "complete", "fail", "poll", "heartbeat", "register")


@dataclass(frozen=True, slots=True)
class Start:
    """One execution that begins."""

    at: float
    execution_id: str
    workflow: str
    key: str
    pause_ms: int


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault, and what it needs to know."""

    at: float
    kind: str
    worker: int = 0
    seconds: float = 0.0
    call: str = "*"
    times: int = 1
    how: str = ""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Everything that happens, by a seed."""

    seed: int
    starts: tuple[Start, ...]
    strikes: tuple[Strike, ...]

    @property
    def stale_key(self) -> str:
        """The key whose first owner sleeps until there is another one."""
        return f"s{self.seed}-rows-stale"

    @property
    def keys(self) -> set[str]:
        """The keys in use."""
        return {start.key for start in self.starts}


def schedule(seed: int, *, has_server: bool) -> Schedule:
    """Return the schedule of a seed; a database without a server is locked instead of cut off."""
    chance = random.Random(seed)  # noqa: S311  (no secret, and the seed must bring it back)
    firsts = [_start(chance, seed, number) for number in range(KEYS)]
    again = [_again(chance, chance.choice(firsts), number) for number in range(REPEATED)]
    kinds = ["kill", "stop", "stop", *_kinds(chance, has_server=has_server)]
    strikes = [_strike(chance, kind) for kind in kinds]
    extra = [_forgetful(chance, seed, number) for number in range(FORGETFUL)]
    stale = Start(chance.uniform(0, SECONDS / 2), f"s{seed}-stale", "Rows", f"s{seed}-rows-stale", STALE_PAUSE_MS)
    strikes.append(Strike(stale.at, "oversleep"))
    starts = (*firsts, *again, *extra, stale)
    return Schedule(seed, starts, tuple(sorted(strikes, key=lambda strike: strike.at)))


def _start(chance: random.Random, seed: int, number: int) -> Start:
    workflow = chance.choice(WORKFLOWS)
    pause_ms = chance.randint(10, 350)
    at = chance.uniform(0, SECONDS * 0.8)
    return Start(at, f"s{seed}-{number}", workflow, f"s{seed}-{workflow.lower()}-{number}", pause_ms)


def _forgetful(chance: random.Random, seed: int, number: int) -> Start:
    """Begin late, when connections have statements to forget."""
    at = chance.uniform(SECONDS / 2, SECONDS)
    return Start(at, f"s{seed}-forget-{number}", "Forgetful", f"s{seed}-forgetful-{number}", chance.randint(10, 100))


def _again(chance: random.Random, first: Start, number: int) -> Start:
    """Use a key again, with the same input, soon after the first."""
    at = first.at + chance.uniform(0, 0.6)
    return Start(at, f"{first.execution_id}-again-{number}", first.workflow, first.key, first.pause_ms)


def _kinds(chance: random.Random, *, has_server: bool) -> list[str]:
    database = ["cut", "hang", "refuse", "commit", "commit"] if has_server else ["lock"]
    runtime = ["lost", "lost", "status", "garbage", "duplicate", "restart", "expire"]
    some = ["commit"] if has_server else []
    some += [chance.choice(database) for _ in range(chance.randint(2, 4))]
    some += [chance.choice(runtime) for _ in range(chance.randint(2, 4))]
    return some + [chance.choice(["kill", "stop", "duplicate"]) for _ in range(chance.randint(0, 2))]


def _strike(chance: random.Random, kind: str) -> Strike:
    return Strike(
        at=chance.uniform(0.2, SECONDS),
        kind=kind,
        worker=chance.randint(0, 1),
        seconds=chance.uniform(1.8, 3.2) if kind == "stop" else chance.uniform(0.2, 1.2),
        call="poll" if kind == "duplicate" else chance.choice(CALLS),
        times=chance.randint(1, 3),
        how=chance.choice(WAYS),
    )
