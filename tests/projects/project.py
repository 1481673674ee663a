"""A small project in a folder of its own, and processes that work in it; every warning in them is an error."""

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

from tests import databases

SETTINGS = """
from pathlib import Path

SECRET_KEY = "only-for-tests"
ALLOWED_HOSTS = ["*"]
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["orbit_django", "shop"]
ROOT_URLCONF = "urls"
ORBIT = {{"CONTRACTS": [Path(__file__).parent / "pay.orbit"]}}
DATABASES = {databases!r}
"""
ADMIN = """
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    *INSTALLED_APPS,
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
STATIC_URL = "static/"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
"""
URLS = """
from django.apps import apps

urlpatterns = []
if apps.is_installed("django.contrib.admin"):
    from django.contrib import admin
    from django.urls import path

    urlpatterns = [path("admin/", admin.site.urls)]
"""
MODELS = """
from django.db import models


class Order(models.Model):
    key = models.TextField()
"""
TASKS = """
from orbit_django import TaskContext, task
from shop.models import Order


@task("shop.pay", version="1.0.0")
def pay(input: dict, ctx: TaskContext) -> dict:
    Order.objects.create(key=ctx.idempotency_key)
    return {"receipt": "r-1"}


@task("shop.ship", version="1.0.0", atomic=False)
def ship(input: dict, ctx: TaskContext) -> dict:
    ctx.transaction("row", lambda: Order.objects.create(key=ctx.idempotency_key) and None)
    return {"parcel": ctx.effect("parcel", lambda: "parcel-1")}


@task("shop.tell", version="1.0.0")
async def tell(input: dict) -> dict:
    return {"orders": await Order.objects.acount()}
"""
CONTRACTS = """
task "shop.pay" { version "1.0.0" input { key: String } output { receipt: String } }
task "shop.ship" { version "1.0.0" input { key: String } output { parcel: String } }
task "shop.tell" { version "1.0.0" input { key: String } output { orders: Int } }

workflow Order {
  version "1.0.0"
  input { key: String }
  output { parcel: String, orders: Int }
  step pay { worker "shop.pay" with { key: input.key } idempotency_key: input.key }
  step ship { worker "shop.ship" with { key: input.key } idempotency_key: input.key }
  step tell { worker "shop.tell" with { key: ship.parcel } idempotency_key: input.key }
  return { parcel: ship.parcel, orders: tell.orders }
}
"""
FILES = {
    "urls.py": URLS,
    "shop/__init__.py": "",
    "shop/models.py": MODELS,
    "shop/tasks_orbit.py": TASKS,
    "pay.orbit": CONTRACTS,
}


class Project:
    """A project: settings, one app with three handlers, contracts, and whatever a test adds or changes."""

    def __init__(self, folder: Path, database: dict[str, Any] | None = None) -> None:
        self.folder = folder
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("ORBIT_")}
        self.environment |= {
            "DJANGO_SETTINGS_MODULE": "settings",
            "PYTHONPATH": os.pathsep.join([str(folder), str(databases.ROOT)]),
            "PYTHONWARNINGS": "error",
        }
        own = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(folder / "db.sqlite3")}
        self.settings(SETTINGS.format(databases={"default": database or own}))
        for name, text in FILES.items():
            self.write(name, text)

    def write(self, name: str, text: str) -> Path:
        """Write a file of the project."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
        return path

    def settings(self, *texts: str) -> "Project":
        """Add lines to the settings."""
        with (self.folder / "settings.py").open("a", encoding="utf-8") as file:
            file.writelines(dedent(text) for text in texts)
        return self

    def with_admin(self) -> "Project":
        """Install the admin and what it needs."""
        return self.settings(ADMIN)

    def python(self, *arguments: str, options: tuple[str, ...] = (), cwd: Path | None = None, code: int = 0) -> str:
        """Run an interpreter; return its output and its errors, and fail when it ends otherwise than expected."""
        command = [sys.executable, *options, *arguments]
        done = subprocess.run(
            command, cwd=cwd or self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        said = done.stdout + done.stderr
        assert done.returncode == code, said
        return said

    def manage(self, *arguments: str, **more: Any) -> str:
        """Run a management command."""
        return self.python("-m", "django", *arguments, **more)

    def play(self, *stories: str, **more: Any) -> str:
        """Play stories of `tests.projects.stories` in one process."""
        return self.python("-m", "tests.projects.stories", *stories, **more)
