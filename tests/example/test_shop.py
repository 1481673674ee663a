import os
import subprocess
import sys

import pytest
from django.conf import settings

from tests import databases
from tests.example.conftest import SHOP_SETTINGS


@pytest.mark.skipif(settings.SETTINGS_MODULE == SHOP_SETTINGS, reason="this process runs the shop's tests already")
def test_the_tests_of_the_shop_pass_under_its_own_settings():
    # A run of its own: at its end it removes the folder of the run that it belongs to.
    environment = {name: value for name, value in os.environ.items() if name != "ORBIT_TEST_RUN"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--ds={SHOP_SETTINGS}"]
    run = subprocess.run(
        [*command, "tests/example/shop"],
        cwd=databases.ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-2000:]
