"""The shop's own tests need the shop's settings; ``test_shop`` runs them in a process that has these."""

from django.conf import settings

SHOP_SETTINGS = "example_project.settings"

collect_ignore = [] if settings.SETTINGS_MODULE == SHOP_SETTINGS else ["shop"]
