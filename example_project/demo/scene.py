"""Where the demo plays: a fresh folder, and the environment that points the project and its children at it."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
from dataclasses import dataclass, field
from pathlib import Path

from example_project.demo import DemoError

PROJECT = Path(__file__).resolve().parents[2]
MARK = ".orbit-demo"  # a folder without this file was not made by the demo, so it is not deleted
SESSION_SECONDS = 2  # a killed worker's tasks come back after this silence


@dataclass(frozen=True)
class Scene:
    """The folder, the runtime's address and the credentials of one performance."""

    folder: Path
    port: int
    admin_token: str = field(default_factory=lambda: secrets.token_hex(24), repr=False)
    worker_token: str = field(default_factory=lambda: secrets.token_hex(24), repr=False)

    @classmethod
    def build(cls, folder: Path) -> Scene:
        """Empty the folder, or make it, and return a scene on a free port."""
        folder = folder.resolve()
        _empty(folder)
        (folder / "logs").mkdir()
        return cls(folder=folder, port=_free_port())

    @property
    def environment(self) -> dict[str, str]:
        """Return what this process and its children need to know."""
        return {
            "DJANGO_SETTINGS_MODULE": "example_project.settings",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH", "")])),
            "PYTHONUNBUFFERED": "1",
            "DATABASE_URL": f"sqlite:///{self.folder / 'shop.sqlite3'}",
            "EMAIL_BACKEND": "example_project.shop.mail.FolderBackend",
            "SHOP_MAIL_FOLDER": str(self.folder / "mail"),
            "SHOP_PROVIDER_FILE": str(self.folder / "payment-provider.sqlite3"),
            "SHOP_RUN_LOG": str(self.run_log),
            "SHOP_CLAIM_SECONDS": str(SESSION_SECONDS),
            "ORBIT_SERVER": self.server,
            "ORBIT_TOKEN": self.admin_token,
            "ORBIT_WORKER_TOKEN": self.worker_token,
        }

    @property
    def server(self) -> str:
        """The runtime's URL."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def run_log(self) -> Path:
        """The file that gets what the handlers log."""
        return self.folder / "handler-runs.log"


def _empty(folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()):
        if not (folder / MARK).exists():
            raise DemoError(f"{folder} is not empty and was not made by the demo; name another one with --folder")
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).touch()
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
