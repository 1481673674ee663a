import io
import json
from dataclasses import asdict
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from orbit_django import conf
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.protocol import Contract
from orbit_django.tasks import registry, task

PAY = 'task "shop.pay" { version "1.0.0" input { order: String } }\n'
SECRET = "hunter2-hunter3"


@pytest.fixture(autouse=True)
def project(settings, monkeypatch, tmp_path):
    """Begin with one handler and its contract."""
    (tmp_path / "pay.orbit").write_text(PAY, encoding="utf-8")
    settings.ORBIT = {"CONTRACTS": [tmp_path / "pay.orbit"]}
    for name in conf.FROM_ENVIRONMENT:
        monkeypatch.delenv(f"ORBIT_{name}", raising=False)
    monkeypatch.setattr(registry, "_tasks", {})
    monkeypatch.setattr(registry, "faults", [])
    task("shop.pay", version="1.0.0")(pay)
    return settings


def pay(input, ctx): ...


def ship(input, ctx): ...


def listed(*arguments: str, code: int = 0) -> str:
    """Run the command, which must end with that code; return what it printed."""
    stream = io.StringIO()
    if code:
        with pytest.raises(SystemExit) as ended:
            call_command("orbit_tasks", *arguments, stdout=stream)
        assert ended.value.code == code
    else:
        call_command("orbit_tasks", *arguments, stdout=stream)
    return stream.getvalue()


def cells(text: str, row: int) -> list[str]:
    return [cell for cell in text.splitlines()[row].split("  ") if cell]


def test_the_tasks_are_listed_with_all_that_was_said_of_them() -> None:
    task("shop.ship", version="2.0.0", atomic=False, using="other")(ship)
    text = listed("--offline", code=1)
    assert cells(text, 0) == ["task", " version", "handler", *cells(text, 0)[3:]]
    line = pay.__code__.co_firstlineno
    assert [cell.strip() for cell in cells(text, 1)] == [
        "shop.pay", "1.0.0", f"{__name__}.pay:{line}", "atomic", "default", "agrees", "-",
    ]  # fmt: skip
    assert [cell.strip() for cell in cells(text, 2)[3:]] == ["not atomic", "other", "differs", "-"]


def test_columns_are_aligned() -> None:
    task("shop.ship.far.away", version="2.0.0-long")(ship)
    head, *rows = listed("--offline", code=1).splitlines()[:3]
    for word, cell in (("version", "1.0.0"), ("mode", "atomic"), ("database", "default")):
        assert rows[0].index(cell) == head.index(word)


def test_everything_agrees() -> None:
    assert "warning" not in listed("--offline")


def test_without_contracts_nothing_is_compared(project) -> None:
    project.ORBIT = {}
    assert [cell.strip() for cell in cells(listed("--offline"), 1)[-2:]] == ["-", "-"]


def test_a_project_without_tasks_says_so(project, monkeypatch) -> None:
    project.ORBIT = {}
    monkeypatch.setattr(registry, "_tasks", {})
    assert listed("--offline").startswith("no tasks: ")


def test_a_difference_is_told_with_what_to_do() -> None:
    task("shop.pya", version="1.0.0")(ship)
    text = listed("--offline", code=1)
    assert "warning W003" in text
    assert "did you mean `shop.pay`?  -> Declare it, or correct the name in @task." in text


@pytest.mark.promise("W8")
def test_two_handlers_for_one_task_are_told() -> None:
    task("shop.pay", version="1.0.0")(ship)
    assert "\nerror shop.pay 1.0.0 has two handlers: " in listed("--offline", code=1)


def test_a_broken_file_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "pay.orbit").write_text(PAY + "task task", encoding="utf-8")
    text = listed("--offline", code=1)
    assert f"\nerror {tmp_path}/pay.orbit:2:6: expected" in text
    assert [cell.strip() for cell in cells(text, 1)[-2:]] == ["-", "-"]


def test_a_setting_that_cannot_be_used_is_a_mistake() -> None:
    with pytest.raises(CommandError, match="SERVER: 'nowhere' is no URL") as caught:
        call_command("orbit_tasks", "--server=nowhere")
    assert caught.value.returncode == 2


def test_it_is_coloured_on_a_terminal_and_plain_elsewhere(monkeypatch) -> None:
    with monkeypatch.context() as terminal:
        terminal.setattr("django.core.management.color.supports_color", lambda: True)
        assert "\x1b[" in listed("--offline")
        assert "\x1b[" not in listed("--offline", "--no-color")
    assert "\x1b[" not in listed("--offline")


def test_no_name_steers_the_terminal() -> None:
    ship.__qualname__ = "ship\x1b[2J"
    try:
        task("shop.ship", version="1.0.0")(ship)
        assert r"ship\x1b[2J" in listed("--offline", code=1)
    finally:
        ship.__qualname__ = "ship"


def test_json_says_the_same() -> None:
    task("shop.ship", version="1.0.0")(ship)
    found = json.loads(listed("--offline", "--json", code=1))
    assert found["agreed"] is False
    assert [row["task"] for row in found["tasks"]] == ["shop.pay", "shop.ship"]
    assert [each["code"] for each in found["differences"]] == ["W003"]


def announce(runtime: EmbeddedRuntime, *contracts: Contract) -> None:
    with runtime.changing() as inside:
        listed = [asdict(contract) for contract in contracts]
        inside.register({"worker_id": "w-1", "runtime": "python", "contracts": listed, "sdk": "test"})


def test_the_workers_of_the_runtime_are_counted(project) -> None:
    with EmbeddedRuntime([]) as runtime:
        assert f"runtime {runtime.url}: 0 workers online" in listed(f"--server={runtime.url}")
        announce(runtime, Contract("shop.pay", "1.0.0"))
        text = listed(f"--server={runtime.url}")
        assert cells(text, 1)[-1] == "1"
        assert f"runtime {runtime.url}: 1 worker online" in text


def test_workers_of_older_code_are_a_difference(project) -> None:
    with EmbeddedRuntime([]) as runtime:
        announce(runtime, Contract("shop.pay", "0.9.0"))
        text = listed(f"--server={runtime.url}", code=1)
        assert cells(text, 1)[-1] == "none"
        assert "shop.pay 1.0.0: workers of this project run, none serves it" in text
        found = json.loads(listed(f"--server={runtime.url}", "--json", code=1))
        assert found["runtime"]["lacking"] == [{"task_name": "shop.pay", "contract_version": "1.0.0"}]


@pytest.mark.promise("W9")
def test_a_runtime_that_wants_a_credential_is_asked_with_the_admin_token(project) -> None:
    with EmbeddedRuntime([], token=SECRET, worker_token="of-a-worker-only") as runtime:
        project.ORBIT |= {"SERVER": runtime.url, "WORKER_TOKEN": "of-a-worker-only"}
        assert f"{runtime.url} was not asked for its workers: that takes the admin token, TOKEN" in listed()
        project.ORBIT |= {"TOKEN": "another-" + SECRET}
        refused = listed()
        assert f"{runtime.url} could not be asked for its workers: 401" in refused
        assert SECRET not in refused
        project.ORBIT |= {"TOKEN": SECRET}
        assert "0 workers online" in listed()


def test_a_runtime_that_is_away_is_no_failure(unused_url: str) -> None:
    assert f"runtime {unused_url} could not be asked for its workers: nothing listens" in listed(
        f"--server={unused_url}"
    )


@pytest.fixture
def unused_url() -> str:
    with EmbeddedRuntime([]) as runtime:
        return runtime.url


def test_stubs_are_printed_for_what_has_no_handler(tmp_path: Path) -> None:
    (tmp_path / "pay.orbit").write_text(PAY + 'task "shop.ship" { version "1.0.0" }', encoding="utf-8")
    text = listed("--stubs")
    assert '@task("shop.ship", version="1.0.0")' in text
    assert "shop.pay" not in text


def test_stubs_of_a_file_are_printed_for_all_of_it(tmp_path: Path) -> None:
    assert '@task("shop.pay", version="1.0.0")' in listed("--stubs", str(tmp_path / "pay.orbit"))


def test_nothing_to_write_and_files_that_are_not_there_are_mistakes(tmp_path: Path) -> None:
    for arguments, text in (([], "every task of CONTRACTS has a handler"), ([str(tmp_path / "no.orbit")], "no.orbit")):
        with pytest.raises(CommandError, match=text) as caught:
            call_command("orbit_tasks", "--stubs", *arguments)
        assert caught.value.returncode == 2


def test_no_handler_is_called_missing_beside_one_that_cannot_be_served(tmp_path: Path) -> None:
    (tmp_path / "pay.orbit").write_text(PAY + 'task "shop.ship" { version "1.0.0" }', encoding="utf-8")
    assert "warning W005" in listed("--offline", code=1)
    registry.faults.append("shop.tasks_orbit: ImportError")
    assert "W005" not in listed("--offline", code=1)
