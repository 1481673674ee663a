"""A few schedules of the laboratory in the suite; `make crash` runs many."""

import os
from pathlib import Path

import pytest

from tests import databases
from tests.crash.lab import Experiment, Laboratory
from tests.crash.weave_lab import WeaveExperiment

SEEDS = range(1, 6)


@pytest.mark.databases
@pytest.mark.django_db(transaction=True)
@pytest.mark.timeout(240)
@pytest.mark.promise("E1", "E2", "E3", "E4", "E6", "E9", "E10", "D1", "D4")
@pytest.mark.parametrize("experiment", [Experiment, WeaveExperiment])
def test_no_schedule_of_faults_doubles_or_loses_anything(
    child_environment: dict[str, str], tmp_path: Path, experiment: type[Experiment]
) -> None:
    with Laboratory(databases.chosen(), child_environment, tmp_path, experiment) as laboratory:
        found = {seed: laboratory.run(seed)[1] for seed in SEEDS}
    assert {seed: violations for seed, violations in found.items() if violations} == {}, os.linesep.join(
        path.read_text(encoding="utf-8") for path in tmp_path.rglob("workers.log")
    )
