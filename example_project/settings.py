"""Settings of the example shop: everything that differs between machines comes from the environment.

With nothing set it runs on a laptop: a SQLite file, mails in a folder, the runtime on its usual loopback address.
"""

from pathlib import Path
from typing import Any

import environ
from django import VERSION

BASE_DIR = Path(__file__).resolve().parent.parent
SHOP_DIR = BASE_DIR / "example_project" / "shop"

env = environ.Env()

SECRET_KEY = env.str("SECRET_KEY", default="only-for-the-example-shop-on-your-own-machine-0123456789")
DEBUG = env.bool("DEBUG", default=True)
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["127.0.0.1", "localhost"])

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "orbit_django",
    "example_project.shop",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "example_project.urls"
WSGI_APPLICATION = "example_project.wsgi.application"
ASGI_APPLICATION = "example_project.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

default_database: dict[str, Any] = env.db_url("DATABASE_URL", default=f"sqlite:///{BASE_DIR / 'shop.sqlite3'}")
if default_database["ENGINE"] == "django.db.backends.sqlite3":
    # A transaction that reads first and writes later cannot wait for SQLite's write lock, so take it at BEGIN.
    default_database["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL;",
    }
DATABASES = {"default": default_database}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "static/"

MAIL_BACKEND = env.str("EMAIL_BACKEND", default="example_project.shop.mail.FolderBackend")
if VERSION >= (6, 1):  # which knows several ways to send mail, each by its name
    MAILERS = {"default": {"BACKEND": MAIL_BACKEND}}
else:
    EMAIL_BACKEND = MAIL_BACKEND
DEFAULT_FROM_EMAIL = "The example shop <orders@shop.example>"

# SERVER and WORKER_TOKEN are read from ORBIT_SERVER and ORBIT_WORKER_TOKEN. Workflows are started with the admin
# token; a runtime on a laptop that asks for none takes any.
ORBIT = {
    "TOKEN": env.str("ORBIT_TOKEN", default="a-laptop-needs-no-secret"),
    "CONTRACTS": [SHOP_DIR / "workflows" / "order.orbit"],
    "CLAIM_SECONDS": env.int("SHOP_CLAIM_SECONDS", default=30),
}

SHOP_MAIL_FOLDER = env.str("SHOP_MAIL_FOLDER", default=str(BASE_DIR / "sent-mail"))
SHOP_PROVIDER_FILE = env.str("SHOP_PROVIDER_FILE", default=str(BASE_DIR / "payment-provider.sqlite3"))

if run_log := env.str("SHOP_RUN_LOG", default=""):
    # What the handlers say through ctx.logger, one line each in a file: whoever counts the lines counts the runs.
    LOGGING = {
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {"runs": {"class": "logging.FileHandler", "filename": run_log, "encoding": "utf-8", "delay": True}},
        "loggers": {"orbit_django.handlers": {"handlers": ["runs"], "level": "INFO"}},
    }
