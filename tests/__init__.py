"""The test-suite; it mirrors the package, one file per module."""
