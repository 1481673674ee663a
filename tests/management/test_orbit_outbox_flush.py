"""What a flush tells of what was sent and not taken."""

import logging

import pytest

from orbit_django import starts
from orbit_django.embedded.server import EmbeddedRuntime
from orbit_django.management.commands.orbit_outbox import Command
from orbit_django.models import WorkflowStart
from tests.worker.starting import CONTRACT, ask

pytestmark = [pytest.mark.databases, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def bare_log():
    """Have nothing set up for our log, whatever other tests have left."""
    ours = logging.getLogger("orbit_django")
    level, handlers = ours.level, ours.handlers[:]
    ours.setLevel(logging.NOTSET)
    ours.handlers[:] = []
    yield ours
    ours.setLevel(level)
    ours.handlers[:] = handlers


@pytest.mark.promise("D2")
@pytest.mark.parametrize("verbosity", ["0", "1", "2"])
def test_a_refused_start_is_told_with_its_id_and_the_reason(settings, capsys, monkeypatch, bare_log, verbosity):
    monkeypatch.setattr(logging.root, "handlers", [])  # as in a project without LOGGING; pytest adds its own to each
    ask("good")
    starts.append("Chrage", {}, "misspelt", using="default")
    with EmbeddedRuntime([CONTRACT]) as runtime:
        settings.ORBIT = {"SERVER": runtime.url}
        Command().run_from_argv(["manage.py", "orbit_outbox", "flush", "-v", verbosity])

    assert list(WorkflowStart.objects.order_by("pk").values_list("status", flat=True)) == ["started", "refused"]
    out, err = capsys.readouterr()
    assert out == ("" if verbosity == "0" else "2 sent, 0 left\n")
    (line,) = [line for line in err.splitlines() if "was refused" in line]
    assert (
        " ERROR orbit_django.worker.starter the start of a workflow was refused workflow=Chrage execution=mis" in line
    )
    assert "error=404 UNKNOWN_WORKFLOW: " in line
    assert err.splitlines()[-1] == "1 workflow start refused by the runtime for good: the admin shows its words"
    assert ("a workflow was started" in err) == (verbosity == "2")
    assert (bare_log.level, bare_log.handlers) == (logging.NOTSET, [])
