from decimal import Decimal
from pathlib import Path

import pytest

from orbit_django.conf import OrbitSettings
from orbit_django.conf.readers import READERS

LONG = "n" * 256
SECRET = "hunter2"


def test_every_setting_has_a_reader() -> None:
    assert set(READERS) == set(OrbitSettings.__dataclass_fields__)


@pytest.mark.parametrize("name", ["concurrency", "max_body_bytes", "max_redeliveries", "poll_wait_ms"])
@pytest.mark.parametrize(
    "value", ["four", True, False, 2.5, Decimal("2.5"), -1, "-1", float("inf"), float("nan"), b"4", [4], {}, 10**400]
)
@pytest.mark.promise("W8")
def test_what_is_no_whole_number_in_range_is_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match="expected a whole number from"):
        READERS[name](value)


@pytest.mark.parametrize(("value", "number"), [(4, 4), ("4", 4), (" 4 ", 4), (4.0, 4), (Decimal(4), 4)])
def test_whole_numbers_are_read_from_numbers_and_texts(value: object, number: int) -> None:
    assert READERS["concurrency"](value) == number


@pytest.mark.parametrize(
    ("name", "value"),
    [("concurrency", 0), ("concurrency", 1001), ("max_body_bytes", 1023), ("claim_seconds", 0), ("claim_seconds", 1e9)],
)
def test_a_number_that_makes_no_sense_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=r"from .* to "):
        READERS[name](value)


@pytest.mark.parametrize(("given", "used"), [(0, 1), ("0", 1), (1, 1), (60_000, 60_000), (99_999_999, 60_000)])
def test_the_wait_of_a_poll_is_brought_into_its_limits(given: object, used: int) -> None:
    assert READERS["poll_wait_ms"](given) == used


@pytest.mark.parametrize("name", ["drain_timeout", "claim_seconds", "retention_days"])
@pytest.mark.parametrize("value", ["soon", True, -0.5, "nan", "inf", float("nan"), 1e308, 10**400, [1]])
def test_what_is_no_number_in_range_is_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match="expected a number from"):
        READERS[name](value)


def test_limits_are_told_in_plain_digits() -> None:
    with pytest.raises(ValueError, match="expected a number from 0 to 1000000000, found -1"):
        READERS["drain_timeout"](-1)


def test_a_transport_is_known_or_a_dotted_path() -> None:
    assert READERS["transport"]("shop.wire.open") == "shop.wire.open"
    with pytest.raises(ValueError, match="'pigeon' is unknown; expected 'http', 'grpc', 'weave' or a dotted path"):
        READERS["transport"]("pigeon")


def test_a_very_long_value_is_not_repeated_in_full() -> None:
    with pytest.raises(ValueError, match="found '1") as caught:
        READERS["concurrency"]("1" * 3000)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("http://127.0.0.1:7233", "http://127.0.0.1:7233"),
        ("https://runtime.example/", "https://runtime.example"),
        ("http://runtime:7233/base/", "http://runtime:7233/base"),
        ("HTTPS://Runtime.Example/Base", "https://runtime.example/Base"),
        ("http://[::1]:7233", "http://[::1]:7233"),
    ],
)
def test_a_server_has_one_spelling(given: str, used: str) -> None:
    assert READERS["server"](given) == used


@pytest.mark.parametrize(
    "url",
    [
        "localhost:7233", "ftp://runtime", "http://", "http:///v1", "http://runtime:0", "http://runtime:70000",
        "http://runtime:port", "http://[::1", "http://::1:7233", "http://a b", "http://a\\b", " http://a", "http://a\n",
        "http://a\x00", "$ORBIT_SERVER", 7233, b"http://a", "http://a?x=1", "http://a/#", "http://" + LONG,
    ],
)  # fmt: skip
@pytest.mark.promise("W8")
def test_what_is_no_url_of_a_server_is_refused(url: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        READERS["server"](url)


@pytest.mark.parametrize(
    "url",
    [
        f"http://user:{SECRET}@runtime", f"http://{SECRET}@runtime", f"user:{SECRET}@runtime:7233",
        f"http//user:{SECRET}@runtime", f"http://user:{SECRET}@runtime:port", f"http://user:{SECRET}/@runtime",
        f"http://runtime/?token={SECRET}", f"http://runtime/#{SECRET}",
    ],
)  # fmt: skip
@pytest.mark.promise("W9")
def test_a_credential_in_a_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ValueError, match="the URL") as caught:
        READERS["server"](url)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("name", ["token", "worker_token"])
@pytest.mark.parametrize("end", [" ", "\n", "\x00", "é", "\x7f", "\nx-injected: 1", "…"])
@pytest.mark.promise("W9")
def test_a_token_that_no_header_can_carry_is_refused_and_not_repeated(name: str, end: str) -> None:
    with pytest.raises(ValueError, match="no header can carry") as caught:
        READERS[name](SECRET + end)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("url", ["proxy:3128", "socks5://proxy", "http://proxy:x", f"http://u:{SECRET}@proxy:x"])
def test_a_proxy_is_a_url_and_its_password_is_not_repeated(url: str) -> None:
    with pytest.raises(ValueError, match="expected a URL") as caught:
        READERS["proxy"](url)
    assert SECRET not in str(caught.value)


def test_a_proxy_may_have_a_password() -> None:
    assert READERS["proxy"](f"http://u:{SECRET}@proxy:3128") == f"http://u:{SECRET}@proxy:3128"


@pytest.mark.parametrize("name", ["worker_id", "runtime"])
@pytest.mark.parametrize("value", [" ", " w", "w\n", "a\nb", "\x00", "\ud800", "\u2028", LONG])
def test_a_name_that_cannot_be_kept_is_refused(name: str, value: str) -> None:
    with pytest.raises(ValueError, match="characters"):
        READERS[name](value)


def test_a_name_may_have_255_characters() -> None:
    assert READERS["worker_id"]("ü" * 255) == "ü" * 255


@pytest.mark.parametrize("name", ["worker_id", "server", "transport", "token", "ca_cert", "log_level", "database"])
def test_texts_are_texts(name: str) -> None:
    with pytest.raises(TypeError, match="expected a text, found int"):
        READERS[name](5)


@pytest.mark.parametrize("name", ["ca_cert", "client_cert", "client_key"])
@pytest.mark.promise("W8")
def test_a_file_that_cannot_be_read_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.pem cannot be read: No such file"):
        READERS[name](tmp_path / "none.pem")
    with pytest.raises(ValueError, match="cannot be read: Is a directory"):
        READERS[name](str(tmp_path))


def test_a_file_is_named_by_path_or_text(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.touch()
    assert READERS["ca_cert"](file) == READERS["ca_cert"](str(file)) == str(file)


@pytest.mark.parametrize(("given", "used"), [("debug", "DEBUG"), ("Info", "INFO"), ("ERROR", "ERROR")])
def test_log_levels_are_read_in_any_case(given: str, used: str) -> None:
    assert READERS["log_level"](given) == used


@pytest.mark.parametrize("level", ["trace", "NOTSET", "10"])
def test_an_unknown_log_level_is_refused(level: str) -> None:
    with pytest.raises(ValueError, match="expected one of CRITICAL"):
        READERS["log_level"](level)


@pytest.mark.promise("W8")
def test_an_unknown_database_alias_is_refused() -> None:
    assert READERS["database"]("other") == "other"
    with pytest.raises(ValueError, match="no database alias 'nowhere'"):
        READERS["database"]("nowhere")


@pytest.mark.parametrize("value", ["orders.orbit", 5, {"orders.orbit": 1}, [5]])
def test_contracts_are_a_list_of_paths(value: object) -> None:
    assert READERS["contracts"]([Path("a"), "b"]) == ("a", "b")
    with pytest.raises(TypeError, match="expected a "):
        READERS["contracts"](value)


def test_a_number_without_end_can_still_be_told() -> None:
    with pytest.raises(ValueError, match="found a number without end"):
        READERS["concurrency"](10**5000)
