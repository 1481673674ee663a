import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit_django.contracts.declarations import Literal, Reference, RetryPolicy
from orbit_django.contracts.grammar import parse
from orbit_django.exceptions import ContractSyntaxError
from tests.contracts.texts import GREET, ORDER


def refusal(text: str) -> str:
    with pytest.raises(ContractSyntaxError) as caught:
        parse(text, "f.orbit")
    return str(caught.value)


def error_in(text: str) -> ContractSyntaxError | None:
    try:
        parse(text, "f.orbit")
    except ContractSyntaxError as error:
        return error
    return None


def test_the_recorded_file() -> None:
    [task], [workflow] = parse(GREET, "greet.orbit")

    assert (task.name, task.version) == ("greeting.compose", "1.0.0")
    assert (task.input, task.output) == ({"name": "String"}, {"message": "String"})
    assert (workflow.name, workflow.version) == ("Greet", "1.0.0")
    [step] = workflow.steps
    assert (step.name, step.task_name, step.using, step.timeout_ms) == ("compose", "greeting.compose", "ruby", 30_000)
    assert step.retry == RetryPolicy(3, is_exponential=False, initial_delay_ms=1_000, non_retryable={"INVALID_NAME"})
    assert str(step.arguments["name"]) == "input.name"
    assert str(workflow.result["message"]) == "compose.message"


def test_fields_on_lines_of_their_own_and_clauses_on_one_line() -> None:
    _, [workflow] = parse(ORDER, "order.orbit")

    charge, price, stock = workflow.steps
    assert charge.retry == RetryPolicy(3, is_exponential=True, initial_delay_ms=500)
    assert str(charge.idempotency_key) == "input.order"
    assert isinstance(charge.arguments["currency"], Literal)
    assert (price.using, stock.using) == (None, None), "no `using` and `using any` are the same"


def test_a_step_without_more_has_one_attempt_and_no_timeout() -> None:
    _, [workflow] = parse('workflow W { version "1" step s { worker "t" } return { } }', "f.orbit")

    [step] = workflow.steps
    assert (step.retry.attempts, step.timeout_ms, step.idempotency_key, step.arguments) == (1, None, None, {})


@pytest.mark.parametrize(
    ("written", "value"), [('"a"', "a"), ("1", 1), ("-1.5", -1.5), ("true", True), ("false", False), ("null", None)]
)
def test_literals(written: str, value: object) -> None:
    _, [workflow] = parse(f'workflow W {{ version "1" return {{ a: {written} }} }}', "f.orbit")

    literal = workflow.result["a"]
    assert isinstance(literal, Literal)
    assert (literal.value, type(literal.value)) == (value, type(value))


def test_a_reference_keeps_its_path() -> None:
    _, [workflow] = parse('workflow W { version "1" return { a: input.b.c } }', "f.orbit")

    reference = workflow.result["a"]
    assert isinstance(reference, Reference)
    assert (reference.source, reference.path, reference.at.column) == ("input", ("b", "c"), 38)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("task ", "tusk ", "1:1: expected `task` or `workflow`, found `tusk`"),
        ('  version "1.0.0"\n  input', "  input", '1:6: task "greeting.compose" has no `version`'),
        ("name: String", "name: Boolean", "3:17: unknown type `Boolean`; the types read here are String, Int, Float"),
        ("name: String", "name: String?", "3:23: '?' means nothing here"),
        ("name: String", "name: [String]", "3:17: expected a type, found `[`"),
        ("name: String", "name: String name: Int", "3:24: expected `,`, `}` or a new line, found `name`"),
        ("name: String", "name: String, name: Int", "3:25: `name` is given twice"),
        ("name: String", "name String", "3:16: expected `:`, found `String`"),
        ('version "1.0.0"', 'version ""', "2:11: a version must not be empty"),
        ("using ruby", 'using "ruby"', '12:11: expected a language, or `any`, found `"ruby"`'),
        ("using ruby", "using ruby\n    using ruby", "13:5: step compose has two `using`"),
        ("timeout 30s", "timeout 30", "14:13: expected a duration such as `30s`, found `30`"),
        ("timeout 30s", "timeout 0s", "14:13: `0s` must be greater than zero"),
        ("attempts: 3", "attempts: 0", "15:23: `0` must be greater than zero"),
        ("attempts: 3", "attempts: 1.5", "15:23: expected a whole number, found `1.5`"),
        ("backoff: fixed", "backoff: linear", "15:35: expected `fixed` or `exponential`, found `linear`"),
        ("backoff: fixed", "jitter: fixed", "15:26: `retry` knows no `jitter`; it knows attempts, backoff, "),
        ('["INVALID_NAME"]', '["A" "B"]', '15:81: expected `,`, found `"B"`'),
        ("retry {", "compensate {", "15:5: step compose: expected worker, using, with, timeout, retry, "),
        ("step compose", "for x in y", "10:3: workflow Greet: expected version, input, output, step, return or `}`"),
        ("  return { message: compose.message }\n", "", "6:10: workflow Greet has no `return`"),
        ("compose.message", "{", "17:21: expected a value or a reference such as `input.name`, found `{`"),
        ("compose.message }\n}", "compose.message }", "18:1: workflow Greet: expected version, input, output, step, "),
    ],
)
def test_anything_else_is_an_error_with_its_place(old: str, new: str, said: str) -> None:
    assert refusal(GREET.replace(old, new, 1)).startswith(f"f.orbit:{said}")


@given(st.data())
def test_a_file_with_a_hole_is_read_or_refused(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(ORDER)))
    end = data.draw(st.integers(start, len(ORDER)))
    error = error_in(ORDER[:start] + ORDER[end:])

    assert error is None or (error.file == "f.orbit" and 1 <= error.line <= ORDER.count("\n") + 1)
