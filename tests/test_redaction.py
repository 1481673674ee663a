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
    for number in range(300):
        memory.note(f"a-long-token-{number:04}")
    memory.note("a-long-token-0299")
    found = memory.found_in("of a-long-token-0299 and others")
    assert (len(found), found[0], found[-1]) == (256, "a-long-token-0044", "a-long-token-0299")


def test_a_text_that_no_token_begins_in_has_none() -> None:
    memory = TokenMemory()
    for number in range(300):
        memory.note(f"{number:04}-token")
    assert memory.found_in("0043-token, which is forgotten, and 0044-to") == ()
    assert memory.found_in("a0044-tokenb") == ("0044-token",)
