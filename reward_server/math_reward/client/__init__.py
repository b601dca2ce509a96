"""The service's client: ``Client`` for ordinary code, ``AsyncClient`` for an event loop.

Runs in the process that wants grades. It needs httpx and nothing of the service or the grader; the plugin has a client
of its own, since it must work without this distribution, and one test module holds both to the same rules.
"""

try:
    import httpx  # noqa: F401 - it is used below, by modules whose own error would not say what to install
except ModuleNotFoundError:
    raise ImportError("math_reward.client needs httpx: pip install httpx, or this package with [client].") from None

from math_reward.client.async_client import AsyncClient
from math_reward.client.client import Client
from math_reward.client.errors import BadAnswer, ClientClosed, ClientError, NotJudged, Refused, Unavailable
from math_reward.client.protocol import Item, Result
from math_reward.client.settings import Settings

__all__ = [
    "AsyncClient",
    "BadAnswer",
    "Client",
    "ClientClosed",
    "ClientError",
    "Item",
    "NotJudged",
    "Refused",
    "Result",
    "Settings",
    "Unavailable",
]
