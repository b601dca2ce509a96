"""Reward services over https: a bundle of one's own is trusted, and another one is a failure at once."""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from openrlhf_gtpo.checks.flags import faults
from openrlhf_gtpo.rewards.client import Reward, RewardClientSettings
from openrlhf_gtpo.rewards.probe import ServiceUnusable, doubtful_services
from openrlhf_gtpo.settings import Settings

from ...certificates import write_certificate
from .asking import ask, error_of, outcomes, reward_client
from .fake_reward_server import FakeRewardServer


def own_pem(folder: Path, name: str) -> Path:
    """A new self-signed certificate for 127.0.0.1, with its key in the same file."""
    pem = folder / f"{name}.pem"
    pem.write_bytes(b"".join(path.read_bytes() for path in write_certificate(folder, name)))
    return pem


def https_server(certificate: Path) -> FakeRewardServer:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return FakeRewardServer(tls=context)


async def test_a_service_is_trusted_by_the_bundle_that_has_its_certificate(tmp_path: Path) -> None:
    own, other = own_pem(tmp_path, "own"), own_pem(tmp_path, "other")
    bundle = tmp_path / "bundle.pem"
    bundle.write_bytes(other.read_bytes() + own.read_bytes())
    with https_server(own) as server:
        async with reward_client(server.url, ca_file=str(bundle)) as client:
            (found,) = await outcomes(client, ask(1))

    assert isinstance(found, Reward)
    assert found.score == 1.0


@pytest.mark.parametrize("bundle", ["other.pem", None])
async def test_a_certificate_that_is_not_trusted_is_a_failure_at_once(tmp_path: Path, bundle: str | None) -> None:
    own = own_pem(tmp_path, "own")
    own_pem(tmp_path, "other")
    ca_file = bundle and str(tmp_path / bundle)
    with https_server(own) as server:
        async with reward_client(server.url, ca_file=ca_file, deadline=100_000.0) as client:
            error = await error_of(client, ask(1))

    assert error.permanent
    assert error.of_client
    assert error.attempts == 1
    assert f"{server.url}/v1/grade has a certificate that is not trusted (self" in str(error)
    assert str(error).endswith("): give its authority's by --reward.ca_file.")


async def test_the_check_before_a_run_says_the_same(tmp_path: Path) -> None:
    own, other = own_pem(tmp_path, "own"), own_pem(tmp_path, "other")
    with https_server(own) as server:
        settings = RewardClientSettings((server.url,), ca_file=str(other))
        with pytest.raises(ServiceUnusable, match=r"certificate that is not trusted .*--reward\.ca_file"):
            await asyncio.to_thread(doubtful_services, settings)


def test_a_file_without_a_certificate_is_one_sentence(tmp_path: Path) -> None:
    text = tmp_path / "text.pem"
    text.write_text("no certificate")

    with pytest.raises(ValueError, match=r"text\.pem has no certificate in PEM form: give the file of the authority"):
        RewardClientSettings(("https://a",), ca_file=str(text))
    with pytest.raises(ValueError, match=r"none\.pem cannot be read: No such file or directory"):
        RewardClientSettings(("https://a",), ca_file=str(tmp_path / "none.pem"))


def test_the_flag_reaches_the_client_and_is_refused_where_it_cannot_work(
    settings: Callable[..., Settings], tmp_path: Path
) -> None:
    def asked(url: str, path: str) -> Settings:
        return settings("--vllm.num_engines", 1, "--reward.remote_url", url, "--reward.ca_file", path)

    own, missing = str(own_pem(tmp_path, "own")), str(tmp_path / "none.pem")
    client = asked("https://a:1", own).reward_client(token="t")
    assert client is not None
    assert client.ca_file == own
    assert faults(asked("https://a:1", own)) == []
    assert faults(asked("http://a:1", own)) == [
        "--reward.ca_file needs an https:// URL in --reward.remote_url: add one, or leave the file out."
    ]
    assert faults(asked("https://a:1", missing)) == [
        f"--reward.ca_file: {missing} cannot be read: No such file or directory."
    ]
