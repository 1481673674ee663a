"""A worker that could not hold results to their contracts does not start."""

from pathlib import Path

import pytest

from tests.management.test_orbit_worker import HANDLER, databases_of, program, run


@pytest.mark.promise("W8")
@pytest.mark.parametrize("more", [(), ("--processes", "2"), ("--check",)])
def test_a_contract_that_cannot_be_read_is_one_line(tmp_path: Path, child_environment, more: tuple[str, ...]) -> None:
    environment = program(tmp_path, HANDLER) | databases_of(child_environment)
    with (tmp_path / "only_settings.py").open("a", encoding="utf-8") as file:
        file.write('ORBIT = {"CONTRACTS": ["/nowhere/gone.orbit"]}\n')
    ended = run(environment, *more)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "CommandError: CONTRACTS: /nowhere/gone.orbit: cannot be read: No such file or directory\n"
