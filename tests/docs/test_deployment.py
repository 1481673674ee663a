"""Unit files and manifests of the pages: systemd reads them where it is there, and our own parsers do anyway."""

import configparser
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from orbit_django.conf.addresses import read_listening
from orbit_django.management.commands.orbit_worker import MISTAKE
from orbit_django.worker.probes import server
from orbit_django.worker.session import CLOSE_SECONDS
from orbit_django.worker.worker import DELIVER_SECONDS, HASTY_SECONDS
from tests.docs import shells
from tests.docs.pages import Block, every_block, text_of

SYSTEMD = "docs/how-to/systemd.md"
KUBERNETES = "docs/how-to/kubernetes.md"
LEAST_GRACE = 10  # seconds above DRAIN_TIMEOUT, as the page on Kubernetes says
UNITS = [block for block in every_block("ini") if block.file.endswith((".service", ".timer"))]
MANIFESTS = every_block("yaml")


def unit(block: Block) -> dict[str, dict[str, str]]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str
    parser.read_string(block.text)
    return {name: dict(parser[name]) for name in parser.sections()}


def options(words: list[str]) -> Any:
    """Return what the worker's own parser makes of a command."""
    at = words.index("orbit_worker")
    return shells.parser_of("orbit_worker").parse_args(words[at + 1 :])


def test_the_pages_have_both_kinds() -> None:
    assert sorted(Path(block.file).suffix for block in UNITS) == [".service", ".service", ".timer"]
    kinds = [document.get("kind", "probes") for block in MANIFESTS for document in yaml.safe_load_all(block.text)]
    assert sorted(kinds) == ["CronJob", "Deployment", "Job", "probes"]


@pytest.mark.parametrize("block", UNITS, ids=str)
def test_what_a_unit_starts(block: Block) -> None:
    service = unit(block).get("Service", {})
    if block.file.endswith(".timer"):
        assert service == {}
        return
    assert shells.faults(service["ExecStart"].split()) == []
    if "orbit_worker" in service["ExecStart"]:
        given = options(service["ExecStart"].split())
        assert int(service["TimeoutStopSec"]) >= float(given.drain_timeout) + LEAST_GRACE
        assert service["RestartPreventExitStatus"] == str(MISTAKE)


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("NO systemd-analyze HERE (apt-get install systemd): units were read by our own parsers alone")
    for block in UNITS:
        text = block.text.replace("/srv/shop/.venv/bin/python", sys.executable)  # which has to be a program
        (tmp_path / Path(block.file).name).write_text(text, encoding="utf-8")
    files = sorted(map(str, tmp_path.iterdir()))
    command = [program, "verify", "--man=no", "--recursive-errors=no", *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_timeline_of_a_stop_has_the_times_of_the_code() -> None:
    told = dict(re.findall(r"^\| [^|]* \| ([^|,;:]+)[^|]* \| (\d+) s\b[^|]* \|$", text_of(KUBERNETES), re.MULTILINE))
    assert {what.strip(): float(seconds) for what, seconds in told.items()} == {
        "results are sent": DELIVER_SECONDS,
        "the session is given back (unregister)": CLOSE_SECONDS,
        "handlers that still run see `ctx.is_cancelled`": HASTY_SECONDS,
    }


def test_the_admin_token_reaches_the_worker_of_both_pages() -> None:
    (worker,) = (unit(block)["Service"] for block in UNITS if "orbit_worker" in block.text)
    (variables,) = (block for block in every_block("ini") if block.text.startswith("ORBIT_TOKEN="))
    assert variables.page == SYSTEMD
    assert worker["EnvironmentFile"] in text_of(SYSTEMD).replace(f"EnvironmentFile={worker['EnvironmentFile']}", "")
    manifests = [document for block in MANIFESTS for document in yaml.safe_load_all(block.text)]
    (served,) = (each for each in containers(manifests) if "orbit_worker" in each["command"])
    assert "ORBIT_TOKEN" in {variable["name"] for variable in served["env"]}
    for page in (SYSTEMD, KUBERNETES):
        assert "`TOKEN`" in text_of(page)
        assert "start_on_commit" in text_of(page)


def test_a_new_version_is_checked_before_the_worker_is_started_again() -> None:
    lines = [line for block in every_block("sh") if block.page == SYSTEMD for line in block.text.splitlines()]
    restart = lines.index("sudo systemctl restart shop-worker")
    assert {"python manage.py check --deploy", "python manage.py orbit_worker --check"} <= set(lines[:restart])
    for name in ("shop-worker", "shop-prune.timer"):
        at = lines.index(f"sudo systemctl enable --now {name}")
        assert lines[at - 1] == "sudo systemctl daemon-reload"


def containers(document: Any) -> Iterator[dict[str, Any]]:
    """Yield every container of a manifest, wherever it stands."""
    if isinstance(document, dict):
        yield from document.get("containers", [])
        for value in document.values():
            yield from containers(value)
    elif isinstance(document, list):
        for value in document:
            yield from containers(value)


def command(container: dict[str, Any]) -> list[str]:
    return [*container["command"], *container.get("args", ())]


@pytest.mark.parametrize("block", MANIFESTS, ids=str)
def test_commands_and_probes_of_a_manifest(block: Block) -> None:
    (document,) = yaml.safe_load_all(block.text)
    for container in containers(document) or []:
        assert shells.faults(command(container)) == []
        if "orbit_worker" in container["command"]:
            fits(document, container)
    if "kind" not in document:
        assert {probe["httpGet"]["path"] for probe in document.values()} <= paths()


def fits(document: dict[str, Any], container: dict[str, Any]) -> None:
    """Assert that the probes ask where the worker answers, and that it is given time to end."""
    given = options(command(container))
    host, port = read_listening(given.health)
    named = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert host == "0.0.0.0", "the kubelet asks from outside"
    for kind, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        asked = container[kind]["httpGet"]
        assert (asked["path"], named[asked["port"]]) == (path, port)
        assert path in paths()
    grace = document["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace >= float(given.drain_timeout) + LEAST_GRACE
    mounts = {each["name"] for each in container["volumeMounts"]}
    assert mounts == {each["name"] for each in document["spec"]["template"]["spec"]["volumes"]}


def paths() -> set[str]:
    """Return the paths that the probes answer."""
    return set(re.findall(r'"(/\w+)"', Path(server.__file__).read_text(encoding="utf-8")))
