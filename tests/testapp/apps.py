"""Configuration of the test app."""

from django.apps import AppConfig


class TestAppConfig(AppConfig):
    """The app that owns the effects which tests count."""

    name = "tests.testapp"
    label = "testapp"
    default_auto_field = "django.db.models.BigAutoField"
