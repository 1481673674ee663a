"""Settings of everything that is measured; what differs between two cases comes from the environment.

`DATABASE_URL` names the database, `BENCH_APPS` further apps, `BENCH_SETTINGS` a module with the settings that another
package needs.
"""

from importlib import import_module
from typing import Any

import environ

env = environ.Env()

SECRET_KEY = "only-for-measurements"  # noqa: S105  (guards nothing)
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["orbit_django", "benchmarks.work"]

database: dict[str, Any] = env.db_url("DATABASE_URL", default="postgres://postgres@127.0.0.1:5432/orbit_bench")
database |= {"CONN_MAX_AGE": 600, "CONN_HEALTH_CHECKS": env.bool("BENCH_HEALTH_CHECKS", default=True)}
if database["ENGINE"].endswith("postgresql"):
    database.setdefault("OPTIONS", {}).setdefault("sslmode", "disable")  # OpenSSL is not what is measured
if database["ENGINE"].endswith("sqlite3"):
    database["OPTIONS"] = {"transaction_mode": "IMMEDIATE", "timeout": 20, "init_command": "PRAGMA journal_mode=WAL;"}
DATABASES = {"default": database}

if target := env.str("BENCH_GRPC_TARGET", default=""):
    ORBIT = {"GRPC_TARGET": target}

if module := env.str("BENCH_SETTINGS", default=""):
    globals().update({name: value for name, value in vars(import_module(module)).items() if name.isupper()})
    INSTALLED_APPS = globals()["APPS"]
