"""Real worker processes that are killed, and what must be true afterwards; also an app with handlers for that."""
