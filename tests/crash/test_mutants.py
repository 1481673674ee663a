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
