from pathlib import Path
from typing import Any

import pytest

from orbit_django import conf
from orbit_django.conf.weave import OAuthSettings, WeaveSettings, read_weave
from orbit_django.exceptions import ConfigurationError

UUID = "00000000-0000-4000-8000-000000000001"
PLACE = {"SERVER": "https://Weave.test/", "TENANT": UUID.upper(), "PROJECT": UUID, "ENVIRONMENT": UUID}
OAUTH = {"TOKEN_URL": "https://id.test/token", "CLIENT_ID": "shop", "CLIENT_SECRET": "s3cret-of-shop"}


def test_a_place_has_one_spelling() -> None:
    found = read_weave(PLACE)
    assert found.address == f"https://weave.test/api/v1/tenants/{UUID}/projects/{UUID}/environments/{UUID}"
    assert found.lacking() == ["a token is missing: set TOKEN, TOKEN_FILE or OAUTH"]
    assert read_weave(PLACE | {"OAUTH": OAUTH}).lacking() == []


def test_nothing_is_set_by_default_and_every_missing_part_is_named() -> None:
    assert WeaveSettings().lacking() == [
        "SERVER is missing",
        "TENANT is missing",
        "PROJECT is missing",
        "ENVIRONMENT is missing",
        "a token is missing: set TOKEN, TOKEN_FILE or OAUTH",
    ]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("t", "expected a dictionary"),
        ({"TENNANT": UUID}, "the key 'TENNANT' is unknown; did you mean 'TENANT'?"),
        ({"TENANT": "acme"}, "TENANT: expected a UUID, found 'acme'"),
        ({"RELEASE_ID": 7}, "RELEASE_ID: expected a UUID"),
        ({"IMAGE_DIGEST": "sha256:ABC"}, "IMAGE_DIGEST: expected sha256:"),
        ({"SERVER": "weave"}, "SERVER: 'weave' is no URL"),
        ({"OAUTH": {"CLIENT_ID": "x"}}, r"OAUTH: TOKEN_URL, CLIENT_SECRET \(OR CLIENT_SECRET_FILE\) is missing"),
        ({"OAUTH": OAUTH | {"SECRET": "x"}}, "OAUTH: the key 'SECRET' is unknown"),
    ],
)
def test_what_is_wrong_is_named(given: Any, text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        read_weave(given)


@pytest.mark.promise("W9")
def test_no_secret_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("tok-in-file-1")
    found = conf.OrbitSettings(
        transport="weave",
        weave=read_weave(PLACE | {"OAUTH": OAUTH, "TOKEN_FILE": str(file)}),
    )
    assert found.credential == "tok-in-file-1"
    assert found.redact("tok-in-file-1 s3cret-of-shop") == "******** ********"
    assert "s3cret" not in repr(found)
    bad = {"TOKEN": "not printable \n"}
    with pytest.raises(ValueError, match=r"^TOKEN: ") as caught:
        read_weave(bad)
    assert "printable" not in str(caught.value)


@pytest.mark.promise("W8")
def test_a_worker_for_weave_needs_every_part(settings: Any) -> None:
    settings.ORBIT = {"TRANSPORT": "weave", "WEAVE": {"SERVER": "https://weave.test", "TENANT": UUID}}
    assert conf.faults() == [
        "WEAVE: PROJECT is missing",
        "WEAVE: ENVIRONMENT is missing",
        "WEAVE: a token is missing: set TOKEN, TOKEN_FILE or OAUTH",
    ]
    settings.ORBIT = {"TRANSPORT": "weave"}
    with pytest.raises(ConfigurationError, match="WEAVE: SERVER is missing"):
        conf.load()
    settings.ORBIT = {"WEAVE": {"TENANT": "acme"}}
    assert conf.faults() == ["WEAVE: TENANT: expected a UUID, found 'acme'"]


def test_reports_belong_to_the_environment_and_starts_need_a_token_of_their_own() -> None:
    weave = read_weave(PLACE | {"OAUTH": OAUTH})
    found = conf.OrbitSettings(transport="weave", weave=weave, worker_token="wrk-1")
    assert (found.reports_to, found.credential, found.may_start) == (weave.address, None, False)
    assert conf.OrbitSettings(weave=weave).reports_to == conf.DEFAULT_SERVER
    assert weave.oauth == OAuthSettings(
        token_url="https://id.test/token", client_id="shop", client_secret="s3cret-of-shop"
    )
