import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from orbit_django.embedded.store import Event, MemoryStore, SqliteStore, Store
from orbit_django.exceptions import ConfigurationError

ONE = Event("e-1", "StepSucceeded", 5, {"step": "s", "output": {"text": "\u0000ü\U0001f600", "big": 2**70}})
TWO = Event("e-2", "CancelRequested", 6, {"reason": ""})


@pytest.fixture(params=["memory", "file"])
def store(request, tmp_path: Path):
    made: Store = SqliteStore(tmp_path / "a.db") if request.param == "file" else MemoryStore()
    yield made
    made.close()


def test_events_come_back_in_their_order(store: Store) -> None:
    store.append([TWO, ONE])
    store.append([TWO])

    assert list(store.events()) == [TWO, ONE, TWO]
    assert list(store.events("e-2")) == [TWO, TWO]
    assert list(store.events("e-3")) == []


def test_a_file_keeps_them_over_a_process_that_never_closed_it(tmp_path: Path) -> None:
    first = SqliteStore(tmp_path / "a.db")
    first.append([ONE])
    for name in ("a.db", "a.db-wal"):  # what a crash leaves behind
        (tmp_path / f"copy-{name}").write_bytes((tmp_path / name).read_bytes())
    second = SqliteStore(tmp_path / "copy-a.db")

    assert list(second.events()) == [ONE]
    first.close()
    second.close()


def test_all_events_of_a_call_or_none(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "a.db")
    with pytest.raises(TypeError):
        store.append([ONE, Event("e-1", "X", 1, {"bad": object()})])

    assert list(store.events()) == []
    store.close()


def test_two_runtimes_cannot_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    store = SqliteStore(path)

    with pytest.raises(ConfigurationError) as caught:
        SqliteStore(path)
    assert str(caught.value) == f"another orbit_runtime already uses {path}: stop it, or give --db and --port"
    store.close()


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"not a database, and longer than a header" * 100)

    with pytest.raises(ConfigurationError, match="file is not a database"):
        SqliteStore(tmp_path / "a.db")


@pytest.mark.parametrize(
    "statement", ["CREATE TABLE auth_user (id)", "CREATE TABLE events (id, who)", "CREATE TABLE z (id)"]
)
def test_the_database_of_something_else_is_refused_and_left_as_it_is(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "project.sqlite3"
    with closing(sqlite3.connect(path)) as other:
        other.execute(statement)
    before = path.read_bytes()

    with pytest.raises(ConfigurationError, match=r"project\.sqlite3 is a database of something else, with the table"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_a_file_of_an_earlier_run_is_taken_up(tmp_path: Path) -> None:
    for _ in range(2):
        store = SqliteStore(tmp_path / "a.db")
        store.append([ONE])
        store.close()
    store = SqliteStore(tmp_path / "a.db")
    assert len(list(store.events())) == 2
    store.close()
