"""The bindings of the worker protocol; every one keeps the contract of ``base``."""
