import pytest

from orbit_django.conf.options import RunOptions, read_options
from orbit_django.exceptions import ConfigurationError


@pytest.mark.parametrize("given", [{}, {"processes": None}, {"processes": ""}, {"concurrency": "4"}])
def test_what_is_not_given_is_unset(given: dict[str, object]) -> None:
    assert read_options(given) == RunOptions(processes=None, lifeline=None)


@pytest.mark.parametrize("value", ["3", 3])
def test_numbers_may_be_texts(value: object) -> None:
    assert read_options({"processes": value, "lifeline": "7"}) == RunOptions(processes=3, lifeline=7)


@pytest.mark.parametrize("given", [{"reload": True, "processes": "1"}, {"burst": True, "processes": "2"}])
def test_options_may_go_together(given: dict[str, object]) -> None:
    assert read_options(given).processes == int(str(given["processes"]))


@pytest.mark.promise("W8")
@pytest.mark.parametrize("value", ["0", "-1", "x", "1.5", "257", "1e3", "٣²", True, [], "9" * 5000])
def test_a_number_that_makes_no_sense_names_the_option(value: object) -> None:
    with pytest.raises(
        ConfigurationError, match=r"^--processes: expected a whole number from 1 to 256, found ."
    ) as told:
        read_options({"processes": value})
    assert len(str(told.value)) < 200
