"""Where the client's token and certificates come from."""

import datetime
import ssl
from pathlib import Path

import pytest

from math_reward.client import Client, Settings, Unavailable

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


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that is its own authority, and its key."""
    x509 = pytest.importorskip("cryptography.x509")
    import ipaddress

    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.timezone.utc)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    pem, secret = tmp_path / "service.pem", tmp_path / "service.key"
    pem.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    none = serialization.NoEncryption()
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, none)
    )
    return pem, secret


def test_a_certificate_is_checked_against_the_given_authorities(certificate: tuple[Path, Path]) -> None:
    pem, secret = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, secret)
    with FakeRewardServer(tls=context) as server:
        for verify in (pem, str(pem), ssl.create_default_context(cafile=str(pem))):
            with Client(server.url, verify=verify) as client:
                assert client.grade("0.5", "1").reward == 0.5
        with Client(server.url, deadline=0) as client, pytest.raises(Unavailable, match=r"(?i)certificate"):
            client.grade("0.5", "1")
