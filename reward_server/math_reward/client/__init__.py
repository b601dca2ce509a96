"""The service's client: ``Client`` for ordinary code, ``AsyncClient`` for an event loop.

Runs in the process that wants grades, the trainer's rollout actors too. It needs httpx when a client is made, and
nothing of the service or of the grader.
"""

from math_reward.client.async_client import AsyncClient, Stats
from math_reward.client.client import Client
from math_reward.client.errors import BadAnswer, Cause, ClientClosed, ClientError, NotJudged, Refused, Unavailable
from math_reward.client.protocols import Item, Result
from math_reward.client.settings import Settings

__all__ = [
    "AsyncClient",
    "BadAnswer",
    "Cause",
    "Client",
    "ClientClosed",
    "ClientError",
    "Item",
    "NotJudged",
    "Refused",
    "Result",
    "Settings",
    "Stats",
    "Unavailable",
]
