"""Asks a model whether two answers in words mean the same, over HTTP."""

import asyncio
import hashlib
import json
import ssl
from collections import Counter
from collections.abc import Sequence

import httpx

from math_reward.grader.memory import Memory
from math_reward.judge.question import MAX_CHARACTERS, Unusable, bounded, request, says_yes
from math_reward.judge_settings import KEY_VARIABLE, JudgeSettings

ATTEMPTS = 4
"""How often a question is sent, if the endpoint cannot be reached, hangs up, is busy or fails."""

FIRST_PAUSE_SECONDS = 0.25
"""The pause before the second attempt; it doubles with each."""

CONNECT_SECONDS = 5.0
KEEPALIVE_SECONDS = 1.0
"""Shorter than servers keep idle connections, so that none is closed during a question."""

MAX_ANSWER_BYTES = 2**20

DOWN_SECONDS = 5.0
"""After a question failed, and none was answered since it was sent, so long the next ones fail without being sent."""

REMEMBERED_BYTES = 64 * 2**20
REMEMBERED_ITEM_BYTES = 1024
"""What one remembered judgement takes, which holds no text; with room to spare."""


class JudgeFailed(Exception):
    """The judge gave no usable answer; the message is a sentence."""


class _Again(Exception):
    """Another attempt may succeed; the message ends a sentence that begins with "The judge"."""


class Judge:
    """A model behind an OpenAI-compatible endpoint. Lives in one event loop; several pools may share it.

    It remembers whether two answers to a question are the same, and never that it could not find out.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        self.settings = settings
        self.questions = Counter(dict.fromkeys(["yes", "no", "none", "remembered"], 0))
        """As in ``math_reward.pool.pool.PoolCounters``."""
        most = 2 * settings.concurrency
        self._http = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {settings.key}"} if settings.key else None,
            transport=httpx.AsyncHTTPTransport(
                limits=httpx.Limits(
                    max_connections=most, max_keepalive_connections=most, keepalive_expiry=KEEPALIVE_SECONDS
                ),
                trust_env=False,  # no proxy gets between
                verify=ssl.create_default_context(),
            ),
            trust_env=False,
        )
        self._turns = asyncio.Semaphore(settings.concurrency)
        self._known: Memory[asyncio.Task[tuple[bool, bool]]] = Memory(
            REMEMBERED_BYTES // REMEMBERED_ITEM_BYTES, REMEMBERED_BYTES
        )
        self._waiting: Counter[bytes] = Counter()
        self._answered_at = float("-inf")
        self._down: tuple[float, str] = (float("-inf"), "")

    async def aclose(self) -> None:
        """Closes its connections."""
        await self._http.aclose()

    async def same(self, question: str | None, reference: str, answer: str) -> tuple[bool, bool]:
        """Whether the model says yes to the two in this order, and in the other.

        Raises:
            JudgeFailed: there is no usable answer to one of the two.
        """
        question = None if question is None else bounded(question)
        texts = [self.settings.model, question, reference, answer]
        key = hashlib.sha256(json.dumps(texts).encode()).digest()
        known = self._known.info().hits
        asked = self._known.get(key, lambda: self._started(key, question, reference, answer))
        self.questions["remembered"] += 2 * (self._known.info().hits - known)
        self._waiting[key] += 1
        try:
            return await asyncio.shield(asked)  # Another item may wait for the same when this one's client has gone.
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key]
                if not asked.done():
                    self._known.forget(key)
                    asked.cancel()

    def _started(
        self, key: bytes, question: str | None, reference: str, answer: str
    ) -> "asyncio.Task[tuple[bool, bool]]":
        asked = asyncio.ensure_future(self._in_turn(question, reference, answer))
        asked.add_done_callback(lambda done: self._keep(key, done))
        return asked

    def _keep(self, key: bytes, done: "asyncio.Task[tuple[bool, bool]]") -> None:
        if done.cancelled() or done.exception() is not None:
            self._known.forget(key)

    async def _in_turn(self, question: str | None, reference: str, answer: str) -> tuple[bool, bool]:
        async with self._turns:
            down_at, said = self._down
            began = asyncio.get_running_loop().time()
            if began < down_at + DOWN_SECONDS:
                raise JudgeFailed(said)
            orders: Sequence[tuple[str, str]] = ((reference, answer), (answer, reference))
            asked = [asyncio.ensure_future(self._ask(question, *order)) for order in orders]
            try:
                first, second = await asyncio.wait_for(asyncio.gather(*asked), self.settings.deadline)
                return first, second
            except asyncio.TimeoutError:
                said = f"The judge did not answer within {self.settings.deadline:g} s."
                raise self._failed(said, began) from None
            except _Again as failure:
                raise self._failed(f"The judge {failure}.", began) from None
            except Unusable as failure:
                raise JudgeFailed(f"The judge {failure}.") from None
            finally:
                for task in asked:
                    task.cancel()

    def _failed(self, sentence: str, began: float) -> JudgeFailed:
        """The failure of a question; if none was answered since it began, others need not wait as long."""
        if self._answered_at < began:
            self._down = (asyncio.get_running_loop().time(), sentence)
        return JudgeFailed(sentence)

    async def _ask(self, question: str | None, first: str, second: str) -> bool:
        """The answer to one question.

        Raises:
            _Again: no attempt succeeded.
            Unusable: the reply says neither yes nor no.
        """
        content = json.dumps(request(self.settings.model, question, first, second)).encode()
        pause, said = FIRST_PAUSE_SECONDS, "none"
        try:
            for left in reversed(range(ATTEMPTS)):
                try:
                    said = "yes" if says_yes(await self._reply(content)) else "no"
                    break
                except _Again:
                    if not left:
                        raise
                    await asyncio.sleep(pause)
                    pause *= 2
            self._answered_at = asyncio.get_running_loop().time()
            return said == "yes"
        finally:
            self.questions[said] += 1

    async def _reply(self, content: bytes) -> bytes:
        """The body of the reply to one attempt."""
        headers = {"Content-Type": "application/json"}
        timeout = httpx.Timeout(self.settings.deadline, connect=min(CONNECT_SECONDS, self.settings.deadline))
        url = self.settings.url
        try:
            async with self._http.stream("POST", url, content=content, headers=headers, timeout=timeout) as response:
                reply = bytearray()
                async for chunk in response.aiter_bytes():
                    reply += chunk
                    if len(reply) > MAX_ANSWER_BYTES:
                        raise Unusable(f"answered more than {MAX_ANSWER_BYTES // 2**20} MiB")
        except httpx.TimeoutException:
            raise _Again("did not answer in time") from None
        except httpx.ConnectError:
            raise _Again("cannot be reached: check that it runs, and --judge") from None
        except httpx.TransportError:
            raise _Again("hung up without an answer") from None
        except httpx.DecodingError:
            raise Unusable("answered something that is not JSON") from None
        status = response.status_code
        if status in (408, 429) or status >= 500:
            raise _Again(f"answered HTTP {status}")
        if status in (401, 403):
            raise Unusable(f"answered HTTP {status}: set {KEY_VARIABLE} to its key")
        if status != 200:
            raise Unusable(f"answered HTTP {status}: check --judge and --judge-model, and that it has a chat template")
        return bytes(reply)


def too_long(reference: str, answer: str) -> str | None:
    """A sentence that says why the judge is not asked about such texts; None if it is."""
    for name, text in (("answer", answer), ("reference", reference)):
        if len(text) > MAX_CHARACTERS:
            too_many = f"{len(text):,} characters, and {MAX_CHARACTERS:,} are allowed"
            return f"The judge was not asked: the {name} has {too_many}."
    return None
