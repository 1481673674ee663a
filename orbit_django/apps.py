"""The app's entry into Django: discovery of handlers and registration of system checks."""

from __future__ import annotations

from django.apps import AppConfig


class OrbitConfig(AppConfig):
    """Configuration of the app ``orbit_django``."""

    name = "orbit_django"
    verbose_name = "Orbit"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Find every ``tasks_orbit`` module; touch neither database nor network."""
        from orbit_django.checks import register
        from orbit_django.tasks import discover

        register()
        discover()
