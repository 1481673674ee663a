import pytest

from orbit_django.admin import shown


def test_json_is_laid_out_in_its_own_letters():
    assert "{\n  &quot;name&quot;: &quot;Zoë&quot;\n}" in shown.json_block('{"name":"Zo\\u00eb"}')


@pytest.mark.parametrize("text", ["no json", "9" * 5_000, "[" * 50_000, '"\\ud800"', '"\\u0000\x00"'])
def test_whatever_is_stored_can_be_shown(text):
    shown.json_block(text).encode()


def test_a_long_text_is_cut_and_says_so():
    block = shown.json_block('{"a":"' + "x" * 300_000 + '"}')
    assert len(block) < 21_000
    assert "the first 20,000 of 300,008 characters" in block


def test_a_secret_in_a_cut_text_is_masked_before_the_cut():
    text = '{"a":"' + "x" * (shown.LIMIT_SHOWN - 10) + 'SECRET"}'
    assert "SECR" not in shown.json_block(text, ["SECRET"])


def test_nothing_is_a_dash():
    assert shown.json_block(None) == shown.json_block("") == shown.shortened("", 5) == "-"


def test_a_column_is_one_line():
    assert shown.shortened("a\n b" * 9, 12) == "a ba ba  […]"


def test_a_task_is_hidden_when_any_version_is_sensitive(serve):
    serve("quiet", sensitive=True)
    serve("loud")
    assert [shown.is_hidden(name) for name in ("quiet", "loud", "gone")] == [True, False, False]
