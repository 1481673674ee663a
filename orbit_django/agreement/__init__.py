"""Handlers beside contracts: whether the two agree, and handlers to begin with where there are none yet.

Nothing here reaches a table or the network, and nothing raises for what a project has written.
"""

from orbit_django.agreement.comparison import NO_HANDLER, Difference, compare
from orbit_django.agreement.promises import promising
from orbit_django.agreement.stubs import stubs
from orbit_django.agreement.workers import Served, served

__all__ = ["NO_HANDLER", "Difference", "Served", "compare", "promising", "served", "stubs"]
