"""The client's settings: what they refuse, and where its token and certificates come from."""

from pathlib import Path
from typing import Any

import pytest

from math_reward.client import Client, Settings

URL = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("url", "posted", "posted_to_reward_models"),
    [
        ("http://a", "http://a/v1/grade", "http://a/v1/grade"),
        ("http://a/p/v1/grade/", "http://a/p/v1/grade", "http://a/p/v1/grade"),
        ("http://a/v1/grade?k=s#f", "http://a/v1/grade?k=s", "http://a/v1/grade?k=s"),
        ("https://a:1/get_reward/", "https://a:1/get_reward", "https://a:1/get_reward/"),
    ],
)
def test_a_url_gets_the_services_path_and_that_of_a_reward_model_stays(
    url: str, posted: str, posted_to_reward_models: str
) -> None:
    assert Settings((url,)).urls == (posted,)
    assert Settings((url,), reward_models=True).urls == (posted_to_reward_models,)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "a:8000",
        "reward.py",
        "ftp://a",
        "http://",
        "http:///v1/grade",
        "http://a:0",
        "http://a:99999",
        "http://me:pw@a",
    ],
)
def test_a_url_that_cannot_be_asked_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"\.$") as refused:
        Settings((URL, url))
    assert "pw" not in str(refused.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"urls": ()},
        {"urls": "http://a"},
        {"timeout": 0},
        {"timeout": float("nan")},
        {"deadline": -1},
        {"deadline": float("inf")},
        {"batch_size": 0},
        {"batch_wait": -0.1},
        {"max_in_flight": 0},
        {"max_backoff": 0},
        {"token": ""},
        {"token": "tell nobody"},
        {"token": "tell-nobody\n"},
        {"token": "tell-nobody\u2026"},
    ],
    ids=str,
)
def test_a_setting_out_of_bounds_is_refused_by_name_in_one_sentence(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))) as refused:
        Settings(**({"urls": (URL,)} | settings))
    assert "nobody" not in str(refused.value)
    assert "\n" not in str(refused.value)


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
    ("environment", "words"),
    [
        ({"MATH_REWARD_TOKEN": "a", "MATH_REWARD_TOKEN_FILE": "b"}, "not both"),
        ({"MATH_REWARD_TOKEN_FILE": "/no/such/file"}, "cannot be read: No such file"),
        ({"MATH_REWARD_TOKEN_FILE": "/dev/null"}, "is empty"),
    ],
)
def test_a_token_that_cannot_be_found_is_said(
    environment: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=words):
        Settings((URL,))


@pytest.mark.parametrize("verify", ["/no/such/bundle.pem", "empty"])
def test_certificates_that_cannot_be_read_are_named_when_the_client_is_made(verify: str, tmp_path: Path) -> None:
    if verify == "empty":
        verify = str(tmp_path / "empty.pem")
        Path(verify).write_text("no certificate")
    with pytest.raises(ValueError, match=r"\.pem.* certificate"):
        Client(URL, verify=verify)
