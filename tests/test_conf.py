import os
from pathlib import Path

import pytest
from django.test import override_settings

from orbit_django import conf
from orbit_django.conf import OrbitSettings, TokenFile
from orbit_django.exceptions import ConfigurationError

SECRET = "tok-SECRET-1"


@pytest.fixture(autouse=True)
def surroundings(settings, monkeypatch):
    """Begin with nothing set anywhere."""
    settings.ORBIT = {}
    for name in conf.FROM_ENVIRONMENT:
        monkeypatch.delenv(f"ORBIT_{name}", raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "token"


def put(file: Path, content: bytes, turn: int) -> None:
    """Write a file and give it a time of its own, as a clock with coarse steps might not."""
    file.write_bytes(content)
    os.utime(file, ns=(turn, turn))


def test_nothing_set_is_a_laptop() -> None:
    found = conf.load()
    assert found == OrbitSettings()
    assert (found.server, found.concurrency, found.credential) == ("http://127.0.0.1:7233", 4, None)


def test_a_project_without_the_setting_is_fine(settings) -> None:
    del settings.ORBIT
    assert conf.load() == OrbitSettings()


def test_command_line_then_project_then_environment(settings, monkeypatch) -> None:
    monkeypatch.setenv("ORBIT_SERVER", "http://environment")
    assert conf.load().server == "http://environment"
    settings.ORBIT = {"SERVER": "http://project"}
    assert conf.load().server == "http://project"
    assert conf.load(server="http://option").server == "http://option"


@pytest.mark.parametrize("unset", [None, ""])
def test_none_and_the_empty_text_count_as_unset_in_every_source(settings, monkeypatch, unset) -> None:
    settings.ORBIT = {"LOG_LEVEL": unset}
    monkeypatch.setenv("ORBIT_LOG_LEVEL", "ERROR")
    assert conf.load(log_level=unset).log_level == "ERROR"
    monkeypatch.setenv("ORBIT_LOG_LEVEL", "")
    assert conf.load(log_level=unset).log_level == "INFO"


def test_zero_is_a_value(settings) -> None:
    settings.ORBIT = {"DRAIN_TIMEOUT": 0, "MAX_REDELIVERIES": 0}
    assert (conf.load().drain_timeout, conf.load().max_redeliveries) == (0, 0)


def test_the_environment_is_taken_literally(monkeypatch) -> None:
    monkeypatch.setenv("OTHER", "wrong")
    monkeypatch.setenv("ORBIT_TOKEN", "$OTHER")
    assert conf.load().token == "$OTHER"


def test_only_the_named_variables_are_read(monkeypatch) -> None:
    monkeypatch.setenv("ORBIT_CONCURRENCY", "9")
    assert conf.load().concurrency == 4


def test_settings_that_are_overridden_are_seen_at_once() -> None:
    with override_settings(ORBIT={"CONCURRENCY": 9}):
        assert conf.load().concurrency == 9
    assert conf.load().concurrency == 4


@pytest.mark.promise("W8")
def test_every_fault_is_listed_by_its_setting(settings) -> None:
    settings.ORBIT = {"CONCURRENCY": "four", "SERVER": "nowhere", "LOG_LEVEL": 1}
    assert [text.split(":")[0] for text in conf.faults()] == ["SERVER", "LOG_LEVEL", "CONCURRENCY"]
    with pytest.raises(ConfigurationError, match=r"^SERVER: 'nowhere' is no URL"):
        conf.load()


def test_a_key_needs_its_certificate(settings, tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.touch()
    settings.ORBIT = {"CLIENT_KEY": key}
    assert conf.faults() == ["CLIENT_KEY: a key needs CLIENT_CERT, the certificate that it belongs to"]
    settings.ORBIT = {"CLIENT_KEY": key, "CLIENT_CERT": key}
    assert conf.faults() == []


def test_a_certificate_that_cannot_be_read_is_not_told_as_missing(settings, tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.touch()
    settings.ORBIT = {"CLIENT_KEY": key, "CLIENT_CERT": tmp_path / "none.pem"}
    (only,) = conf.faults()
    assert only.startswith("CLIENT_CERT: ")


@pytest.mark.parametrize("value", [5, "SERVER", ["SERVER"], [], "", 0, False])
def test_the_setting_is_a_dictionary(settings, value) -> None:
    settings.ORBIT = value
    assert conf.faults() == ["ORBIT: the setting is to be a dictionary"]


def test_unknown_keys_come_with_the_nearest_one(settings) -> None:
    settings.ORBIT = {"CONCURENCY": 1, "server": "x", "ZZZ": 1, 5: 1, "RUNTIME": "python"}
    assert conf.unknown_keys() == [("CONCURENCY", "CONCURRENCY"), ("server", "SERVER"), ("ZZZ", ""), ("5", "")]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("SECRET", ""),
        ("SERVERS", "SERVER"),
        ("TARGET", "GRPC_TARGET"),
        ("token_file", "WORKER_TOKEN_FILE"),
        ("URL", ""),
    ],
)
def test_a_key_that_only_looks_a_little_like_another_is_not_taken_for_it(settings, given: str, meant: str) -> None:
    settings.ORBIT = {given: "x"}
    assert conf.unknown_keys() == [(given, meant)]


def test_the_workers_token_then_its_file_then_the_admins(file: Path) -> None:
    put(file, b"from-file", 1)
    assert OrbitSettings(worker_token="w", worker_token_file=str(file), token="a").credential == "w"
    assert OrbitSettings(worker_token_file=str(file), token="a").credential == "from-file"
    assert OrbitSettings(token="a").credential == "a"


def test_each_token_resolves_through_its_sources_first(settings, monkeypatch) -> None:
    monkeypatch.setenv("ORBIT_WORKER_TOKEN", "from-environment")
    settings.ORBIT = {"TOKEN": "from-project"}
    assert conf.load().credential == "from-environment"


@pytest.mark.promise("W9")
def test_a_token_file_is_read_again_when_it_changes(file: Path) -> None:
    held = TokenFile(str(file))
    put(file, b"old\n", 1)
    assert held.read() == "old"
    put(file, b"\xef\xbb\xbfnew\r\n", 2)
    assert held.read() == "new"


@pytest.mark.parametrize("content", [None, b"", b" \n", b"\xff\xfe", b"two\nlines", "tök".encode()])
@pytest.mark.promise("W9")
def test_a_file_that_becomes_useless_leaves_the_last_token_in_use(file: Path, content: bytes | None) -> None:
    held = TokenFile(str(file))
    put(file, b"old", 1)
    held.read()
    if content is None:
        file.unlink()
    else:
        put(file, content, 2)
    assert held.read() == "old"


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe", f"{SECRET}\nmore".encode()])
@pytest.mark.promise("W8", "W9")
def test_a_file_that_never_held_a_token_is_a_mistake(file: Path, content: bytes | None) -> None:
    if content is not None:
        put(file, content, 1)
    with pytest.raises(ConfigurationError, match=r"WORKER_TOKEN_FILE: .*token") as caught:
        TokenFile(str(file)).read()
    assert SECRET not in str(caught.value)


@pytest.mark.promise("W9")
def test_secrets_are_not_in_the_repr() -> None:
    found = OrbitSettings(worker_token=SECRET, token=SECRET, proxy=f"http://u:{SECRET}@p")
    assert SECRET not in repr(found)


@pytest.mark.promise("W9")
def test_every_credential_is_taken_out_of_a_text(file: Path) -> None:
    found = OrbitSettings(worker_token="wrk-secret-1", token="adm-secret-1", worker_token_file=str(file))
    assert found.redact("wrk-secret-1 and adm-secret-1 and wrk-2") == "******** and ******** and wrk-2"


def test_a_credential_that_is_a_word_takes_nothing_out_of_texts() -> None:
    assert OrbitSettings(token="dev").redact("the development runtime") == "the development runtime"


@pytest.mark.promise("W9")
def test_tokens_of_a_file_that_were_replaced_are_still_secret(file: Path) -> None:
    found = OrbitSettings(worker_token_file=str(file))
    for turn, token in enumerate([b"old-token", b"new-token"], start=1):
        put(file, token, turn)
        assert found.credential == token.decode()
    assert found.redact("old-token and new-token") == "******** and ********"


def test_a_worker_is_named_after_host_and_process() -> None:
    assert OrbitSettings().worker_name().endswith(f"-{os.getpid()}")
    assert OrbitSettings(worker_id="shop-1").worker_name() == "shop-1"


@pytest.mark.parametrize(
    ("given", "source"),
    [
        ({}, ""),
        ({"TOKEN": "adm"}, "TOKEN"),
        ({"TOKEN": "adm", "WORKER_TOKEN_FILE": "/nowhere"}, "WORKER_TOKEN_FILE"),
        ({"TOKEN": "adm", "WORKER_TOKEN_FILE": "/nowhere", "WORKER_TOKEN": "wrk"}, "WORKER_TOKEN"),
    ],
)
def test_the_source_of_the_credential_is_told_by_name(settings, given, source):
    settings.ORBIT = given
    assert conf.load().credential_source == source
