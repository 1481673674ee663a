import base64
from typing import Any

import pytest

from orbit_django.embedded.server import page


def execution(**more: Any) -> dict[str, Any]:
    steps = [{"step": "compose", "status": "IN_FLIGHT", "attempt": 2}]
    shown = {"id": "e-1", "workflow": "Greet", "version": "1.0.0", "status": "RUNNING", "steps": steps, "input": {}}
    return shown | more


WORKER = {
    "worker_id": "w-1",
    "runtime": "ruby",
    "contracts": [{"task_name": "a.b", "contract_version": "1"}],
    "online": True,
    "sessions": 1,
    "in_flight": 3,
}


def shown(*executions: dict[str, Any], status: str | None = None, **statuses: int) -> str:
    return page.overview(executions, [WORKER], statuses or {"RUNNING": len(executions)}, status)


def test_executions_steps_and_workers_are_shown() -> None:
    html = shown(execution())

    for text in ("e-1", "Greet 1.0.0", ">RUNNING</span>", "compose: ", ">IN_FLIGHT</span> (attempt 2)", "w-1", "a.b 1"):
        assert text in html
    assert "<td>3</td>" in html


def test_a_step_in_flight_says_where() -> None:
    step = {"step": "compose", "status": "IN_FLIGHT", "attempt": 1, "worker_id": "w-9"}

    assert " at w-9" in shown(execution(steps=[step]))


def test_the_elements_of_a_fan_out_share_a_line() -> None:
    steps = [{"step": f"pack[{i}]", "status": "SUCCEEDED" if i < 7 else "QUEUED", "attempt": 1} for i in range(1_000)]
    html = shown(execution(steps=[{"step": "pack", "status": "FANNED_OUT", "attempt": 0}, *steps]))

    assert 'pack[…]: 7 <span class="SUCCEEDED">SUCCEEDED</span>, 993 <span class="QUEUED">QUEUED</span>' in html
    assert "pack[0]" not in html


def test_an_error_is_shown_as_a_sentence() -> None:
    error = {"code": "X", "message": "step `compose` failed"}

    assert "X: step `compose` failed" in shown(execution(error=error))


def test_everything_from_outside_is_escaped() -> None:
    evil = "<script>alert('x')</script>\"'"
    error = {"code": evil, "message": evil}
    steps = [
        {"step": evil, "status": evil, "attempt": 2, "worker_id": evil},
        {"step": f"{evil}[0]", "status": evil, "attempt": 1},
    ]
    one = execution(id=evil, workflow=evil, status=evil, error=error, input={"a": evil}, steps=steps)
    contracts = [{"task_name": evil, "contract_version": evil}]
    worker = WORKER | {"worker_id": evil, "runtime": evil, "contracts": contracts}
    html = page.overview([one, execution(output={"b": evil})], [worker], {evil: 1}, evil)

    assert "<script" not in html
    assert "alert('x')" not in html
    assert "<script" not in page.refusal(evil).body.decode()


def test_long_texts_and_long_lists_are_cut() -> None:
    many = [{"step": f"s{number}", "status": "QUEUED", "attempt": 1} for number in range(25)]
    html = page.overview([execution(input={"a": "x" * 10_000}, steps=many)] * 200, [], {"RUNNING": 12_345})

    assert "The newest 200 of 12,345 executions" in html
    assert "x" * 301 not in html
    assert "and 5 more" in html


def test_executions_can_be_picked_by_status() -> None:
    html = shown(execution(status="FAILED"), status="FAILED", FAILED=1, RUNNING=8)

    assert "<h2>Executions</h2>" in html
    for link in ('<a href="/">all 9</a>', '<a href="/?status=FAILED">FAILED 1</a>', ">RUNNING 8</a>"):
        assert link in html


def test_the_page_comes_again_by_itself_and_the_refusal_does_not() -> None:
    assert '<meta http-equiv="refresh" content="5">' in shown(execution())
    assert "refresh" not in page.refusal("no").body.decode()


@pytest.mark.parametrize(
    ("header", "bearer"),
    [
        (None, None),
        ("Bearer x", "Bearer x"),
        ("Basic " + base64.b64encode(b"any:the token").decode(), "Bearer the token"),
        ("basic " + base64.b64encode(b":a:b").decode(), "Bearer a:b"),
        ("Basic " + base64.b64encode(b"no colon").decode(), "Bearer "),
        ("Basic ?", "Bearer "),
        ("Basic", "Bearer "),
        ("Basic a", "Bearer "),
        ("Basic ü", "Bearer "),
    ],
)
def test_a_browsers_password_is_a_bearer_token(header: str | None, bearer: str | None) -> None:
    assert page.authorization(header) == bearer
