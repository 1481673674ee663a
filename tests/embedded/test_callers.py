import hashlib
from typing import Any

import pytest

from orbit_django.embedded.callers import Caller, Credentials, Identity, read_identities
from orbit_django.exceptions import ConfigurationError, RuntimeRefusalError


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


RUBY = Identity("ruby-1", ("greeting.*", "exact"), digest("ruby-secret"), runtime="ruby")
CERTIFIED = Identity("cert-1", ("*",), client_cert="worker.example")
ALL = Credentials("admin-secret", "worker-secret", (RUBY, CERTIFIED))


def message(call: Any, *args: Any) -> tuple[int, str, str]:
    with pytest.raises(RuntimeRefusalError) as caught:
        call(*args)
    return caught.value.status, caught.value.code, caught.value.message


def test_an_open_runtime_asks_for_nothing() -> None:
    assert Credentials().caller(None).is_admin
    assert Credentials().caller("Bearer whatever").is_admin


@pytest.mark.parametrize(
    ("authorization", "is_admin", "identity"),
    [
        ("Bearer admin-secret", True, None),
        ("bearer admin-secret", True, None),
        ("Bearer worker-secret", False, None),
        ("Bearer ruby-secret", False, RUBY),
    ],
)
def test_tokens(authorization: str, is_admin: bool, identity: Identity | None) -> None:
    assert ALL.caller(authorization) == Caller(is_admin, identity)


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer ", "Bearer wrong", "Basic admin-secret", "admin-secret", "Bearer \xff"],
)
def test_without_a_valid_token_the_answer_is_401(authorization: str | None) -> None:
    assert message(ALL.caller, authorization)[:2] == (401, "UNAUTHENTICATED")


def test_tokens_may_hold_any_letters() -> None:
    identity = Identity("w-1", ("*",), digest("grün"))
    credentials = Credentials("größe", identities=[identity])

    assert credentials.caller("Bearer " + "größe".encode().decode("latin-1")).is_admin
    assert credentials.caller("Bearer " + "grün".encode().decode("latin-1")).identity == identity


def test_a_certificate_names_an_identity() -> None:
    assert ALL.caller(None, frozenset({"other", "worker.example"})).identity == CERTIFIED


def test_a_certificate_that_nobody_registered_is_403() -> None:
    assert message(ALL.caller, None, frozenset({"stranger"}))[:2] == (403, "FORBIDDEN")


def test_the_token_wins_over_the_certificate() -> None:
    assert ALL.caller("Bearer ruby-secret", frozenset({"worker.example"})).identity == RUBY


def test_a_worker_token_alone_would_protect_nothing() -> None:
    with pytest.raises(ConfigurationError, match="--token"):
        Credentials(worker_token="x")


def test_secrets_are_not_shown() -> None:
    assert "secret" not in repr(ALL)


def test_workers_may_call_the_worker_endpoints_only() -> None:
    worker = Caller(is_admin=False)
    worker.check_path("/v1/workers/poll")
    worker.check_path("/v1/tasks/complete")

    for path in ("/v1/workers", "/v1/executions", "/", "/v1/tasksx/fail"):
        text = "worker credentials may only call /v1/workers/* and /v1/tasks/*"
        assert message(worker.check_path, path) == (403, "FORBIDDEN", text)
    Caller(is_admin=True).check_path("/v1/workers")


def test_the_limits_of_an_identity_have_their_words() -> None:
    ruby = Caller(is_admin=False, identity=RUBY)
    ruby.check_registration("ruby-1", "RUBY", ["greeting.compose", "exact"])
    ruby.check_session("ruby-1")
    ruby.check_token("ruby-1")

    assert [
        message(ruby.check_registration, "ruby-2", "ruby", [])[2],
        message(ruby.check_registration, "ruby-1", "python", [])[2],
        message(ruby.check_registration, "ruby-1", "ruby", ["greeting.x", "payments.charge"])[2],
        message(ruby.check_session, "other")[2],
        message(ruby.check_token, "other")[2],
    ] == [
        "this credential belongs to worker `ruby-1`, not `ruby-2`",
        "worker `ruby-1` must announce runtime `ruby`",
        "worker `ruby-1` may not serve: payments.charge (allowed: greeting.*, exact)",
        "session belongs to worker `other`, not `ruby-1`",
        "task token was issued to worker `other`, not `ruby-1`",
    ]


def test_a_shared_token_has_no_limits_among_workers() -> None:
    shared = Caller(is_admin=False)
    shared.check_registration("any", "any", ["any"])
    shared.check_session("any")
    shared.check_token("any")


@pytest.mark.parametrize(
    ("task", "is_allowed"),
    [("greeting.compose", True), ("greeting", False), ("greetings.x", False), ("exact.x", False)],
)
def test_patterns(task: str, is_allowed: bool) -> None:
    assert RUBY.allows(task) is is_allowed


def test_a_workers_file() -> None:
    text = f"""
    [[worker]]
    id = "ruby-1"
    token_sha256 = "{digest("ruby-secret").upper()}"
    tasks = ["greeting.*", "exact"]
    runtime = "ruby"

    [[worker]]
    id = "cert-1"
    client_cert = "worker.example"
    tasks = ["*"]
    """
    assert read_identities(text) == (RUBY, CERTIFIED)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[worker]", "f: "),
        ("", "f: no [[worker]] entry"),
        ("[[client]]\nid = 'a'", "f: unknown key `client`"),
        ("worker = [1]", "f: entry 1: expected a table"),
        ("[[worker]]\nid = 'a'\ntaks = ['*']", "f: entry 1: unknown key `taks`"),
        ("[[worker]]\nid = 'a'", "f: entry 1: `id` and `tasks` are required"),
        ("[[worker]]\nid = ''\ntasks = ['*']", "f: entry 1: `id` must be a text"),
        ("[[worker]]\nid = 'a'\ntasks = '*'", "f: entry 1: `tasks` must be a list of texts"),
        ("[[worker]]\nid = 'a'\ntasks = [1]", "f: entry 1: `tasks` must be a list of texts"),
        ("[[worker]]\nid = 'a'\ntasks = ['*']", "f: entry 1: `token_sha256` or `client_cert` is required"),
        ("[[worker]]\nid = 'a'\ntasks = ['*']\ntoken_sha256 = 'ab'", "f: entry 1: `token_sha256` must be the SHA-256"),
    ],
)
def test_a_workers_file_that_says_too_little_or_too_much(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_identities(text, "f")

    assert str(caught.value).startswith(said)
