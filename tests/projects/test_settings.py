"""Settings that are global, so that each set of them needs a project of its own."""

import pytest

EVERYTHING = ("check", "migrate", "work", "admin", "prune")

# Traits that do not hide each other share a project.
TRAITS = {
    "naive times, small keys, requests in transactions, no kept connections": """
TIME_ZONE = "America/New_York"
USE_TZ = False
DEFAULT_AUTO_FIELD = "django.db.models.SmallAutoField"
DATABASES["default"] |= {"ATOMIC_REQUESTS": True, "CONN_MAX_AGE": 0}
""",
    "another language and time zone, plain keys, kept connections, our app first": """
TIME_ZONE = "Pacific/Chatham"
LANGUAGE_CODE = "de"
USE_THOUSAND_SEPARATOR = True
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
DATABASES["default"] |= {"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True}
INSTALLED_APPS.remove("orbit_django")
INSTALLED_APPS.insert(0, "orbit_django")
""",
    "from right to left, debugging, own logging, our app last": """
LANGUAGE_CODE = "ar"
USE_THOUSAND_SEPARATOR = True
DEBUG = True
INSTALLED_APPS.remove("orbit_django")
INSTALLED_APPS.append("orbit_django")
LOGGING = {
    "version": 1,
    "formatters": {"short": {"format": "SHORT %(name)s %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "short"}},
    "root": {"handlers": ["console"], "level": "INFO"},
}
""",
    "no translations": "USE_I18N = False\n",
}


@pytest.mark.parametrize("trait", TRAITS.values(), ids=TRAITS)
def test_everything_works_with(project, trait: str) -> None:
    project.with_admin().settings(trait).play(*EVERYTHING)


def test_the_projects_own_logging_wins(project) -> None:
    said = project.settings(TRAITS["from right to left, debugging, own logging, our app last"]).play("migrate", "work")
    assert "SHORT orbit_django." in said
    assert all(line.startswith("SHORT") for line in said.splitlines() if "orbit_django." in line)


@pytest.mark.promise("W6")
def test_what_debugging_remembers_of_queries_does_not_grow(project) -> None:
    project.settings("DEBUG = True\n").play("migrate", "forget")
