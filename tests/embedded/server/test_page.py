from typing import Any

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


def test_executions_steps_and_workers_are_shown() -> None:
    html = page.overview([execution()], [WORKER])

    for text in ("e-1", "Greet 1.0.0", "RUNNING", "compose: IN_FLIGHT (attempt 2)", "w-1", "a.b 1", "<td>3</td>"):
        assert text in html


def test_an_error_is_shown_as_a_sentence() -> None:
    error = {"code": "X", "message": "step `compose` failed"}

    assert "X: step `compose` failed" in page.overview([execution(error=error)], [])


def test_everything_from_outside_is_escaped() -> None:
    evil = "<script>alert('x')</script>"
    error = {"code": evil, "message": evil}
    steps = [{"step": evil, "status": evil, "attempt": 1}]
    shown = execution(id=evil, workflow=evil, error=error, input={"a": evil}, steps=steps)
    contracts = [{"task_name": evil, "contract_version": evil}]
    html = page.overview([shown, execution(output={"b": evil})], [WORKER | {"worker_id": evil, "contracts": contracts}])

    assert "<script" not in html
    assert "<script" not in page.refusal(evil)


def test_long_texts_and_long_lists_are_cut() -> None:
    html = page.overview([execution(input={"a": "x" * 10_000})] * 1_000, [])

    assert "The newest 200 of 1000 executions" in html
    assert "x" * 301 not in html
