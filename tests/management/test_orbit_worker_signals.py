import os
import signal
import threading

import pytest
from django.core.management import call_command

from orbit_django import checks


@pytest.mark.promise("W5")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_the_worker_has_begun_ends_it_in_order(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*_: object) -> None:
        os.kill(os.getpid(), number)
        threading.Event().wait(10)
        raise AssertionError("the signal had no effect")

    before = signal.getsignal(number)
    monkeypatch.setattr(checks, "preflight", hang)
    with pytest.raises(SystemExit) as ended:
        call_command("orbit_worker", "--task", "test.*")

    assert ended.value.code == 0
    assert signal.getsignal(number) is before
