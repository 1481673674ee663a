"""Every clause of the page on Weave's protocol is proven by a test that names it, and none is made up."""

import ast
import re

from tests import databases

PAGE = databases.ROOT / "docs" / "reference" / "weave-protocol.md"
CLAUSE = re.compile(r"^\| (V\d\d) \|", re.MULTILINE)


def marked() -> set[str]:
    """Return the clauses that tests name."""
    found: set[str] = set()
    for path in (databases.ROOT / "tests").rglob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        if "mark.clause(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "clause":
                found |= {str(each.value) for each in node.args if isinstance(each, ast.Constant)}
    return found


def test_every_clause_is_proven_and_none_is_made_up() -> None:
    known = CLAUSE.findall(PAGE.read_text(encoding="utf-8"))
    assert len(known) == len(set(known)) > 40
    assert marked() == set(known)


def test_the_code_cites_clauses_that_are_there() -> None:
    folder = databases.ROOT / "orbit_django" / "transports" / "weave"
    cited = {each for path in folder.glob("*.py") for each in re.findall(r"V\d\d", path.read_text(encoding="utf-8"))}
    assert cited <= set(CLAUSE.findall(PAGE.read_text(encoding="utf-8")))
