from pathlib import Path
from typing import Any

import pytest

from orbit_django.conf import OrbitSettings
from orbit_django.conf.weave import OAuthSettings, WeaveSettings
from orbit_django.exceptions import ConfigurationError
from orbit_django.testing.transport import RecordingTransport
from orbit_django.transports.http import HttpTransport
from orbit_django.worker.binding import is_credential_exposed, open_transport

SECRET = "wrk-SECRET-1"


def own(settings: OrbitSettings) -> RecordingTransport:
    """Open a project's own binding."""
    return RecordingTransport(settings.server)


def broken(settings: OrbitSettings) -> None:
    raise ZeroDivisionError("first line\nsecond line")


def leaves(settings: OrbitSettings) -> None:
    raise SystemExit


def wrong(settings: OrbitSettings) -> None:
    raise ConfigurationError("CA_CERT: no")


def test_a_binding_of_the_project_may_name_a_mistake_itself() -> None:
    with pytest.raises(ConfigurationError, match=r"^CA_CERT: no$"):
        open_transport(OrbitSettings(transport=f"{__name__}.wrong"))


def test_http_is_the_usual_binding() -> None:
    transport = open_transport(OrbitSettings(server="http://127.0.0.1:9", worker_token=SECRET))

    assert isinstance(transport, HttpTransport)
    assert transport.server == "http://127.0.0.1:9"
    assert SECRET not in repr(transport)
    transport.close()


def test_a_dotted_path_names_a_binding_of_the_project() -> None:
    transport = open_transport(OrbitSettings(server="http://x.test", transport=f"{__name__}.own"))

    assert isinstance(transport, RecordingTransport)
    assert transport.server == "http://x.test"


@pytest.mark.promise("W8")
@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"transport": "htpp"}, "TRANSPORT: 'htpp' is unknown; expected 'http', 'grpc', 'weave' or a dotted path"),
        ({"transport": "no.such.module"}, "TRANSPORT: 'no.such.module' cannot be imported"),
        ({"transport": f"{__name__}.no_such_name"}, "cannot be imported"),
        ({"transport": "os.path"}, "TRANSPORT: 'os.path' is a module; expected a callable that takes the settings"),
        ({"transport": "builtins.str"}, "TRANSPORT: what 'builtins.str' returned is no binding; it lacks server, "),
        ({"transport": "os.getcwd"}, "TRANSPORT: 'os.getcwd' raised TypeError: "),
        ({"transport": f"{__name__}.broken"}, "broken' raised ZeroDivisionError: first line"),
        ({"transport": f"{__name__}.leaves"}, "leaves' raised SystemExit"),
        ({"worker_token_file": "/no/file"}, "WORKER_TOKEN_FILE: /no/file cannot be read: No such file or directory"),
        ({"ca_cert": __file__}, "CA_CERT"),
        ({"client_cert": __file__}, "CLIENT_CERT"),
    ],
)
def test_what_cannot_be_used_is_a_mistake_that_names_its_setting(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        open_transport(OrbitSettings(**{"server": "https://127.0.0.1:9", **fields}))

    assert text in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_empty_token_file_is_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("\n")
    with pytest.raises(ConfigurationError, match=r"WORKER_TOKEN_FILE: .* holds no token"):
        open_transport(OrbitSettings(worker_token_file=str(path)))


@pytest.mark.promise("W9")
@pytest.mark.parametrize(
    ("server", "token", "is_exposed"),
    [
        ("http://runtime.test:7233", SECRET, True),
        ("http://10.0.0.1", SECRET, True),
        ("http://128.0.0.1", SECRET, True),
        ("https://runtime.test", SECRET, False),
        ("http://127.0.0.1:7233", SECRET, False),
        ("http://127.8.8.8", SECRET, False),
        ("http://localhost:7233", SECRET, False),
        ("http://[::1]:7233", SECRET, False),
        ("http://127.evil.test", SECRET, True),
        ("http://runtime.test:7233", None, False),
    ],
)
def test_a_token_in_the_open_is_noticed(server: str, token: str | None, *, is_exposed: bool) -> None:
    assert is_credential_exposed(OrbitSettings(server=server, worker_token=token)) is is_exposed


@pytest.mark.promise("W9")
@pytest.mark.parametrize(("server", "is_exposed"), [("http://weave.test", True), ("https://weave.test", False)])
def test_a_token_that_is_fetched_for_weave_is_exposed_like_any_other(server: str, is_exposed: bool) -> None:
    oauth = OAuthSettings(token_url="https://id.test", client_id="shop", client_secret="s3cret-1")
    weave = WeaveSettings(server=server, oauth=oauth)
    assert is_credential_exposed(OrbitSettings(transport="weave", weave=weave)) is is_exposed
