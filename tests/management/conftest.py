import pytest
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder


@pytest.fixture
def lacking(transactional_db):
    """Forget that a migration was applied; return what is to be said of it."""
    recorder = MigrationRecorder(connections["default"])
    name = max(name for app, name in recorder.applied_migrations() if app == "orbit_django")
    recorder.record_unapplied("orbit_django", name)
    yield "database 'default' lacks 1 migration of orbit_django: run manage.py migrate"
    recorder.record_applied("orbit_django", name)
