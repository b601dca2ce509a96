"""`math_reward.client` as the trainer uses it: in a rollout actor, with settings of the driver.

It replaces the reward client of OpenRLHF's single-turn executor, which sends one POST per sample, never batches, and
returns ``None`` when a server is down.
"""

import asyncio
import socket

from math_reward.client import Cause, Client, ClientError, Item, Refused, Result, Settings, Stats

__all__ = ["RewardClient", "sentence"]


class RewardClient:
    """A client for a busy event loop: that of a rollout actor also takes in what vLLM generates and tokenizes prompts.

    The client has a thread of its own. It is made when it is first asked, since a file of certificates that the driver
    could read may be missing on the actor's machine.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._client: Client | None = None

    @property
    def stats(self) -> Stats:
        """The client's counters; they may be read at any time."""
        return Stats() if self._client is None else self._client.stats

    async def reward(self, item: Item) -> Result:
        """The reward of one completion, from any event loop. Concurrent calls share requests.

        Raises:
            ClientError: it has none.
        """
        if self._client is None:
            try:
                self._client = Client(**vars(self.settings))
            except ValueError as error:
                raise Refused(f"On {socket.gethostname()} {error}", cause=Cause.CERTIFICATE) from None
        return await asyncio.wrap_future(self._client.submit(item))

    def close(self) -> None:
        """End all requests. Callers that still wait get an error."""
        if self._client is not None:
            self._client.close()


def sentence(error: ClientError) -> str:
    """What the client says, with the flag that it does not know."""
    return f"{error} In training, verify= is --reward.ca_file." if error.cause is Cause.CERTIFICATE else str(error)
