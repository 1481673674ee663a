import string

import pytest

from orbit_django.redaction import MET, TokenMemory, redacted

TOKEN = "0b9f3c52-redaction-token"


@pytest.mark.promise("W9")
def test_a_token_that_this_process_met_is_in_no_text_any_more() -> None:
    MET.note(TOKEN)
    assert redacted(f"a {TOKEN} b") == "a ******** b"


def test_what_is_too_short_to_guard_anything_stays() -> None:
    MET.note("retry")
    assert redacted("retry the abc", credentials=("abc", None, "")) == "retry the abc"


@pytest.mark.promise("W9")
def test_a_token_that_was_given_is_hidden_whatever_its_length() -> None:
    assert redacted("a t-1 b", tokens=("t-1", "")) == "a ******** b"


def test_the_memory_keeps_the_last_ones() -> None:
    memory = TokenMemory()
    tokens = [f"a-long-token-{number:04}" for number in range(300)]
    for token in tokens:
        memory.note(token)
    memory.note("a-long-token-0299")
    assert memory.found_in(" and ".join(tokens)) == tuple(tokens[-256:])


@pytest.mark.promise("W9")
@pytest.mark.parametrize("lengths", [(8,), (9, 36), (36, 9), (36, 36, 15, 8), (200,)])
def test_a_token_is_found_wherever_it_stands_whatever_its_length(lengths: tuple[int, ...]) -> None:
    memory = TokenMemory()
    tokens = [f"{number}{string.ascii_letters * 4}"[:length] for number, length in enumerate(lengths)]
    for token in tokens:
        memory.note(token)
    for at in range(40):
        for token in tokens:
            assert token in memory.found_in("." * at + token)
            assert token in memory.found_in("." * at + token + "...")
            assert memory.found_in("." * at + token[:-1]) == memory.found_in("." * at + token[1:]) == ()


def test_a_token_that_is_forgotten_leaves_nothing() -> None:
    memory = TokenMemory()
    for number in range(2_000):
        memory.note(f"{number:036}")
        memory.note(f"{number:036}")
    assert len(memory._marks) <= 256 * 8
    assert sum(memory._marks.values()) == 256 * 8


def test_a_text_that_no_token_begins_in_has_none() -> None:
    memory = TokenMemory()
    for number in range(300):
        memory.note(f"{number:04}-token")
    assert memory.found_in("0043-token, which is forgotten, and 0044-to") == ()
    assert memory.found_in("a0044-tokenb") == ("0044-token",)
