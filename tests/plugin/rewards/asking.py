"""A client with short times, what tests ask it, and what it wrote to the log."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from openrlhf_gtpo.rewards.client import RewardClient, RewardClientSettings, RewardError, RewardRequest

FAST = {"timeout": 5.0, "deadline": 20.0, "max_backoff": 0.02, "batch_wait": 0.02}


@asynccontextmanager
async def reward_client(*urls: str, **settings: Any) -> AsyncIterator[RewardClient]:
    client = RewardClient(RewardClientSettings(urls=urls, **(FAST | settings)))
    try:
        yield client
    finally:
        await client.aclose()


def ask(text: object, reference: str = "1") -> RewardRequest:
    return RewardRequest(completion=str(text), reference=reference, prompt=f"prompt of {text}", query=str(text))


async def outcomes(client: RewardClient, *requests: RewardRequest) -> list[Any]:
    """A reward or an exception for each request; all are asked for at once."""
    return await asyncio.gather(*(client.reward(request) for request in requests), return_exceptions=True)


async def error_of(client: RewardClient, request: RewardRequest) -> RewardError:
    with pytest.raises(RewardError) as caught:
        await client.reward(request)
    return caught.value


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.startswith("openrlhf_gtpo.rewards.")]


def result(**fields: Any) -> dict[str, Any]:
    right = {"reward": 1.0, "correct": True, "verdict": "correct"}
    return {"results": [{name: value for name, value in (right | fields).items() if value != "absent"}]}
