import pytest
import responses

from orbit_django.transports.http import HttpTransport
from tests.transports import calls
from tests.transports.binding import SECRET, SERVER
from tests.transports.certificates import Authority


@pytest.fixture
def authority(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "ours")


@pytest.fixture
def runtime():
    with responses.RequestsMock() as mocked:
        yield mocked


@pytest.fixture
def transport() -> HttpTransport:
    return HttpTransport(SERVER, credential=lambda: SECRET)


@pytest.fixture(params=["plain", "lean"])
def way(request, monkeypatch) -> None:
    monkeypatch.setitem(calls.WAY, "is_lean", request.param == "lean")
