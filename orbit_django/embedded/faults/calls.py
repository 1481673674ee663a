"""The calls that a fault may meet."""

from __future__ import annotations

ASSIGNMENT = "assignment"  # a poll whose answer hands out a task
CALLS = ("register", "poll", "heartbeat", "unregister", "complete", "fail", "other", ASSIGNMENT, "*")
