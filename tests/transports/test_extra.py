"""Without the extra ``grpc`` everything else works, and who asks for gRPC is told what to install."""

import os
import subprocess
import sys

import pytest

START = """
import sys


class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("grpc", "google"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Missing())
from django.core.management import execute_from_command_line

execute_from_command_line(["manage.py", *sys.argv[1:]])
"""


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", START, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=50, check=False)


@pytest.fixture
def environment(child_environment: dict[str, str]) -> dict[str, str]:
    return child_environment | {"ORBIT_TEST_GRPC_TARGET": "127.0.0.1:7234"}


@pytest.mark.promise("W8")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("arguments", "setting"),
    [
        (("orbit_worker", "--transport", "grpc", "--check"), "TRANSPORT"),
        (("orbit_runtime", "--grpc-port", "0", "--db", ":memory:"), "--grpc-port"),
    ],
)
def test_it_is_named_in_one_line(environment: dict[str, str], arguments: tuple[str, ...], setting: str) -> None:
    ended = run(environment, *arguments)
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"CommandError: {setting}:")
    assert "pip install 'orbit_django[grpc]'" in line


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("arguments", [("orbit_worker", "--task", "test.*", "--check"), ("orbit_outbox", "status")])
def test_nothing_else_needs_it(environment: dict[str, str], arguments: tuple[str, ...]) -> None:
    ended = run(environment, *arguments)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_nothing_imports_it_unasked() -> None:
    rooms = ("worker.worker", "worker.binding", "embedded.server", "testing")
    script = f"""
import sys
import django
django.setup()
{"".join(f"import orbit_django.{room}; " for room in rooms)}
print([name for name in sys.modules if name in ("grpc", "google.protobuf")])
"""
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"}
    command = [sys.executable, "-c", script]
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert said.stdout.strip() == "[]"
