"""The client's settings: what they refuse, and where its token and certificates come from."""

from pathlib import Path
from typing import Any

import pytest

from math_reward.client import Client, Settings

from ...refusals import assert_refusal

URL = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("url", "posted", "posted_to_reward_models"),
    [
        ("http://a", "http://a/v1/grade", "http://a/v1/grade"),
        ("http://a/p/v1/grade/", "http://a/p/v1/grade", "http://a/p/v1/grade"),
        ("http://a/v1/grade?k=s", "http://a/v1/grade?k=s", "http://a/v1/grade?k=s"),
        ("https://a:1/get_reward/", "https://a:1/get_reward", "https://a:1/get_reward/"),
    ],
)
def test_a_url_gets_the_services_path_and_that_of_a_reward_model_stays(
    url: str, posted: str, posted_to_reward_models: str
) -> None:
    assert Settings((url,)).urls == (posted,)
    assert Settings((url,), reward_models=True).urls == (posted_to_reward_models,)


NO_URLS = ("", "a:8000", "reward.py", "ftp://a", "http://", "http:///v1/grade", "http://a:0", "http://a:99999")
REFUSED: list[tuple[str, Any, str]] = [
    *(("urls", (URL, url), repr(url)) for url in NO_URLS),
    ("urls", (URL, "http://me:tell-nobody@a"), "credentials"),
    ("urls", (), "urls"),
    ("urls", "http://a", "urls"),
    ("timeout", 0, "timeout"),
    ("timeout", float("nan"), "timeout"),
    ("deadline", -1, "deadline"),
    ("deadline", float("inf"), "deadline"),
    ("batch_size", 0, "batch_size"),
    ("batch_wait", -0.1, "batch_wait"),
    ("max_in_flight", 0, "max_in_flight"),
    ("max_backoff", 0, "max_backoff"),
    *(("token", token, "token") for token in ("", "tell nobody", "tell-nobody\n", "tell-nobody\u2026")),
]


@pytest.mark.parametrize(("name", "value", "named"), REFUSED)
def test_a_setting_that_cannot_be_used_is_refused_by_name(name: str, value: Any, named: str) -> None:
    with pytest.raises(ValueError, match=r"\.$") as refused:
        Settings(**({"urls": (URL,)} | {name: value}))
    assert_refusal(str(refused.value), named)
    assert "nobody" not in str(refused.value)


def test_the_token_comes_from_the_environment_unless_it_is_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MATH_REWARD_TOKEN", "of-the-variable")
    assert Settings((URL,)).token == "of-the-variable"
    assert Settings((URL,), token="given").token == "given"
    assert "given" not in repr(Settings((URL,), token="given"))
    monkeypatch.setenv("MATH_REWARD_TOKEN", "")
    assert Settings((URL,)).token is None
    (tmp_path / "token").write_text("of-the-file\n")
    monkeypatch.setenv("MATH_REWARD_TOKEN_FILE", str(tmp_path / "token"))
    assert Settings((URL,)).token == "of-the-file"


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"MATH_REWARD_TOKEN": "a", "MATH_REWARD_TOKEN_FILE": "b"}, "not both"),
        ({"MATH_REWARD_TOKEN_FILE": "/no/such/file"}, "/no/such/file"),
        ({"MATH_REWARD_TOKEN_FILE": "/dev/null"}, "/dev/null"),
    ],
)
def test_a_token_that_cannot_be_found_is_refused(
    environment: dict[str, str], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match="MATH_REWARD_TOKEN_FILE") as refused:
        Settings((URL,))
    assert_refusal(str(refused.value), named)


@pytest.mark.parametrize("verify", ["/no/such/bundle.pem", "empty"])
def test_certificates_that_cannot_be_read_are_named_when_the_client_is_made(verify: str, tmp_path: Path) -> None:
    if verify == "empty":
        verify = str(tmp_path / "empty.pem")
        Path(verify).write_text("no certificate")
    with pytest.raises(ValueError, match=r"\.pem.* certificate"):
        Client(URL, verify=verify)
