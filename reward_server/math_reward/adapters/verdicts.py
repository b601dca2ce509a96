"""Where an adapter's verdicts come from: worker processes of this process, or a service."""

import asyncio
import os
import threading
import weakref
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from math_reward.client import Client, ClientClosed, Item, Refused, Result, Settings
from math_reward.client.protocols import OPTIONS, GradeProtocol, ends_of, no_judgement
from math_reward.limits import DEADLINE, usable_cores
from math_reward.nearest import did_you_mean


class Verdicts:
    """Grades completions here or in a service. It starts nothing before it is first used.

    Args:
        url: of one or more services, or a ``Client`` with settings of your own; None grades in worker processes of
            this process, which are killed when an answer takes too long.
        workers: how many such processes; one for each core by default.
        options: how to grade: ``mode``, ``rel_tol``, ``allow_rounded`` and so on.

    Every method raises ``math_reward.client.ClientError`` if a completion gets no verdict: never 0, never None.

    Raises:
        ValueError: an argument cannot be used, which is better known before a model is loaded.
    """

    def __init__(
        self, url: str | Sequence[str] | Client | None = None, *, workers: int | None = None, **options: Any
    ) -> None:
        of_client = {field.name for field in fields(Settings)}
        for name in options:
            if name in of_client:
                raise ValueError(f"{name} is a setting of the client: pass url=Client(URL, {name}=...).")
            if name not in OPTIONS:
                known = did_you_mean(name, OPTIONS, f"there are {', '.join(OPTIONS)}")
                raise ValueError(f"There is no option {name!r}{known}")
        if url is not None and workers is not None:
            raise ValueError("workers is for grading without a service: leave it out, or the URL.")
        if url is not None and not isinstance(url, Client):
            Settings((url,) if isinstance(url, str) else tuple(url))
        self._url = url
        self._workers = workers
        self._options = options
        self._source: Any = None
        self._pid: int | None = None
        self._lock = threading.Lock()

    def grade(
        self, completions: Sequence[str], references: Sequence[Any], prompts: Sequence[str | None]
    ) -> list[Result]:
        """The verdict of each completion, in order."""
        items = [Item(*each, self._options) for each in zip(completions, references, prompts, strict=True)]
        source = self._open()
        if isinstance(source, Client):
            return [result for result in source.grade_many(items) if isinstance(result, Result)]
        graded = source.submit_each([_for_the_pool(item) for item in items])
        return [_judged(one.result(), item) for one, item in zip(graded, items, strict=True)]

    async def grade_one(self, completion: str, reference: Any, prompt: str | None = None) -> Result:
        """The verdict of one completion. Concurrent calls share requests and workers."""
        item = Item(completion, reference, prompt, self._options)
        source = self._open()
        if isinstance(source, Client):
            return await asyncio.wrap_future(source.submit(item))
        return _judged(await asyncio.wrap_future(source.submit(_for_the_pool(item))), item)

    def _open(self) -> Any:
        """The client or the pool, which starts with the first call."""
        with self._lock:
            if self._source is None:
                self._pid = os.getpid()
                self._source = self._client() if self._url is not None else self._pool()
        if self._pid != os.getpid():
            raise ClientClosed("The verdicts were used before this process was forked: use them first after the fork.")
        return self._source

    def _client(self) -> Client:
        assert self._url is not None
        return self._url if isinstance(self._url, Client) else Client(self._url)

    def _pool(self) -> Any:
        from math_reward.pool.worker_pool import WorkerPool

        pool = WorkerPool(self._workers or usable_cores(), DEADLINE).__enter__()
        weakref.finalize(self, _end, pool, os.getpid())
        return pool


def text_of(message: Any) -> str:
    """A text as it is; of chat messages the content of the last one, without parts that are no text."""
    if isinstance(message, str):
        return message
    content = message[-1]["content"] if message else ""
    if isinstance(content, str) or content is None:
        return content or ""
    return "".join(part.get("text", "") for part in content)


def _for_the_pool(item: Item) -> Any:
    """The item as the service would hand it to its own workers."""
    import msgspec

    from math_reward.http.requests import GradeItem, Unusable
    from math_reward.pool.item import DEFAULT_OPTIONS

    (row,) = GradeProtocol.question([item], shared_prompts=False)["items"]
    try:
        return msgspec.convert(row, GradeItem).item(DEFAULT_OPTIONS)
    except (msgspec.ValidationError, Unusable) as fault:
        where = "" if item.prompt is None else f" with the prompt {ends_of(item.prompt)!r}"
        raise Refused(f"The item{where} cannot be graded: {fault}") from None


def _judged(graded: Any, item: Item) -> Result:
    result = Result(**{**graded.grade.as_dict(), "span": graded.grade.span}, seconds=graded.seconds)
    failure = no_judgement(result, item)
    if failure is not None:
        raise failure.becomes(f"The grader {failure}.")
    return result


def _end(pool: Any, pid: int) -> None:
    if os.getpid() == pid:  # a forked process has no such thread
        pool.abandon()
