"""Faults on purpose: what a network or a runtime in trouble does to a worker.

``fault`` is one of them, ``kinds`` what each kind does, ``syntax`` how the command line names them, ``active`` the
ones in force.
"""

from orbit_django.embedded.faults.active import Faults
from orbit_django.embedded.faults.fault import CALLS, Fault
from orbit_django.embedded.faults.kinds import KINDS
from orbit_django.embedded.faults.syntax import explain, parse_fault

__all__ = ["CALLS", "KINDS", "Fault", "Faults", "explain", "parse_fault"]
