"""The shop as a Django app."""

from django.apps import AppConfig


class ShopConfig(AppConfig):
    """The shop; its handlers are found in ``tasks_orbit`` without being named here."""

    name = "example_project.shop"
    default_auto_field = "django.db.models.BigAutoField"
