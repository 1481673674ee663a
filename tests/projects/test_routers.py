"""Several databases, and routers: what commits together lies in one database, and a check says so where it does not."""

from pathlib import Path

import pytest

from tests.projects.project import Project

SPLIT = """
DATABASES["ledger"] = DATABASES["default"] | {"NAME": str(Path(__file__).parent / "ledger.sqlite3")}
DATABASES["replica"] = DATABASES["default"] | {"NAME": str(Path(__file__).parent / "replica.sqlite3")}
ORBIT["DATABASE"] = "ledger"
DATABASE_ROUTERS = ["routers.Router"]
"""
ROUTER = """
OURS = {apps!r}


class Router:
    def db_for_write(self, model, **hints):
        return "ledger" if model._meta.app_label in OURS else "default"

    def db_for_read(self, model, **hints):
        return "replica" if model._meta.app_label == "orbit_django" else self.db_for_write(model)

    def allow_relation(self, one, other, **hints):
        return True

    def allow_migrate(self, db, app_label, **hints):
        return db != "replica" and (db == "ledger") == (app_label in OURS)
"""

BROKEN = """

    def db_for_write(self, model, **hints):
        return hints["instance"]._state.db
"""


@pytest.fixture
def split(tmp_path: Path):
    """Return what makes a project with three databases, whose router has some apps in the ledger's; none replicates."""

    def make(*apps: str) -> Project:
        project = Project(tmp_path).with_admin().settings(SPLIT)
        project.write("routers.py", ROUTER.format(apps=apps))
        project.manage("migrate", "--run-syncdb", "-v0")
        project.manage("migrate", "--run-syncdb", "-v0", "--database", "ledger")
        return project

    return make


@pytest.mark.promise("E1")
def test_a_ledger_outside_of_default_works_with_its_models_beside_it(split) -> None:
    """Whatever the router says of reading, rows are read where they are written."""
    split("orbit_django", "shop").play("check", "work", "admin", "settle", "prune")


@pytest.mark.promise("E1")
def test_models_that_do_not_commit_with_the_ledger_are_told(split) -> None:
    project = split("orbit_django")
    said = project.manage("check", "--fail-level", "WARNING", code=1)
    assert "W007" in said
    assert "the database 'ledger', but Order of that app is written to 'default'" in " ".join(said.split())
    assert "E007" not in said
    project.settings('SILENCED_SYSTEM_CHECKS = ["orbit_django.W007"]\n').play("check", "work")


def test_a_router_that_keeps_the_ledger_out_is_told_wherever_one_looks(split) -> None:
    project = split()
    assert "E007" in project.manage("check", code=1)
    assert "E007" in project.manage("migrate", "-v0", "--run-syncdb", code=0)
    stopped = project.manage("orbit_worker", "--check", code=2)
    (line,) = stopped.splitlines()
    assert "DATABASE_ROUTERS keep orbit_django_idempotencyrecord" in line
    assert "out of the database 'ledger'" in line
    assert "wrong database ledger    DATABASE_ROUTERS keep" in project.manage("orbit_doctor", code=1)


def test_a_router_that_fails_stops_no_command(split) -> None:
    project = split("orbit_django", "shop")
    project.write("routers.py", ROUTER.format(apps=("orbit_django",)) + BROKEN)
    project.manage("check", "--fail-level", "WARNING")
