"""The worker: threads that poll a runtime, run handlers and report; only this room creates threads."""
