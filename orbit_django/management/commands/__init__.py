"""One module per command: arguments, logging and the exit code, no logic."""
