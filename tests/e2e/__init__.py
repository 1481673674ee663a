"""A real worker process against the embedded runtime; also an app with the handler of the recorded conversation."""
