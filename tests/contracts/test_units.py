import pytest

from orbit_django.contracts import Unit


@pytest.mark.parametrize(
    ("text", "unit", "declared"),
    [
        ("pack", Unit("pack"), "pack"),
        ("pack[12]", Unit("pack", index=12), "pack"),
        ("compensate:pack", Unit("pack", "compensate:"), "compensate:pack"),
        ("compensate:pack[0]", Unit("pack", "compensate:", 0), "compensate:pack"),
        ("on_failure:tell", Unit("tell", "on_failure:"), "on_failure:tell"),
    ],
)
def test_names_and_units(text: str, unit: Unit, declared: str) -> None:
    assert Unit.parse(text) == unit
    assert str(unit) == text
    assert unit.declared == declared
    assert unit.is_plain is (":" not in text)


def test_a_compensation_keeps_the_index() -> None:
    assert str(Unit("pack", index=3).undone()) == "compensate:pack[3]"
    assert str(Unit("pack").undone()) == "compensate:pack"


def test_what_has_no_form_is_a_plain_name() -> None:
    assert Unit.parse("a[b]c") == Unit("a[b]c")
