from dataclasses import replace
from typing import Any

import pytest

from orbit_django.exceptions import PayloadError
from orbit_django.protocol import MAX_COUNT, Assignment, Contract, Receipt, Session, StepKind, Unreadable

WIRE = {
    "token": "tok-SECRET-1",
    "execution_id": "e-1",
    "workflow": "Pay",
    "workflow_version": "1.0.0",
    "step_id": "charge",
    "task_name": "shop.pay",
    "contract_version": "2.0.0",
    "input": {"card": "4111"},
    "idempotency_key": "e-1:charge",
    "attempt": 3,
    "redelivery": True,
    "deadline_ms": 1794736057501,
    "timeout_ms": 2592000000,
}
TEXTS = [name for name, value in WIRE.items() if isinstance(value, str)]


def read(**changes: Any) -> Assignment:
    return Assignment.from_wire(WIRE | changes)


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in WIRE.items() if key != name}


def test_an_assignment_is_read_as_it_was_sent() -> None:
    assert read() == Assignment(**WIRE)
    assert read().contract == Contract("shop.pay", "2.0.0")


def test_fields_of_a_later_protocol_are_let_pass() -> None:
    assert read(priority=5) == read()


@pytest.mark.parametrize("name", ["attempt", "redelivery", "deadline_ms", "timeout_ms"])
def test_what_may_be_missing_may_be_null(name: str) -> None:
    assert Assignment.from_wire(without(name)) == read(**{name: None})


def test_without_them_it_is_the_first_attempt_without_a_deadline() -> None:
    found = read(attempt=None, redelivery=None, deadline_ms=None, timeout_ms=None)
    assert (found.attempt, found.redelivery, found.deadline_ms, found.timeout_ms) == (1, False, None, None)


@pytest.mark.parametrize("name", [*TEXTS[1:], "input"])
@pytest.mark.promise("E7")
def test_an_assignment_without_a_field_can_be_answered(name: str) -> None:
    found = Assignment.from_wire(without(name))
    assert (found.token, found.input) == ("tok-SECRET-1", Unreadable("missing", f"$.{name}"))


@pytest.mark.parametrize("name", TEXTS[1:])
@pytest.mark.parametrize(("value", "why"), [(5, "is not a text"), (["a"], "is not a text"), (None, "missing")])
@pytest.mark.promise("E7")
def test_a_field_of_another_type_hides_no_other(name: str, value: object, why: str) -> None:
    assert read(**{name: value}) == replace(read(), **{name: "", "input": Unreadable(why, f"$.{name}")})


def test_an_assignment_without_a_token_is_none() -> None:
    with pytest.raises(PayloadError, match=r"^\$.token: missing"):
        Assignment.from_wire(without("token"))
    with pytest.raises(PayloadError, match=r"^\$.token: is not a text"):
        read(token=5)


@pytest.mark.parametrize("body", [None, [], "task", 1, True])
@pytest.mark.promise("E7")
def test_what_is_no_object_is_no_assignment(body: object) -> None:
    for kind in (Assignment, Session, Receipt):
        with pytest.raises(PayloadError, match="is not an object"):
            kind.from_wire(body)


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}])
def test_any_json_value_is_an_input(value: object) -> None:
    assert read(input=value).input == value


def test_an_empty_token_could_not_be_answered() -> None:
    with pytest.raises(PayloadError, match="token"):
        read(token="")


def test_other_texts_may_be_empty() -> None:
    assert read(idempotency_key="", step_id="").idempotency_key == ""


@pytest.mark.parametrize(
    ("sent", "used"), [("7", 7), (7.0, 7), (2**31, 2**31), (2**64, MAX_COUNT), (10**400, MAX_COUNT)]
)
def test_numbers_fit_the_tables_whatever_was_sent(sent: object, used: int) -> None:
    found = read(attempt=sent, deadline_ms=sent, timeout_ms=sent)
    assert (found.attempt, found.deadline_ms, found.timeout_ms) == (used, used, used)


@pytest.mark.parametrize("name", ["attempt", "deadline_ms", "timeout_ms"])
@pytest.mark.parametrize("value", ["soon", [1], {}, float("inf"), float("nan")])
@pytest.mark.promise("E7")
def test_what_is_no_number_can_be_answered(name: str, value: object) -> None:
    none = 1 if name == "attempt" else None
    wrong = Unreadable("is not a whole number", f"$.{name}")
    assert read(**{name: value}) == replace(read(), **{name: none, "input": wrong})


@pytest.mark.parametrize("value", ["true", 1, None, [], "false"])
def test_only_true_is_a_redelivery(value: object) -> None:
    assert read(redelivery=value).redelivery is False


@pytest.mark.promise("W9")
def test_token_and_input_are_not_in_the_repr() -> None:
    assert "SECRET" not in repr(read())
    assert "4111" not in repr(read())


@pytest.mark.parametrize(
    ("step_id", "kind"),
    [
        ("charge", StepKind.PLAIN),
        ("charge[0]", StepKind.PLAIN),
        ("compensate", StepKind.PLAIN),
        ("on_time", StepKind.PLAIN),
        ("", StepKind.PLAIN),
        ("compensate:charge", StepKind.COMPENSATION),
        ("compensate:on_failure:x", StepKind.COMPENSATION),
        ("on_failure:notify", StepKind.HANDLER),
        ("on_cancel:notify", StepKind.HANDLER),
    ],
)
@pytest.mark.promise("E5")
def test_the_step_id_tells_the_kind_of_step(step_id: str, kind: StepKind) -> None:
    assert read(step_id=step_id).step_kind is kind


def test_a_session_is_read_with_its_times() -> None:
    body = {"worker_session_id": "s-1", "heartbeat_interval_ms": 500, "session_timeout_ms": 3000, "warnings": ["old"]}
    assert Session.from_wire(body) == Session("s-1", 500, 3000, ("old",))


@pytest.mark.parametrize("missing", [{}, {"heartbeat_interval_ms": 0, "session_timeout_ms": None, "warnings": None}])
def test_a_session_without_times_gets_the_usual_ones(missing: dict[str, Any]) -> None:
    assert Session.from_wire({"worker_session_id": "s-1"} | missing) == Session("s-1", 5000, 30000)


@pytest.mark.parametrize("name", [None, "", 5])
def test_a_session_has_a_name(name: object) -> None:
    with pytest.raises(PayloadError, match="worker_session_id"):
        Session.from_wire({"worker_session_id": name})


@pytest.mark.parametrize(
    ("body", "receipt"),
    [
        ({"accepted": True}, Receipt(accepted=True)),
        ({"accepted": True, "reason": "well done"}, Receipt(accepted=True)),
        ({"accepted": False, "reason": "stale attempt"}, Receipt(accepted=False, reason="stale attempt")),
        ({"accepted": False, "reason": None}, Receipt(accepted=False)),
        ({"accepted": False}, Receipt(accepted=False)),
    ],
)
def test_a_receipt_is_read(body: dict[str, Any], receipt: Receipt) -> None:
    assert Receipt.from_wire(body) == receipt


@pytest.mark.parametrize("body", [{}, {"accepted": None}, {"accepted": "true"}, {"accepted": 1}])
def test_an_answer_that_does_not_say_is_no_receipt(body: dict[str, Any]) -> None:
    with pytest.raises(PayloadError, match="accepted"):
        Receipt.from_wire(body)


@pytest.mark.parametrize(
    ("reason", "is_benign"),
    [
        ("duplicate result; step already resolved", True),
        ("stale attempt", True),
        ("unknown token `tok`", True),
        ("output violates the task contract: x", False),
        ("not a stale attempt", False),
        ("", False),
    ],
)
@pytest.mark.promise("D2")
def test_some_refusals_only_say_that_somebody_was_first(reason: str, *, is_benign: bool) -> None:
    assert Receipt(accepted=False, reason=reason).is_benign is is_benign
