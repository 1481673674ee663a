"""The embedded runtime over HTTP.

``host`` owns the threads and the lock, ``listener`` the sockets, ``handler`` one connection, ``routes`` the endpoints.
"""

from orbit_django.embedded.server.host import MAX_BODY_BYTES, EmbeddedRuntime
from orbit_django.embedded.server.tls import server_context

__all__ = ["MAX_BODY_BYTES", "EmbeddedRuntime", "server_context"]
