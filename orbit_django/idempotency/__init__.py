"""Once per key: decide whether a handler runs, store its outcome, replay it. The only writer of the records."""

from orbit_django.idempotency.claiming import (
    ENDED,
    begin,
    count_run,
    discount_run,
    extend,
    fence,
    finish,
    let_go,
    live_owner,
    new_owner,
    reopen,
)
from orbit_django.idempotency.upkeep import (
    Place,
    discard,
    finished_before,
    hold_prunable,
    prunable,
    unfinished,
)

__all__ = [
    "ENDED",
    "Place",
    "begin",
    "count_run",
    "discard",
    "discount_run",
    "extend",
    "fence",
    "finish",
    "finished_before",
    "hold_prunable",
    "let_go",
    "live_owner",
    "new_owner",
    "prunable",
    "reopen",
    "unfinished",
]
