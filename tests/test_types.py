"""A user's project under mypy in strict mode with django-stubs: the public names are usable, and not merely Any."""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from textwrap import dedent

import pytest

from tests import databases

FILES = {
    "mypy.ini": """
        [mypy]
        strict = True
        plugins = mypy_django_plugin.main, pydantic.mypy
        enable_error_code = ignore-without-code, redundant-expr, truthy-bool
        disallow_any_unimported = True
        warn_unreachable = True

        [mypy.plugins.django-stubs]
        django_settings_module = settings
    """,
    "settings.py": """
        SECRET_KEY = "only-for-this-test"
        INSTALLED_APPS = ["orbit_django", "library"]
        DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "library.sqlite3"}}
        DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
        ORBIT: dict[str, object] = {"CONTRACTS": ["library.orbit"], "CONCURRENCY": 2}
    """,
    "library/__init__.py": "",
    "library/models.py": """
        from django.db import models


        class Loan(models.Model):
            key = models.TextField(unique=True)
            member = models.TextField()
    """,
    "library/tasks_orbit.py": """
        from dataclasses import dataclass
        from datetime import datetime
        from typing import Any, NotRequired, TypedDict, assert_type

        from pydantic import BaseModel

        from library.models import Loan
        from orbit_django import TaskCancelled, TaskContext, TaskError, task


        @dataclass
        class Lend:
            member: str
            books: list[int]


        class Remind(TypedDict):
            member: str
            days: NotRequired[int]


        class Fine(BaseModel):
            member: str
            cents: int


        @task("library.lend", version="1.0.0")
        def lend(input: Lend, ctx: TaskContext) -> dict[str, Any]:
            if not input.books:
                raise TaskError("NOTHING_TO_LEND", "no book was named", retryable=False, details={"to": input.member})
            loan = Loan.objects.create(key=ctx.idempotency_key, member=input.member)
            assert_type(ctx.attempt, int)
            assert_type(ctx.redelivery, bool)
            assert_type(ctx.deadline, datetime | None)
            assert_type(ctx.remaining_ms, int | None)
            assert_type(ctx.sleep(0.1), bool)
            ctx.logger.info("lent", extra={"loan": loan.pk})
            return {"loan": loan.pk}


        @task("library.remind", version="1.0.0", atomic=False, using="default", sensitive=True, description="By mail.")
        def remind(input: Remind, ctx: TaskContext) -> Fine:
            def call(member: str, key: str) -> str:
                return member + key

            def look(member: str, key: str) -> str | None:
                return None

            mail = ctx.effect("mail", call, input["member"], ctx.effect_key("mail"), find=look)
            row = ctx.transaction("row", lambda: Loan.objects.filter(member=input["member"]).count())
            try:
                ctx.raise_if_cancelled()
            except TaskCancelled:
                raise
            return Fine(member=str(mail), cents=int(row))


        @task("library.fine", version="1.0.0", output=dict)
        async def fine(input: Fine) -> dict[str, int]:
            return {"cents": input.cents, "loans": await Loan.objects.acount()}


        def called(ctx: TaskContext) -> None:
            assert_type(lend(Lend("ada", [1]), ctx), dict[str, Any])  # it stays a plain function
    """,
    "library/views.py": """
        from typing import Any, assert_type

        from django.db import transaction
        from django.dispatch import receiver
        from django.http import HttpRequest, JsonResponse

        from library.models import Loan
        from orbit_django.client import Client, start_on_commit
        from orbit_django.exceptions import NoAnswerError, RefusedError
        from orbit_django.signals import result_refused, task_finished


        @transaction.atomic
        def ask(request: HttpRequest) -> JsonResponse:
            Loan.objects.create(key="k", member="ada")
            execution_id = start_on_commit("Lend", {"member": "ada", "books": [1]}, execution_id="lend-1")
            return JsonResponse({"id": assert_type(execution_id, str)})


        def look(execution_id: str) -> dict[str, Any]:
            client = Client()
            try:
                started = client.start("Lend", {"member": "ada", "books": [1]}, execution_id=execution_id)
                return client.wait(started, timeout_seconds=2.5)
            except (RefusedError, NoAnswerError):
                return client.cancel(execution_id, "nobody waits")
            finally:
                client.close()


        @receiver([task_finished, result_refused])
        def told(sender: object, **kwargs: Any) -> None: ...
    """,
    "library/test_lend.py": """
        from collections.abc import Callable
        from typing import Any

        import pytest
        from django.test import TestCase

        from library.models import Loan
        from orbit_django.client import Client
        from orbit_django.testing import LocalRuntime, OrbitTestCaseMixin, TaskReport

        INPUT = {"member": "ada", "books": [1]}


        @pytest.mark.django_db
        def test_a_loan(run_task: Callable[..., TaskReport]) -> None:
            report = run_task("library.lend", INPUT, attempt=2)
            assert report.is_success and report.output is not None
            assert report.output["loan"]


        @pytest.mark.django_db(transaction=True)
        def test_once(exactly_once: Callable[..., None]) -> None:
            exactly_once("library.lend", INPUT, count=Loan.objects.count)


        @pytest.mark.django_db
        def test_whole(orbit_runtime: LocalRuntime, run_until_idle: Callable[..., int]) -> None:
            execution = Client().start("Lend", INPUT)
            assert run_until_idle() == 1
            assert orbit_runtime.execution(execution)["status"] == "COMPLETED"


        class LoanTest(OrbitTestCaseMixin, TestCase):
            def test_a_loan(self) -> None:
                report = self.run_task("library.lend", INPUT)
                self.assertEqual(report.error_code, "")
                self.assertEqual(self.run_until_idle(), 0)

            def counted(self) -> None:
                self.exactly_once("library.lend", INPUT, count=Loan.objects.count)
    """,
}
MISTAKES = """
    from typing import Any

    from orbit_django import TaskContext, TaskError, task
    from orbit_django.client import Client, start_on_commit
    from orbit_django.testing import OrbitTestCaseMixin


    @task("library.wrong", version=1)
    def wrong(input: dict[str, Any], ctx: TaskContext) -> dict[str, Any]:
        ctx.attempt + "x"
        ctx.nothing
        raise TaskError(code=3)


    wrong("only one argument")
    Client().start(3)
    start_on_commit("Lend", {}, execution_id=7)
    OrbitTestCaseMixin().run_task(8).is_good
"""
FOUND = re.compile(r"^library/mistakes\.py:\d+: error: .*\[([a-z-]+)\]$", re.MULTILINE)


@pytest.fixture
def check(tmp_path: Path):
    """Return what lets mypy look at the project, together with more of it."""

    def run(**more: str) -> str:
        for name, text in FILES.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(dedent(text).lstrip(), encoding="utf-8")
        for name, text in more.items():
            (tmp_path / "library" / f"{name}.py").write_text(dedent(text), encoding="utf-8")
        path = os.pathsep.join([str(tmp_path), str(databases.ROOT)])
        environment = os.environ | {"PYTHONPATH": path, "DJANGO_SETTINGS_MODULE": "settings"}
        # What mypy learns of Django is kept between runs: it is the same each time.
        cache = f"--cache-dir={databases.ROOT / '.mypy_cache' / 'project'}"
        command = [sys.executable, "-m", "mypy", cache, "settings.py", "library"]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    return run


@pytest.mark.timeout(300)
def test_a_project_is_checked_strictly_and_its_mistakes_are_found(check) -> None:
    said = check()
    assert said.splitlines()[-1] == "Success: no issues found in 6 source files", said

    said = check(mistakes=MISTAKES)
    assert Counter(FOUND.findall(said)) == {"arg-type": 6, "attr-defined": 2, "call-arg": 1, "operator": 1}, said
