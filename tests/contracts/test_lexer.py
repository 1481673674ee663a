import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit_django.contracts.lexer import tokenize
from orbit_django.exceptions import ContractSyntaxError


def kinds(text: str) -> list[tuple[str, object]]:
    return [(token.kind, token.value) for token in tokenize(text, "f.orbit")][:-1]


def test_words_values_and_marks() -> None:
    assert kinds('step a { timeout 30s } "x" 1.5 -2') == [
        ("name", "step"),
        ("name", "a"),
        ("mark", "{"),
        ("name", "timeout"),
        ("duration", 30_000),
        ("mark", "}"),
        ("string", "x"),
        ("number", 1.5),
        ("number", -2),
    ]


@pytest.mark.parametrize(("text", "ms"), [("500ms", 500), ("1s", 1_000), ("2m", 120_000), ("1h", 3_600_000)])
def test_durations_are_milliseconds(text: str, ms: int) -> None:
    assert kinds(text) == [("duration", ms)]


def test_comments_and_blanks_are_left_out() -> None:
    assert kinds("a # one\n// two\n\tb") == [("name", "a"), ("name", "b")]


def test_a_token_knows_its_line_and_column() -> None:
    *_, last, _end = tokenize('a\n  b "ü" c', "f.orbit")

    assert (last.text, last.at.line, last.at.column) == ("c", 2, 9)


def test_escapes_in_strings_are_those_of_json() -> None:
    assert kinds(r'"a\"\u00fc\n"') == [("string", 'a"ü\n')]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a ;", "f.orbit:1:3: ';' means nothing here"),
        ('a\n "b', "f.orbit:2:2: this string is not closed on its line"),
        ("a 'b'", "f.orbit:1:3: texts are written in double quotes"),
        (r'"\x"', r'f.orbit:1:1: "\x" is not a string that JSON allows'),
        ("5days", "f.orbit:1:1: `5days` is neither a number nor a duration, whose units are ms, s, m, h"),
        ("timeout 1d", "f.orbit:1:9: `1d` is neither a number nor a duration, whose units are ms, s, m, h"),
        ("a: String?", "f.orbit:1:10: '?' means nothing here: every field is required"),
        ("a: List<String>", "f.orbit:1:8: '<' means nothing here: a type has no parameters, and lists have no type"),
        ("a: Int | String", "f.orbit:1:8: '|' means nothing here: a field has one type"),
        ("a = 1", "f.orbit:1:3: '=' means nothing here: a name and its value are parted by a colon"),
        ("ü", "f.orbit:1:1: 'ü' means nothing here"),
    ],
)
def test_what_is_unknown_is_named_with_its_place(text: str, said: str) -> None:
    with pytest.raises(ContractSyntaxError) as caught:
        kinds(text)

    assert str(caught.value) == said


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        line = len(kinds(text)) and 1
    except ContractSyntaxError as error:
        line = error.line

    assert 0 <= line <= text.count("\n") + 1
