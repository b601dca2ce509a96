"""Where the client's token and certificates come from."""

import ssl
from pathlib import Path

import pytest

from math_reward.client import Client, Refused, Settings, Unavailable

from ...certificates import write_certificate
from ...plugin.rewards.fake_reward_server import FakeRewardServer

URL = "http://127.0.0.1:1"


def test_the_token_comes_from_the_environment_unless_it_is_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("MATH_REWARD_TOKEN_FILE", raising=False)
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
    ],
)
def test_a_token_that_cannot_be_found_is_said(
    environment: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MATH_REWARD_TOKEN", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=words):
        Settings((URL,))


@pytest.mark.parametrize("verify", ["/no/such/bundle.pem", "empty"])
def test_certificates_that_cannot_be_read_are_named_when_the_client_is_made(verify: str, tmp_path: Path) -> None:
    if verify == "empty":
        verify = str(tmp_path / "empty.pem")
        Path(verify).write_text("no certificate")
    with pytest.raises(ValueError, match=r"\.pem, cannot be read"):
        Client(URL, verify=verify)


def test_a_certificate_is_checked_against_the_given_authorities(tmp_path: Path) -> None:
    pem, secret = write_certificate(tmp_path, "service")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, secret)
    with FakeRewardServer(tls=context) as server:
        for verify in (pem, str(pem), ssl.create_default_context(cafile=str(pem))):
            with Client(server.url, verify=verify) as client:
                assert client.grade("0.5", "1").reward == 0.5
        with (
            Client(server.url) as client,
            pytest.raises(Refused, match=r"not trusted \(self.*pass verify=") as refusal,
        ):
            client.grade("0.5", "1")
        assert refusal.value.attempts == 1
        plain = server.url.replace("https://", "http://")
        with Client(plain, deadline=0) as client, pytest.raises(Unavailable, match=r"write https:// in its URL"):
            client.grade("0.5", "1")
