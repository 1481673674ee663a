"""External effects inside a task that is not atomic, and the incidents they leave. The only writer of its table."""

from orbit_django.effects.calls import ClaimedEffects
from orbit_django.effects.settling import discard, earlier_shape, is_correctable, key_of, read_result, settle, shape_of

__all__ = [
    "ClaimedEffects",
    "discard",
    "earlier_shape",
    "is_correctable",
    "key_of",
    "read_result",
    "settle",
    "shape_of",
]
