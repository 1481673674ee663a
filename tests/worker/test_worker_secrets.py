"""A run in which everything goes wrong, at the loudest: neither credentials nor task tokens are to be seen anywhere."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from django.apps import apps
from django.db import models
from django.test import Client

from orbit_django.contracts import read
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.models import OutboxMessage
from tests.processes import ListeningFaults, Stage, wait_for
from tests.transports.certificates import Authority
from tests.worker.answering import said
from tests.worker.staging import WORKFLOWS

pytestmark = [pytest.mark.promise("W9"), pytest.mark.timeout(120)]

CREDENTIAL = "wrk-SECRET-credential"
ADMIN = "adm-SECRET-credential"
WRONG = "wrong-SECRET-credential"
MUST_HOLD = {("OutboxMessage", "token"), ("OutboxMessage", "body")}  # they are what is sent
ECHO = f"Bearer {CREDENTIAL}"


@pytest.fixture
def stage(child_environment: dict[str, str], tmp_path: Path) -> Iterator[Stage]:
    runtime = EmbeddedRuntime(read(WORKFLOWS), token=ADMIN, worker_token=CREDENTIAL, faults=ListeningFaults())
    loud = {
        "DJANGO_SETTINGS_MODULE": "tests.worker.debug_settings",
        "ORBIT_WORKER_TOKEN": CREDENTIAL,
        "ORBIT_TOKEN": ADMIN,
        "ORBIT_LOG_LEVEL": "DEBUG",
    }
    with runtime, closing(Stage(runtime, child_environment | loud, tmp_path)) as made:
        yield made


def command(stage: Stage, *arguments: str) -> str:
    line = [sys.executable, "-m", "django", *arguments]
    done = subprocess.run(line, env=stage.environment, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def misfortunes(stage: Stage, folder: Path) -> list[str]:
    """Let everything go wrong that can; return what was printed beside the workers' logs."""
    stage.worker(ORBIT_WORKER_TOKEN=WRONG).exit_code(30)
    tls = Authority(folder, "unknown").server_context()
    with EmbeddedRuntime(read(WORKFLOWS), tls=tls) as stranger:
        lost = stage.worker(ORBIT_SERVER=stranger.url)
        wait_for(lambda: "certificate was not accepted" in lost.log(), 30)
        lost.kill()
    refused = f'{{"error": {{"code": "{ECHO}", "message": "{ECHO}"}}}}'.encode()
    for call, status in (("register", 503), ("poll", 403), ("poll", 502), ("heartbeat", 500)):
        stage.faults.add("answer", call, value=said(status, f"no {ECHO}".encode(), "text/plain"))
    stage.faults.add("answer", "fail", value=said(307, location=f"http://127.0.0.1:9/?token={CREDENTIAL}"), skip=1)
    stage.faults.add("answer", "fail", value=said(401, refused), skip=2)
    stage.faults.add("answer", "complete", value=said(200, f'{{"accepted":false,"reason":"{ECHO}"}}'.encode()))
    worker = stage.worker("--concurrency", "2")
    for number in range(4):
        stage.start(f"leak-{number}", "Leak", seconds=float(number))
    stage.start("spill", "Spill")
    wait_for(lambda: OutboxMessage.objects.count() == 5 and not OutboxMessage.objects.pending().exists(), 60)
    line = Path(f"/proc/{worker.process.pid}/cmdline").read_text()
    worker.signal()
    assert worker.exit_code(30) == 0, worker.log()
    return [line, *(command(stage, *words) for words in COMMANDS)]


COMMANDS = [
    ("orbit_worker", "--check", "--task", "test.*"),
    ("orbit_worker", "--help"),
    ("orbit_worker", "--task", "test.*", "--server", f"http://me:{CREDENTIAL}@127.0.0.1:1"),
    ("orbit_outbox", "status"),
    ("orbit_outbox", "retry"),
    ("orbit_outbox", "flush"),
    ("orbit_effects", "list", "--all"),
    ("check", "--deploy"),
]


def stored() -> Iterator[tuple[str, str]]:
    """Yield every text that a table holds, but for those that must hold tokens."""
    for model in apps.get_app_config("orbit_django").get_models():
        for row in model.objects.all():
            for field in model._meta.concrete_fields:
                is_text = isinstance(field, models.CharField | models.TextField)
                if is_text and (model.__name__, field.name) not in MUST_HOLD:
                    yield f"{model.__name__}.{field.name} {row.pk}", str(getattr(row, field.attname))


def shown() -> Iterator[tuple[str, str]]:
    """Yield every page of the admin that shows one of our tables or a row of it."""
    from django.contrib.auth.models import User

    client = Client()
    client.force_login(User.objects.create_superuser("root", "root@example.com", "x"))
    for model in apps.get_app_config("orbit_django").get_models():
        base = f"/admin/orbit_django/{model._meta.model_name}/"
        for path in (base, *(f"{base}{row.pk}/change/" for row in model.objects.all())):
            page = client.get(path)
            assert page.status_code == 200, path
            yield path, page.content.decode()


def around(secret: re.Pattern[str], text: str) -> str:
    """Return where in the text the first secret stands, or nothing."""
    found = secret.search(text)
    return text[max(found.start() - 150, 0) : found.end() + 50] if found else ""


def test_no_secret_is_printed_stored_or_shown(stage: Stage, tmp_path: Path) -> None:
    printed = misfortunes(stage, tmp_path)
    tokens = [re.escape(token) for token in OutboxMessage.objects.values_list("token", flat=True)]
    assert len(tokens) == 5
    secret = re.compile("|".join(["[a-z]+-SECRET-[a-z]+", *tokens]))
    logs = {f"log {number}": worker.log() for number, worker in enumerate(stage.workers)}
    everything = {**logs, "printed": "\n".join(printed), **dict(stored()), **dict(shown())}
    seen = {where: found for where, text in everything.items() if (found := around(secret, text))}

    assert not seen, "\n".join(f"{w}: {t}" for w, t in seen.items())
    assert "Traceback" in logs["log 2"], "tracebacks are not hidden"
    assert "careless: token ********, credential ********" in logs["log 2"]
    assert "INSERT INTO" in logs["log 2"], "the database layer was loud, too"
