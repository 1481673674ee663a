import pytest

from orbit_django.contracts.names import instead


@pytest.mark.parametrize(
    ("name", "known", "said"),
    [
        ("Lent", [], "; there is none"),
        ("Lent", ["Lend"], "; did you mean `Lend`?"),
        ("Lent", ["Lend", "Greet"], "; did you mean `Lend`? (known are `Greet`, `Lend`)"),
        ("shop.refund", ["shop.charge"], "; known are `shop.charge`"),
        (
            "shop.chrage",
            ["shop.ship", "shop.charge"],
            "; did you mean `shop.charge`? (known are `shop.charge`, `shop.ship`)",
        ),
        ("shops.charge", ["shop.charge"], "; did you mean `shop.charge`?"),
        ("Zzz", ["Lend", "Greet", "Lend"], "; known are `Greet`, `Lend`"),
    ],
)
def test_a_name_that_is_near_or_those_there_are(name: str, known: list[str], said: str) -> None:
    assert instead(name, known) == said


def test_many_names_are_cut() -> None:
    assert instead("?", [f"task{number:02}" for number in range(12)]).endswith("`task09` and 2 more")
