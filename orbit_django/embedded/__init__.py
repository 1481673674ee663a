"""The embedded development runtime: a faithful server of the worker protocol for one machine.

For development and tests, never for production.
"""
