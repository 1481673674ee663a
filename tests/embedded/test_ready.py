from hypothesis import given
from hypothesis import strategies as st

from orbit_django.embedded.ready import ReadySteps, Route
from orbit_django.protocol import Contract

A, B = Contract("a", "1"), Contract("b", "1")
BOTH = frozenset({A, B})


def test_the_oldest_of_several_lines_comes_first() -> None:
    ready = ReadySteps()
    ready.add(Route(B, None), ("e-1", "s"))
    ready.add(Route(A, "go"), ("e-2", "s"))
    ready.add(Route(A, None), ("e-3", "s"))

    assert [ready.take(BOTH, "go") for _ in range(4)] == [("e-1", "s"), ("e-2", "s"), ("e-3", "s"), None]


def test_what_a_session_cannot_serve_stays() -> None:
    ready = ReadySteps()
    ready.add(Route(A, "go"), ("e-1", "s"))

    assert ready.take(frozenset({A}), "ruby") is None
    assert ready.take(frozenset({B}), "go") is None
    assert len(ready) == 1


def test_what_was_discarded_is_never_taken_and_may_come_again() -> None:
    ready = ReadySteps()
    ready.add(Route(A, None), ("e-1", "s"))
    ready.add(Route(A, None), ("e-2", "s"))
    ready.discard(("e-1", "s"))
    ready.add(Route(A, None), ("e-1", "s"))

    assert [ready.take(BOTH, "go") for _ in range(3)] == [("e-2", "s"), ("e-1", "s"), None]


@given(st.lists(st.tuples(st.sampled_from(["add", "discard", "take"]), st.integers(0, 3), st.sampled_from([A, B]))))
def test_it_behaves_as_one_ordered_list(moves: list[tuple[str, int, Contract]]) -> None:
    ready, model = ReadySteps(), dict[tuple[str, str], Contract]()
    for move, number, contract in moves:
        unit = (str(number), "s")
        if move == "add":
            if unit not in model:
                ready.add(Route(contract, None), unit)
                model[unit] = contract
        elif move == "discard":
            ready.discard(unit)
            model.pop(unit, None)
        else:
            expected = next((known for known, wanted in model.items() if wanted == contract), None)
            assert ready.take(frozenset({contract}), "go") == expected
            model.pop(expected, None)
    assert len(ready) == len(model)
