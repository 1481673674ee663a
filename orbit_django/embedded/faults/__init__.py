"""Faults on purpose: what a network or a runtime in trouble does to a worker.

``kinds`` is what each kind does, ``calls`` what it may meet, ``syntax`` how the command line names them, ``active`` the
ones in force.
"""

from orbit_django.embedded.fault import Fault
from orbit_django.embedded.faults.active import Faults
from orbit_django.embedded.faults.calls import CALLS
from orbit_django.embedded.faults.kinds import KINDS
from orbit_django.embedded.faults.syntax import explain, parse_fault

__all__ = ["CALLS", "KINDS", "Fault", "Faults", "explain", "parse_fault"]
