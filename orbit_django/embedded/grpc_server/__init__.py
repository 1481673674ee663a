"""The gRPC side of the embedded runtime: the same requests as over HTTP, told in messages.

``port`` owns the address, ``calls`` one call, ``messages`` the translation. It needs the extra ``grpc`` and is imported
when a port for it is asked for.
"""

from orbit_django.embedded.grpc_server.calls import handlers
from orbit_django.embedded.grpc_server.port import GrpcPort

__all__ = ["GrpcPort", "handlers"]
