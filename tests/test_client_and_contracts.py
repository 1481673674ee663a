"""What start_on_commit says of a start that does not agree with CONTRACTS."""

from decimal import Decimal

import pytest

from orbit_django.client import start_on_commit
from orbit_django.models import WorkflowStart


@pytest.fixture
def asked(db, settings):
    """Return what asks for a start, and returns its row."""
    return lambda *given: WorkflowStart.objects.get(execution_id=start_on_commit(*given))


@pytest.mark.promise("D1")
def test_a_start_of_a_workflow_that_no_contract_declares_is_warned_of_once(asked, settings, tmp_path, caplog) -> None:
    contract = tmp_path / "pay.orbit"
    text = 'task "a.b" {{ version "1" }} workflow {} {{ version "1" step only {{ worker "a.b" }} return {{}} }}'
    contract.write_text(text.format("Checkout"), encoding="utf-8")
    settings.ORBIT = {"CONTRACTS": [contract]}

    rows = [asked(name) for name in ("Chekout", "Checkout", "Chekout")]
    assert [row.status for row in rows] == ["pending"] * 3, "another file of the runtime may declare it"
    (told,) = caplog.records
    assert told.levelname == "WARNING"
    assert told.getMessage().startswith("start_on_commit: CONTRACTS declares no workflow 'Chekout'; ")
    assert told.getMessage().endswith("; did you mean `Checkout`?")
    contract.write_text(text.format("Chekout"), encoding="utf-8")
    asked("Chekout")
    assert len(caplog.records) == 1
    asked("Checkout")
    assert [record.args[0] for record in caplog.records] == ["Chekout", "Checkout"]


@pytest.mark.promise("D1")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"key": "k", "cents": 7}, ""),
        ({"order": 3}, "$.key: missing required field `key` of type String; $.cents: missing required field `cents`"),
        ({"key": "k", "cents": Decimal("7")}, "$.cents: expected Int, found String, as which Decimal is sent; the "),
        ({"key": None, "cents": 7.5}, "$.key: expected String, found null; $.cents: expected Int, found Float; the "),
    ],
)
def test_a_start_whose_input_does_not_match_its_declaration_is_warned_of(
    asked, settings, tmp_path, caplog, given, said
):
    contract = tmp_path / "pay.orbit"
    declared = 'input { key: String, cents: Int } step only { worker "a.b" } return {}'
    contract.write_text(f'task "a.b" {{ version "1" }} workflow Pay {{ version "1" {declared} }}', encoding="utf-8")
    settings.ORBIT = {"CONTRACTS": [contract]}

    assert asked("Pay", given).status == "pending", "the runtime may know another declaration"
    begin = f"start_on_commit: the input does not match what CONTRACTS declares for workflow 'Pay': {said}"
    assert [record.levelname for record in caplog.records] == (["WARNING"] if said else [])
    assert all(record.getMessage().startswith(begin) for record in caplog.records)


def test_contracts_that_cannot_be_read_do_not_keep_anybody_from_starting(asked, settings, tmp_path, caplog) -> None:
    settings.ORBIT = {"CONTRACTS": [tmp_path / "gone.orbit"]}
    assert asked("Checkout").status == "pending"
    assert caplog.records == []
