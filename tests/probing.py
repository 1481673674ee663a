"""Asking the probes of a worker."""

import http.client
from contextlib import closing

GOOD = (200, "ok\n")


def ask(port: int, path: str) -> tuple[int, str]:
    """Return status and text of an answer, which must come within a second; 0 when nobody listens."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    with closing(client):
        try:
            client.request("GET", path)
        except ConnectionError:
            return 0, ""
        answer = client.getresponse()
        return answer.status, answer.read().decode()
