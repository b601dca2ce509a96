"""The client in a rollout actor: settings of the driver, an event loop that is busy, certificates by a flag."""

import asyncio
import pickle
import ssl
from pathlib import Path
from typing import Any

import pytest

from math_reward.client import Cause, ClientClosed, ClientError, Item, Result, Settings
from openrlhf_gtpo.checks import services
from openrlhf_gtpo.rewards.client import RewardClient, client_settings, sentence

from ...certificates import write_certificate
from ...fake_reward_server import Answer, FakeRewardServer
from ...refusals import assert_refusal

ITEM = Item("0.5", "1", "prompt", query="0.5")
FLAGS = {
    "reward.remote_url": "https://a:1",
    "reward.ca_file": None,
    "train.agent_func_path": None,
    "reward.timeout": 1.0,
    "reward.deadline": 2.0,
    "reward.on_failure": "retry",
    "reward.batch_size": 3,
    "reward.max_in_flight": 4,
}


def made(**flags: Any) -> Settings:
    """What the flags make of the client, after the way from the driver to an actor."""
    client = client_settings(FLAGS | flags, token="t")
    assert client is not None
    return pickle.loads(pickle.dumps(client))


def test_every_flag_reaches_the_client(tmp_path: Path) -> None:
    urls, ca_file = ("https://a:1/v1/grade", "https://a:2/get_reward/"), str(tmp_path)
    found = made(**{"reward.remote_url": "https://a:1, https://a:2/get_reward/", "reward.ca_file": ca_file})
    assert found == Settings(
        urls, "t", ca_file, timeout=1.0, deadline=2.0, batch_size=3, max_in_flight=4, reward_models=True
    )


@pytest.mark.parametrize("path", ["/v1/grade", "/get_reward"])
async def test_both_protocols_are_spoken_and_counted(path: str) -> None:
    with FakeRewardServer() as server:
        client = RewardClient(Settings((server.url + path,), reward_models=True))
        assert client.stats.requests == 0
        found = await client.reward(ITEM)
        assert (found.reward, client.stats.items) == (0.5, 1)
        client.close()
    assert ("items" in server.posts[0].payload) == (path == "/v1/grade")


async def test_callers_that_still_wait_get_an_error_when_it_is_closed() -> None:
    with FakeRewardServer([Answer(delay=30)]) as server:
        client = RewardClient(Settings((server.url,)))
        reward: asyncio.Future[Result] = asyncio.ensure_future(client.reward(ITEM))
        while not server.posts:
            await asyncio.sleep(0.01)
        client.close()
        with pytest.raises(ClientClosed):
            await reward


async def test_a_file_of_certificates_that_only_the_driver_has_is_the_error_of_each_reward(tmp_path: Path) -> None:
    client = RewardClient(Settings(("https://127.0.0.1:1",), verify=str(tmp_path / "none.pem")))
    for _ in range(2):
        with pytest.raises(ClientError, match=r"On \S+ .*none\.pem") as refused:
            await client.reward(ITEM)
        assert refused.value.cause is Cause.CERTIFICATE
        assert refused.value.cause.refuses_all


async def test_a_certificate_that_is_not_trusted_names_the_flag_in_training_and_before_it(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*write_certificate(tmp_path, "own"))
    with FakeRewardServer(tls=context) as server:
        settings = Settings((server.url,))
        client = RewardClient(settings)
        with pytest.raises(ClientError) as refused:
            await client.reward(ITEM)
        client.close()
        assert "--reward.ca_file" in sentence(refused.value)
        found = await asyncio.to_thread(services.ask, settings)
        assert_refusal(found.sentence, "certificate", "--reward.ca_file")


def test_the_token_is_the_environments_and_nobody_prints_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MATH_REWARD_TOKEN", "s3cret")
    client = client_settings(FLAGS)
    assert client is not None
    assert client.token == "s3cret"
    assert "s3cret" not in repr(client), "OpenRLHF prints its flags, Ray its arguments"
    for other in ({"reward.remote_url": "rewards.py"}, {"train.agent_func_path": "agent.py"}):
        assert client_settings(FLAGS | other) is None, "whoever gives rewards otherwise needs no client"
