"""External effects inside a task that is not atomic, and the incidents they leave. The only writer of its table."""

from orbit_django.effects.calls import ClaimedEffects
from orbit_django.effects.settling import discard, read_result, settle

__all__ = ["ClaimedEffects", "discard", "read_result", "settle"]
