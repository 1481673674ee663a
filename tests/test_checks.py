import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import ERROR, WARNING, run_checks
from django.core.management import call_command
from django.db import connections
from django.db.backends.sqlite3.base import DatabaseWrapper
from django.db.migrations.recorder import MigrationRecorder

from orbit_django import checks, conf
from orbit_django.exceptions import ConfigurationError
from orbit_django.tasks import Registry, registry, task

TASK = 'task "a.b" { version "1.0.0" }'


@dataclass
class Unreadable:
    line: "Nowhere"  # noqa: F821  (that nobody defines it is the point)


def pay(input, ctx): ...


def ship(input, ctx): ...


def unreadable(input: Unreadable): ...


@pytest.fixture(autouse=True)
def found(monkeypatch, settings) -> Registry:
    """Return an empty registry, in a project that says nothing."""
    settings.ORBIT = {}
    monkeypatch.setattr(registry, "_tasks", {})
    monkeypatch.setattr(registry, "faults", [])
    return registry


@pytest.fixture
def lacking(transactional_db):
    """Forget that a migration was applied."""
    recorder = MigrationRecorder(connections["other"])
    name = min(name for app, name in recorder.applied_migrations() if app == "orbit_django")
    recorder.record_unapplied("orbit_django", name)
    yield "other"
    recorder.record_applied("orbit_django", name)


@pytest.fixture
def sqlite_named():
    """Return a function that puts an SQLite database in the place of the default one."""
    usual = connections["default"]

    def put(name: str) -> None:
        settings = usual.settings_dict | {"ENGINE": "django.db.backends.sqlite3", "NAME": name, "OPTIONS": {}}
        connections["default"] = DatabaseWrapper(settings, "default")

    yield put
    connections["default"] = usual


def told() -> list[tuple[str, str, str | None]]:
    """Return what Django's own run of our checks says."""
    return [(str(each.id), str(each.msg), each.hint) for each in run_checks(tags=[checks.TAG])]


def serve(name: str = "shop.pay", function: Any = pay, **said: Any) -> None:
    task(name, version="1", **said)(function)


def start(*aliases: str) -> None:
    checks.preflight(registry, tuple(registry), aliases)


def refusal(*aliases: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        start(*aliases)
    return str(caught.value)


def test_a_project_without_mistakes_passes() -> None:
    serve()
    assert told() == []
    start()


def test_a_project_that_serves_nothing_passes_the_checks() -> None:
    assert told() == []


def test_e001_a_wrong_setting(settings) -> None:
    settings.ORBIT = {"CONCURRENCY": "four", "LOG_LEVEL": "loud"}
    (level, concurrency) = told()
    assert level[:1] + concurrency[:1] == ("orbit_django.E001",) * 2
    assert level[1].startswith("LOG_LEVEL: expected one of")
    assert concurrency[1].startswith("CONCURRENCY: expected a whole number")


def test_e001_alone_tells_that_the_setting_is_no_dictionary(settings) -> None:
    settings.ORBIT = ["SERVER"]
    assert [each[:2] for each in told()] == [("orbit_django.E001", "ORBIT: the setting is to be a dictionary")]


@pytest.mark.parametrize("path", ["pigeon", "no.such.module", "os.path"])
@pytest.mark.promise("W8")
def test_e001_a_transport_that_cannot_be_used(settings, path: str) -> None:
    settings.ORBIT = {"TRANSPORT": path}
    ((check, text, _),) = told()
    assert (check, text.startswith(f"TRANSPORT: {path!r} ")) == ("orbit_django.E001", True)


@pytest.fixture
def orbit_file(tmp_path, settings) -> Path:
    """Return a file of contracts that the settings name."""
    file = tmp_path / "pay.orbit"
    file.write_text('task "shop.pay" { version "1" input { order: String } }', encoding="utf-8")
    settings.ORBIT = {"CONTRACTS": [file]}
    return file


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b'task "a.b" {\n  version 1\n}', ":2:11: expected "),
        (b"\xff", ":1:1: this is not UTF-8 text"),
        (b'task "a.b" { version "1" ' + b"{" * 5000, ":1:26: "),
        (None, ": cannot be read: "),
    ],
)
def test_e005_a_file_of_contracts_that_cannot_be_read(orbit_file: Path, data: bytes | None, text: str) -> None:
    orbit_file.unlink() if data is None else orbit_file.write_bytes(data)
    ((check, told_text, hint),) = told()
    assert (check, hint is not None) == ("orbit_django.E005", True)
    assert told_text.startswith(f"{orbit_file}{text}")


def test_e006_and_w003_handlers_and_contracts_that_differ(orbit_file: Path, monkeypatch) -> None:
    @dataclass
    class Given:
        order: int

    def charge(input: Given, ctx): ...

    serve(function=charge)
    serve("shop.ship", ship)
    assert [each[0] for each in told()] == ["orbit_django.E006", "orbit_django.W003"]
    assert [each.level for each in checks.check_contracts()] == [ERROR, WARNING]
    assert [each.level for each in checks.check_contracts(databases=["default"])] == [ERROR, WARNING]
    monkeypatch.setattr(sys, "argv", ["manage.py", "migrate"])
    assert [each.level for each in checks.check_contracts(databases=["default"])] == [WARNING, WARNING]
    assert all(each[2] for each in told())


def test_beside_a_module_that_cannot_be_imported_no_handler_is_called_missing(orbit_file: Path, found) -> None:
    assert [each[0] for each in told()] == ["orbit_django.W005"]
    found.faults.append("shop.tasks_orbit: ImportError")
    assert [each[0] for each in told()] == ["orbit_django.E003"]


def test_differences_do_not_stop_a_migration(orbit_file: Path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["manage.py", "migrate"])
    orbit_file.write_text("task", encoding="utf-8")
    (found,) = checks.check_contracts(databases=["default"])
    assert found.level == WARNING


def test_a_project_that_agrees_with_its_contracts_passes(orbit_file: Path) -> None:
    serve()
    assert told() == []


def test_e002_an_unknown_key_with_a_hint(settings) -> None:
    settings.ORBIT = {"CONCURENCY": 2, "ZZZ": 1}
    assert told() == [
        ("orbit_django.E002", "settings.ORBIT has the unknown key 'CONCURENCY'.", "Did you mean 'CONCURRENCY'?"),
        ("orbit_django.E002", "settings.ORBIT has the unknown key 'ZZZ'.", f"The keys are {', '.join(conf.keys())}."),
    ]
    assert {"SERVER", "CONTRACTS", "CLAIM_SECONDS"} < set(conf.keys())


@pytest.mark.promise("W8")
def test_e003_a_handler_that_cannot_be_served() -> None:
    serve()
    serve(function=ship)
    serve("orbit.start")
    assert [each[0] for each in told()] == ["orbit_django.E003"] * 2


@pytest.mark.promise("W8")
def test_e003_a_type_with_a_field_that_cannot_be_read() -> None:
    serve(function=unreadable)
    ((check, text, _),) = told()
    assert check == "orbit_django.E003"
    assert text.endswith("a field of Unreadable cannot be read: name 'Nowhere' is not defined")
    assert refusal() == text


@pytest.mark.promise("W8")
def test_e004_a_handler_on_an_unknown_database() -> None:
    serve(using="nowhere")
    ((check, text, _),) = told()
    assert (check, "using='nowhere' is no database alias" in text) == ("orbit_django.E004", True)
    assert refusal() == text


@pytest.mark.promise("W8")
def test_no_tasks_no_worker() -> None:
    assert refusal() == (
        "no tasks to serve: no tasks_orbit module of an installed app has a @task handler; write <app>/tasks_orbit.py"
        " with a @task handler and list the app in INSTALLED_APPS"
    )
    serve()
    with pytest.raises(ConfigurationError, match="left after --task and --exclude"):
        checks.preflight(registry, (), [])


@pytest.mark.parametrize("name", ["shop.pay", "orbit.start"])
@pytest.mark.promise("W8")
def test_a_fault_of_any_handler_stops_a_worker(name: str) -> None:
    serve()
    serve(name, ship)
    assert refusal() == registry.faults[0]


@pytest.mark.promise("W8")
def test_an_unknown_key_stops_a_worker(settings) -> None:
    serve()
    settings.ORBIT = {"CONCURENCY": 2}
    assert refusal() == "ORBIT: the key 'CONCURENCY' is unknown; did you mean 'CONCURRENCY'?"


@pytest.mark.parametrize("name", [":memory:", "file:shared?mode=memory&cache=shared"])
@pytest.mark.promise("W8")
def test_a_database_in_memory_stops_a_worker(sqlite_named, name: str) -> None:
    serve()
    sqlite_named(name)
    assert refusal("default").startswith("DATABASES['default'] is an SQLite database in memory")


@pytest.mark.django_db(transaction=True)
@pytest.mark.promise("W8")
def test_a_database_that_is_away_is_no_mistake(sqlite_named) -> None:
    serve()
    sqlite_named("/nowhere/at/all.sqlite3")
    start("default")


@pytest.mark.databases
@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_a_migrated_database_lets_a_worker_start() -> None:
    serve()
    start("default", "other")


@pytest.mark.databases
@pytest.mark.django_db(transaction=True, databases=["default", "other"])
@pytest.mark.promise("W8")
def test_a_missing_migration_stops_a_worker(lacking: str) -> None:
    serve()
    start("default")
    assert refusal("default", lacking) == (
        "database 'other' lacks 1 migration of orbit_django: run manage.py migrate --database other"
    )


def test_system_checks_ask_no_database() -> None:
    serve()
    call_command("check", "--tag", checks.TAG)
