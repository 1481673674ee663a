import threading
from pathlib import Path

import pytest
from django.db import connections

from orbit_django.dialects import dialect_of, is_queued, sqlite
from tests import databases
from tests.processes import wait_for

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(databases.chosen() != "sqlite", reason="only SQLite has its writers stand in line"),
]


def test_a_writer_that_waits_for_its_turn_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "MOMENT_SECONDS", 0.05)

    def write() -> None:
        with dialect_of("default").writing():
            pass
        leave.wait(10)
        connections.close_all()

    leave, other = threading.Event(), threading.Thread(target=write)
    assert not is_queued(None)
    with dialect_of("default").writing():
        wait_for(lambda: not is_queued(threading.get_ident()))
        other.start()
        wait_for(lambda: is_queued(other.ident))
        assert not is_queued(threading.get_ident())
    wait_for(lambda: not is_queued(other.ident))
    assert other.is_alive()
    leave.set()
    other.join(10)


def test_the_lock_file_can_be_removed() -> None:
    path = Path(f"{connections['default'].settings_dict['NAME']}.orbit-lock")
    with dialect_of("default").writing():
        assert path.exists()
    dialect_of("default").forget()
    assert not path.exists()
    dialect_of("default").forget()
    with dialect_of("default").writing():
        assert path.exists()
