"""The reward client in a thread of its own, for a process whose event loop is busy."""

import asyncio
import threading

from openrlhf_gtpo.rewards.client import RewardClient, RewardClientStats
from openrlhf_gtpo.rewards.client_settings import RewardClientSettings
from openrlhf_gtpo.rewards.protocols import Reward, RewardRequest

__all__ = ["RewardThread"]


class RewardThread:
    """A `RewardClient` that keeps its timeouts while the caller's event loop is held up.

    The event loop of a rollout actor also takes in what vLLM generates and tokenizes prompts. A client on that loop
    noticed seconds late that it was connected, or that an answer had come, and counted this as a failure of the
    service.
    """

    def __init__(self, settings: RewardClientSettings) -> None:
        self.settings = settings
        self._client = RewardClient(settings)
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="reward-client", daemon=True).start()

    @property
    def stats(self) -> RewardClientStats:
        """The client's counters; they may be read at any time."""
        return self._client.stats

    async def reward(self, request: RewardRequest) -> Reward:
        """As `RewardClient.reward`, from any event loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._client.reward(request), self._loop))

    async def aclose(self) -> None:
        """As `RewardClient.aclose`; also ends the thread."""
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._client.aclose(), self._loop))
        self._loop.call_soon_threadsafe(self._loop.stop)
