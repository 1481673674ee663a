"""The table itself: every clause is checked or excused, and the page tells the truth about it."""

from pathlib import Path

import pytest

from tests.conformance import table
from tests.conformance.__main__ import unproven, verdicts
from tests.conformance.excused import EXCUSED
from tests.conformance.page import PAGE, render
from tests.conformance.table import Check

REPORT = """<testsuites><testsuite>
<testcase classname="tests.conformance.test_a" name="test_one[http]"/>
<testcase classname="tests.conformance.test_a" name="test_two[x-1-http]"/>
<testcase classname="tests.conformance.test_a" name="test_two[a-b-http]"><failure/></testcase>
<testcase classname="tests.conformance.test_a" name="test_three[http]"><skipped/></testcase>
<testcase classname="tests.conformance.test_a" name="test_four[http]"/>
</testsuite></testsuites>"""


@pytest.fixture(scope="module")
def checks() -> dict[str, Check]:
    return table.load()


def proven(checks: dict[str, Check]) -> set[str]:
    return {number for check in checks.values() for number in check.clauses}


def test_the_clauses_are_read_from_points_and_from_rows() -> None:
    clauses = table.clauses()
    assert clauses["O004"].startswith("A worker only makes calls.")
    assert "answer here" not in clauses["O301"]
    assert clauses["O301"].endswith("the others take the new session.")
    assert list(clauses) == sorted(clauses)


def test_every_clause_is_checked_or_excused(checks: dict[str, Check]) -> None:
    assert sorted(set(table.clauses()) - proven(checks) - set(EXCUSED)) == []


def test_no_clause_is_both_and_none_is_made_up(checks: dict[str, Check]) -> None:
    assert sorted(set(EXCUSED) & proven(checks)) == []
    assert sorted((set(EXCUSED) | proven(checks)) - set(table.clauses())) == []
    assert [number for number, reason in EXCUSED.items() if len(reason) < 20] == []


def test_every_test_of_a_worker_is_in_the_table(checks: dict[str, Check]) -> None:
    here = Path(__file__)
    texts = {path.stem: path.read_text(encoding="utf-8") for path in here.parent.glob("test_*.py") if path != here}
    functions = {
        f"{name}.{line[4:].split('(')[0]}"
        for name, text in texts.items()
        for line in text.splitlines()
        if line.startswith("def test_")
    }
    assert functions == set(checks)


def test_titles_are_one_sentence_each(checks: dict[str, Check]) -> None:
    titles = [check.title for check in checks.values()]
    assert len(set(titles)) == len(titles)
    assert [
        title for title in titles if (not title[0].isupper() and not title[0].isdigit()) or title.endswith(".")
    ] == []


def test_the_page_is_up_to_date(checks: dict[str, Check]) -> None:
    assert PAGE.read_text(encoding="utf-8") == render(checks, list(table.clauses())), "run `make conformance`"


def test_a_failed_skipped_or_missing_check_is_unproven(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT, encoding="utf-8")
    named = [Check(f"test_a.test_{name}", name, (), ("http",), has_process=False) for name in ("one", "two", "three")]
    later = [Check("test_a.test_four", "four", (), ("http", "grpc"), has_process=False)]
    lost = ["test_a.test_two[http]", "test_a.test_three[http]", "test_a.test_four[grpc]"]
    assert unproven(named + later, verdicts(report)) == lost
