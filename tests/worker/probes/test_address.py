import socket

import pytest

from orbit_django.exceptions import ConfigurationError
from orbit_django.worker.probes.address import listen


@pytest.mark.promise("W8")
def test_an_address_in_use_is_a_mistake() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=rf"^--health: cannot listen on 127.0.0.1:{port}: Address already"):
            listen("127.0.0.1", port)


@pytest.mark.promise("W8")
@pytest.mark.parametrize("host", ["203.0.113.7", "no.such.host.invalid", "a" * 70 + ".x"])
def test_an_address_of_nobody_here_is_a_mistake(host: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"^--health: cannot listen on {host}:8080: \w+"):
        listen(host, 8080)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_an_address_of_six() -> None:
    with listen("::1", 0) as found:
        assert found.family == socket.AF_INET6
