import subprocess
import sys

import pytest
from django.conf import settings

from tests import databases
from tests.example.conftest import SHOP_SETTINGS


@pytest.mark.skipif(settings.SETTINGS_MODULE == SHOP_SETTINGS, reason="this process runs the shop's tests already")
def test_the_tests_of_the_shop_pass_under_its_own_settings():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--ds={SHOP_SETTINGS}"]
    run = subprocess.run(
        [*command, "tests/example/shop"], cwd=databases.ROOT, capture_output=True, text=True, timeout=50, check=False
    )
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-2000:]
