"""Settings of the measurements: one database of their own, by `DATABASE_URL`."""

import environ

SECRET_KEY = "only-for-measurements"  # noqa: S105  (guards nothing)
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["orbit_django"]
DATABASES = {"default": environ.Env().db_url("DATABASE_URL", default="postgres://postgres@127.0.0.1:5432/orbit_bench")}
