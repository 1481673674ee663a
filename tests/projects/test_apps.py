"""Which apps are installed, and how they are laid out."""

from tests.projects.project import TASKS


def test_the_app_alone(project) -> None:
    said = project.settings(
        'TEMPLATES = []\nSTORAGES = {"default": {"BACKEND": "django.core.files.storage.InMemoryStorage"}}\n'
    ).play("check", "migrate", "work", "prune")
    assert "django.contrib" not in said


def test_users_without_an_admin(project) -> None:
    project.settings('INSTALLED_APPS += ["django.contrib.auth", "django.contrib.contenttypes"]\n')
    project.play("check", "migrate", "work", "prune")


def test_an_admin_without_addresses(project) -> None:
    project.with_admin().write("urls.py", "urlpatterns = []\n")
    project.play("check", "migrate", "work")


def test_two_handlers_of_one_task_fail_a_check_and_stop_no_migration(project) -> None:
    """Django 6.1 gives every check the databases that only `migrate` gave before."""
    project.write("shop/tasks_orbit.py", TASKS + TASKS)
    assert "(orbit_django.E003) shop.pay 1.0.0 has two handlers" in project.manage("check", code=1)
    assert "E003" in project.manage("check", "--database", "default", code=1)
    assert "E003" in project.manage("migrate", "--run-syncdb")


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
