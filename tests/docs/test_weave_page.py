"""The page on Weave is tried against the development server: a token, a release, a worker, a task."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import Block, blocks, text_of
from tests.docs.playing import Terminal, ports
from tests.processes import wait_for
from tests.test_readme import SETTINGS

PAGE = "docs/how-to/weave.md"


def found(language: str, word: str) -> Block:
    (block,) = [each for each in blocks(PAGE) if each.language == language and word in each.text]
    return block


class Reader:
    """Somebody who follows the page in an empty folder, with another port than the page's."""

    def __init__(self, folder: Path) -> None:
        (self.port,) = ports(7234).values()
        self.folder = folder
        clean = {name: value for name, value in os.environ.items() if not name.startswith("ORBIT_")}
        self.environment = clean | {
            "DJANGO_SETTINGS_MODULE": "settings",
            "PYTHONPATH": os.pathsep.join([str(folder), str(Path(__file__).parents[2])]),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONUNBUFFERED": "1",
        }
        (folder / "shop").mkdir()
        (folder / "shop" / "__init__.py").touch()
        (folder / "shop" / "tasks_orbit.py").write_text(found("python", "shop.greet").text)
        start = "import sys\nfrom django.core.management import execute_from_command_line as run\nrun(sys.argv)\n"
        (folder / "manage.py").write_text(start)
        self.configure("")

    def configure(self, release_id: str) -> None:
        said = self.here(found("python", "for-development").text)
        said = said.replace('"RELEASE_ID": ""', f'"RELEASE_ID": "{release_id}"')
        (self.folder / "settings.py").write_text(f'{SETTINGS}{said}INSTALLED_APPS = ["orbit_django", "shop"]\n')

    def here(self, text: str) -> str:
        return text.replace("127.0.0.1:7234", f"127.0.0.1:{self.port}")

    def run(self, text: str) -> str:
        command = ["bash", "-e", "-o", "pipefail", "-c", self.here(text)]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=50, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, name: str, command: str) -> Terminal:
        return Terminal(command, self.folder, self.environment, self.folder / f"{name}.log")


def test_whoever_tries_the_page_sees_a_task_done(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    server = reader.start("server", f"{found('sh', 'embedded.weave').text.strip()} --port {reader.port}")
    worker = None
    try:
        wait_for(lambda: "create work" in server.said(), 20)
        reader.run("python manage.py migrate -v 0")
        said = reader.run(found("sh", "client_id=deployer").text)
        reader.configure(said.split()[1])
        assert re.fullmatch(r"release \S+ is admitted: set WEAVE\['RELEASE_ID'\] to it\n", said)
        (command,) = {each.text for each in blocks(PAGE) if each.text == "python manage.py orbit_worker\n"}
        worker = reader.start("worker", command)
        assert reader.run(found("sh", "create_task").text).startswith('{"result":')
        look = found("sh", "create_task").text.splitlines()[-1]
        wait_for(lambda: '"completed"' in reader.run(look), 20)
        assert "Hello Ada" in reader.run(look)
    finally:
        for each in filter(None, (worker, server)):
            each.end()


def test_what_the_server_prints_is_what_the_page_says() -> None:
    from orbit_django.embedded.weave.platform import CLIENTS, ENVIRONMENT, PROJECT, SECRET, TENANT

    text = text_of(PAGE)
    assert all(f"`{name}`" in text for name in (*CLIENTS, SECRET))
    assert all(f'"{each}"' in text for each in (TENANT, PROJECT, ENVIRONMENT, SECRET))
