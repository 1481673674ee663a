"""The page on TLS is tried: its certificates are made, and a worker shows one to the runtime that asks for it."""

import os
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import Block, blocks
from tests.docs.playing import Terminal, ports
from tests.processes import wait_for
from tests.test_readme import SETTINGS

PAGE = "docs/how-to/tls.md"
HANDLER = """
from orbit_django import task


@task("shop.pack", version="1.0.0")
def pack(input: dict) -> dict:
    return {}
"""


def found(language: str, word: str) -> Block:
    (block,) = [each for each in blocks(PAGE) if each.language == language and word in each.text]
    return block


def write(folder: Path, port: str) -> None:
    """Write the project of the page, with the address of the laptop in the place of the other."""
    of_page = found("python", "CA_CERT").text.replace("https://orbit.internal:7233", f"https://127.0.0.1:{port}")
    files = {
        "manage.py": "import sys\nfrom django.core.management import execute_from_command_line as run\nrun(sys.argv)\n",
        "settings.py": SETTINGS + of_page + 'INSTALLED_APPS = ["orbit_django", "shop"]\n',
        "shop/__init__.py": "",
        "shop/tasks_orbit.py": HANDLER,
        "tls/workers.toml": found("toml", "worker-1").text,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def test_a_worker_is_known_by_the_certificate_of_the_page(tmp_path: Path) -> None:
    (port,) = ports(7233).values()
    write(tmp_path, port)
    subprocess.run(
        ["bash", "-ec", found("sh", "openssl").text], cwd=tmp_path, capture_output=True, check=True, timeout=50
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ORBIT_")}
    environment = clean | {
        "DJANGO_SETTINGS_MODULE": "settings",
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])]),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONUNBUFFERED": "1",
    }
    subprocess.run(["python", "manage.py", "migrate", "-v", "0"], cwd=tmp_path, env=environment, check=True, timeout=50)
    command = f"{found('sh', 'orbit_runtime').text.strip()} --port {port}"  # which nobody else has taken
    runtime = Terminal(command, tmp_path, environment, tmp_path / "runtime.log")
    worker = None
    try:
        wait_for(lambda: f"at https://127.0.0.1:{port}" in runtime.said(), 30)
        worker = Terminal(found("sh", "orbit_worker").text, tmp_path, environment, tmp_path / "worker.log")
        wait_for(lambda: "registered worker=worker-1" in worker.said(), 30)
        assert (worker.interrupt(), runtime.interrupt()) == (0, 0)
    finally:
        for terminal in (worker, runtime):
            if terminal is not None:
                terminal.end()
