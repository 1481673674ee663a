"""The Weave server over HTTP.

``host`` owns the threads and the locks, ``handler`` one connection, ``requests`` its reading, ``routes`` the endpoints,
``capacity`` what is refused for want of room, ``doors`` and ``controls`` what is beside the wire.
"""

from orbit_django.embedded.weave.server.capacity import FREQUENT, LEVELS, ORDINARY, RARE, Limits
from orbit_django.embedded.weave.server.host import EmbeddedWeave

__all__ = ["FREQUENT", "LEVELS", "ORDINARY", "RARE", "EmbeddedWeave", "Limits"]
