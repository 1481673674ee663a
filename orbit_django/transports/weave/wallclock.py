"""What time it is on the platform: by its own word where this machine's clock is off."""

from __future__ import annotations

import contextlib
import logging
from datetime import datetime
from email.utils import parsedate_to_datetime

from orbit_django.clock import Clock
from orbit_django.logs import SteadyLogger

logger = SteadyLogger(logging.getLogger(__name__))

TRUSTED_SECONDS = 2.0  # the date of an answer is cut to seconds, and was a moment under way


class PlatformTime:
    """The difference between this machine's clock and the platform's; written by any thread, one number."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead = 0.0  # seconds by which the platform's clock is ahead of ours

    def learn(self, date: str, asked_at: float) -> None:
        """Compare the date of an answer with ours when it was asked for; small differences mean nothing."""
        with contextlib.suppress(ValueError, TypeError):
            ahead = parsedate_to_datetime(date).timestamp() + 0.5 - asked_at
            ahead = 0.0 if abs(ahead) <= TRUSTED_SECONDS else ahead
            if abs(ahead - self._ahead) > TRUSTED_SECONDS:
                logger.warning("the platform's clock differs from this machine's", extra={"ahead": round(ahead, 1)})
                self._ahead = ahead

    def until(self, moment: datetime) -> float:
        """Return the seconds from now to a time of the platform; less than nothing when it has passed."""
        return moment.timestamp() - self._clock.wall() - self._ahead
