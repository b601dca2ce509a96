"""A client with short pauses, what tests ask it, and what it wrote to the log."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from math_reward.client import AsyncClient, ClientError, Item

from ...fake_reward_server import paid

FAST = {"timeout": 60.0, "deadline": 120.0, "max_backoff": 0.02, "batch_wait": 0.02, "reward_models": True}
"""Limits that only a failure uses up, and pauses that cost a test little."""

PATHS = ["/v1/grade", "/get_reward"]
"""One of each protocol."""


@asynccontextmanager
async def asking(*urls: str, **limits: Any) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(urls, **(FAST | limits)) as client:
        yield client


def item(text: object, reference: str = "1") -> Item:
    """One that `FakeRewardServer` pays what its text says, in both protocols."""
    return Item(str(text), reference, f"prompt of {text}", query=str(text))


async def outcomes(client: AsyncClient, *items: object) -> list[Any]:
    """A result or an exception for each item or text. They are in the queue before any is sent, so that the batches
    are the same however slow the machine is."""
    return await asyncio.gather(*client.start([one if isinstance(one, Item) else item(one) for one in items]))


async def rewards(client: AsyncClient, *texts: object) -> list[float]:
    """The numbers of the texts, as their rewards say them."""
    return told(await outcomes(client, *texts), texts)


def told(results: Sequence[Any], texts: Iterable[object]) -> list[float]:
    """For each result the number of its text, if `FakeRewardServer` pays this reward for it; else the reward."""
    pairs = zip(results, map(str, texts), strict=True)
    return [float(text) if result.reward == paid(text) else result.reward for result, text in pairs]


async def error_of(client: AsyncClient, text: object, reference: str = "1") -> ClientError:
    with pytest.raises(ClientError) as caught:
        await client.grade_item(item(text, reference))
    return caught.value


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.startswith("math_reward.client")]


def body(**fields: Any) -> dict[str, Any]:
    """An answer with one right result, but for these fields."""
    right = {"reward": 1.0, "correct": True, "verdict": "correct"}
    return {"results": [{name: value for name, value in (right | fields).items() if value != "absent"}]}
