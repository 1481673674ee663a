"""What a visitor can do with the scene, as command lines to copy."""

import sys
from pathlib import Path

from example_project.demo.scene import Scene

VISITOR = "demo"  # the name and the password of the admin's account


def guide(scene: Scene) -> str:
    """Return how to look at what the demo left behind."""
    database = f"DATABASE_URL=sqlite:///{_short(scene.folder / 'shop.sqlite3')}"
    python = _short(Path(sys.executable))
    return f"""Look around: orders, payments, idempotency records and the outbox are in the admin.
  {database} {python} manage.py runserver
  then open http://127.0.0.1:8000/admin/ and sign in as {VISITOR} with the password {VISITOR}
Another account:
  {database} {python} manage.py createsuperuser
Mails and logs are in {_short(scene.folder)}."""


def guide_running(scene: Scene) -> str:
    """Return how to place further orders while the runtime and the worker run."""
    names = ("DATABASE_URL", "SHOP_MAIL_FOLDER", "SHOP_PROVIDER_FILE", "ORBIT_SERVER", "ORBIT_TOKEN")
    exports = "\n".join(f"  export {name}={scene.environment[name]}" for name in names)
    python = _short(Path(sys.executable))
    return f"""The runtime ({scene.server}) and the worker go on until Ctrl-C. To place orders, in another terminal:
{exports}
  {python} manage.py runserver
  then open http://127.0.0.1:8000/"""


def _short(path: Path) -> Path:
    """Return the path as it is typed from here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
