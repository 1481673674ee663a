import pytest

from orbit_django.conf.options import RunOptions, read_options
from orbit_django.exceptions import ConfigurationError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("8080", ("127.0.0.1", 8080)),
        (" 8080 ", ("127.0.0.1", 8080)),
        (8080, ("127.0.0.1", 8080)),
        ("0.0.0.0:1", ("0.0.0.0", 1)),
        ("localhost:65535", ("localhost", 65535)),
        ("[::1]:8080", ("::1", 8080)),
        ("[::]:8080", ("::", 8080)),
    ],
)
def test_addresses_to_listen_on(text: object, address: tuple[str, int]) -> None:
    assert read_options({"health": text}) == RunOptions(health=address)


WRONG = ["x", "0", "65536", "-1", "1.5", "²", "٣", "9" * 5000]
WRONG += [":8080", "host:", "host", "::1:8080", "[]:80", "[::1]8080"]


@pytest.mark.promise("W8")
@pytest.mark.parametrize("text", [*WRONG, True, []])
def test_what_is_no_address_names_the_option(text: object) -> None:
    with pytest.raises(
        ConfigurationError, match=r"^--health: expected PORT, HOST:PORT or \[IPV6\]:PORT, found '"
    ) as told:
        read_options({"health": text})
    assert len(str(told.value)) < 200
