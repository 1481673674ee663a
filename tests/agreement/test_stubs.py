import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orbit_django import shapes
from orbit_django.agreement import compare, stubs
from orbit_django.contracts import ANY, INT, LIST, STRING, Catalog, TaskContract, read
from orbit_django.exceptions import TaskError
from orbit_django.tasks import Registry, registry
from tests import databases

PAY = """
task "shop.pay" {
  version "1.0.0"
  input { order: String, amount: Int, rate: Float }
  output { charge: String }
}
task "shop.close" { version "2.0.0" }
"""
EXPECTED = """from dataclasses import dataclass

from orbit_django import TaskContext, TaskError, task


@dataclass
class PayInput:
    order: str
    amount: int
    rate: float


@dataclass
class PayOutput:
    charge: str


@task("shop.pay", version="1.0.0")
def pay(input: PayInput, ctx: TaskContext) -> PayOutput:
    raise TaskError("NOT_WRITTEN", "nobody has written this handler yet", retryable=False)


@task("shop.close", version="2.0.0")
def close(input: dict, ctx: TaskContext) -> dict:
    raise TaskError("NOT_WRITTEN", "nobody has written this handler yet", retryable=False)
"""


@pytest.fixture(autouse=True)
def found(monkeypatch) -> Registry:
    monkeypatch.setattr(registry, "_tasks", {})
    monkeypatch.setattr(registry, "faults", [])
    return registry


def run(catalog: Catalog) -> dict[str, Any]:
    """Execute the module that is written for a catalog; its handlers are registered and agree."""
    names: dict[str, Any] = {"__name__": "tests.stubbed"}
    exec(compile(stubs(catalog.tasks.values()), "stubs.py", "exec"), names)  # noqa: S102  (what was written here)
    assert registry.faults == []
    assert {(each.contract.task_name, each.contract.contract_version) for each in registry} == set(catalog.tasks)
    assert compare(registry, catalog) == []
    return names


def test_a_module_of_handlers_is_written() -> None:
    assert stubs(read(PAY).tasks.values()) == EXPECTED


def test_the_text_is_formatted_as_it_should_be(tmp_path: Path) -> None:
    file = tmp_path / "tasks_orbit.py"
    file.write_text(stubs(read(PAY + ODD).tasks.values()), encoding="utf-8")
    command = [sys.executable, "-m", "ruff", "format", "--check", "--no-cache", "--isolated", "--line-length=120", file]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_stub_fails_its_run_until_it_is_written() -> None:
    names = run(read(PAY))
    with pytest.raises(TaskError) as caught:
        names["pay"](names["PayInput"]("o", 1, 1.5), None)
    assert (caught.value.code, caught.value.retryable) == ("NOT_WRITTEN", False)


ODD = r"""
task "shop.class" { version "1.0.0" input { from: String, __order: Int } output { None: Float } }
task "Größe: 7 \"x\" \\ %s {0}" { version "1.0.0-β+1" input { self: String, str: String, int: Int, match: Int } }
task "a.task" { version "1" output { dataclass: String } }
task "b.task" { version "1" output { Any: String } }
task "input" { version "1" }
task "注文" { version "1" input { x: Int } }
task "9lives" { version "1" }
task "shop.sendMail" { version "1" input { _to: String } }
"""


def test_names_that_python_does_not_take_are_made_fit() -> None:
    names = run(read(ODD))
    assert shapes.read({"from": "a", "__order": 1}, names["ShopClassInput"]) == {"from": "a", "__order": 1}
    assert {"shop_class", "send_mail", "task_9lives", "input_v1"} <= set(names)


def test_two_versions_of_a_task_have_two_handlers() -> None:
    catalog = read('task "shop.pay" { version "1" input { a: Int } }')
    catalog.declare(read('task "shop.pay" { version "2" input { b: Int } }').tasks.values())
    catalog.declare(read('task "bank.pay" { version "1" }').tasks.values())
    assert {"pay", "shop_pay", "bank_pay"} <= set(run(catalog))


def test_what_only_python_declares_has_hints_as_well() -> None:
    catalog = Catalog()
    catalog.declare([TaskContract("shop.pack", "1", {"sku": ANY, "boxes": LIST}, {"count": INT, "label": STRING})])
    hints = run(catalog)["PackInput"].__annotations__
    assert hints["boxes"] is list


def test_the_stubs_of_a_project_are_ready_to_run(tmp_path: Path) -> None:
    """A project whose only handlers are those that the command wrote passes its checks, and a worker would start."""
    app = tmp_path / "till"
    app.mkdir()
    (app / "__init__.py").touch()
    (tmp_path / "pay.orbit").write_text(PAY + ODD, encoding="utf-8")
    (tmp_path / "settings.py").write_text(
        "SECRET_KEY = 'x'\nUSE_TZ = True\nINSTALLED_APPS = ['orbit_django', 'till']\n"
        f"DATABASES = {{'default': {{'ENGINE': 'django.db.backends.sqlite3', 'NAME': {str(tmp_path / 'db')!r}}}}}\n"
        f"ORBIT = {{'CONTRACTS': [{str(tmp_path / 'pay.orbit')!r}]}}\n",
        encoding="utf-8",
    )

    def manage(*arguments: str) -> str:
        environment = {"DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": f"{tmp_path}:{databases.ROOT}"}
        command = [sys.executable, "-m", "django", *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=50)
        assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
        return done.stdout.decode()

    (app / "tasks_orbit.py").write_text(manage("orbit_tasks", "--stubs"), encoding="utf-8")
    manage("migrate")
    assert "no issues" in manage("check", "--fail-level", "WARNING")
    assert "10 tasks" in manage("orbit_worker", "--check")
    assert manage("orbit_tasks", "--offline").count("agrees") == 10
