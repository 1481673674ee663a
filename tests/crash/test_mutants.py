"""The mutants stand where the package is: each finds its wall, and leaves a module that can be loaded."""

import ast

import pytest

from tests import databases
from tests.crash.mutants import MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.partition(":")[0])
def test_a_mutant_finds_every_text_that_it_replaces(mutant: Mutant) -> None:
    texts: dict[str, str] = {}
    for change in mutant.changes:
        text = texts.get(change.module) or change.path(databases.ROOT).read_text(encoding="utf-8")
        texts[change.module] = change.applied(text)
    for text in texts.values():
        ast.parse(text)


def test_the_fence_is_torn_down_in_each_database_that_has_a_statement_of_its_own() -> None:
    dialects = [path for path in (databases.ROOT / "orbit_django" / "dialects").glob("*.py") if path.stem != "base"]
    own = {f"dialects/{path.stem}" for path in dialects if "def finish_and_report" in path.read_text(encoding="utf-8")}
    (fencing,) = (mutant for mutant in MUTANTS if mutant.name.startswith("fencing"))
    assert own <= {change.module for change in fencing.changes}
