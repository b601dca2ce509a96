"""A value that is an argument of many remote calls, and that each process unpickles once.

OpenRLHF passes the tokenizer with every prompt. One of 150,000 tokens takes 5 to 10 MB and up to a second to unpickle,
which happens in the event loop of the rollout actor: a step of 128 prompts spent minutes on it.
"""

from typing import Any

import ray

__all__ = ["SentOnce"]

_received: dict[str, Any] = {}
"""The values of this process, by the name of their reference."""


class SentOnce:
    """Stands for a value as an argument of remote calls; in another process it becomes the value itself.

    The value goes into Ray's object store, where it stays as long as this object lives. The calls carry a reference of
    some hundred bytes. All calls in a process get one and the same object.
    """

    def __init__(self, value: Any) -> None:
        self.value = value
        # Not at the first call: Ray cannot put a value while it pickles another.
        self._reference = ray.put(value)

    def __reduce__(self) -> tuple[Any, ...]:
        return _receive, (self._reference,)


def _receive(reference: Any) -> Any:
    name = reference.hex()
    if name not in _received:
        _received[name] = ray.get(reference)
    return _received[name]
