"""Which apps are installed, and how they are laid out."""

JINJA = """
TEMPLATES = [{"BACKEND": "django.template.backends.jinja2.Jinja2", "DIRS": []}]
STORAGES = {"staticfiles": {"BACKEND": "django.core.files.storage.InMemoryStorage"}}
"""


def test_the_app_alone(project) -> None:
    said = project.settings("TEMPLATES = []\n").play("check", "migrate", "work", "prune")
    assert "django.contrib" not in said


def test_users_without_an_admin(project) -> None:
    project.settings('INSTALLED_APPS += ["django.contrib.auth", "django.contrib.contenttypes"]\n')
    project.play("check", "migrate", "work", "prune")


def test_an_admin_without_addresses(project) -> None:
    project.with_admin().write("urls.py", "urlpatterns = []\n")
    project.play("check", "migrate", "work")


def test_an_app_in_two_folders(project) -> None:
    """One package without __init__.py whose parts lie in two folders; the handlers are a package as well."""
    project.write(
        "first/parts/apps.py",
        """
        from django.apps import AppConfig
        from pathlib import Path

        class Parts(AppConfig):
            name = "parts"
            path = str(Path(__file__).parent)
    """,
    )
    project.write("second/parts/tasks_orbit/__init__.py", "from parts.tasks_orbit import more\n")
    project.write(
        "second/parts/tasks_orbit/more.py",
        """
        from orbit_django import task

        @task("parts.more", version="1")
        def more(input): ...
    """,
    )
    project.environment["PYTHONPATH"] += f":{project.folder / 'first'}:{project.folder / 'second'}"
    project.settings('INSTALLED_APPS.append("parts.apps.Parts")\n')
    assert "parts.more" in project.python("-m", "django", "orbit_tasks", code=1)  # no contract of it
