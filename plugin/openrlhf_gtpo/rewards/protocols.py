"""The two protocols of reward servers: requests, valid answers, and the faults of other answers.

* ``POST .../v1/grade``, the project's own reward service:
  ``{"items": [{"completion", "reference", "prompt"}]}`` -> ``{"results": [{"reward", "correct", "verdict", ...}]}``.
  A service whose answers have the header ``Accept-Prompts: shared`` gets each prompt once a request: ``"prompts"``
  beside ``"items"`` has the texts, and an item's ``"prompt"`` is the place of its own there, from 0.
* any other path, OpenRLHF's remote reward models: ``{"query": [...], "prompts": [...], "labels": [...]}`` ->
  ``{"rewards": ..., "scores": ..., "extra_logs": {...}}``.

This module opens no connections; `openrlhf_gtpo.rewards.client` does.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

GRADE_PATH = "/v1/grade"


def speaks_grade(url: str) -> bool:
    """Whether a URL is asked by the project's own protocol: its path ends in ``/v1/grade``, or it has none."""
    path = urlsplit(url).path.rstrip("/")
    return not path or path.endswith(GRADE_PATH)


ACCEPT_PROMPTS, SHARED = "Accept-Prompts", "shared"
"""The header of an answer, and its value, by which a service says that items of a request may share a prompt."""

STATUS_HINTS = {
    401: "check the token",
    403: "check the token",
    404: "check the path of the URL",
    405: "check the path of the URL",
    413: "the completion is larger than the service accepts",
    422: "the service does not understand the item, check that the URL speaks this protocol",
}


@dataclass(frozen=True)
class RewardRequest:
    """One completion that needs a reward.

    ``completion`` is the policy's text alone; the grader gets ``prompt`` too, so that it pays no repetition of the
    question. ``query`` is prompt and completion decoded together with special tokens, as OpenRLHF sends it to a reward
    model.
    """

    completion: str
    reference: str
    prompt: str
    query: str


@dataclass(frozen=True)
class Reward:
    """A reward server's answer on one completion; every number is finite.

    ``score`` is verified correctness: 0 or 1 from ``/v1/grade``, ``scores`` in OpenRLHF's protocol, else the reward.
    ``verdict`` is the grader's word (``correct``, ``wrong``, ``timeout`` ...), None in OpenRLHF's protocol.
    """

    reward: float
    score: float
    verdict: str | None
    extra_logs: dict[str, float]


class Failure(Exception):
    """Why a POST, or one item of its answer, gave no reward. ``str()`` continues a sentence that begins with the URL.

    Attributes:
        permanent: whether another attempt cannot help.
        divisible: whether a smaller batch may succeed.
        answered: whether the server read the batch and refused it or answered it wrongly, as a server for single
            queries does.
        retry_after: seconds for which the server asked for no requests.
        of_client: whether the server refuses every request of this client.
        rewritten_may_succeed: whether the same items may succeed as the protocol's older form writes them.
    """

    def __init__(
        self,
        reason: str,
        *,
        permanent: bool = False,
        divisible: bool = False,
        answered: bool = False,
        retry_after: float = 0.0,
        of_client: bool = False,
        rewritten_may_succeed: bool = False,
    ) -> None:
        super().__init__(reason)
        self.of_client = of_client
        self.rewritten_may_succeed = rewritten_may_succeed
        self.permanent = permanent
        self.divisible = divisible
        self.answered = answered
        self.retry_after = retry_after


class GradeProtocol:
    """POST /v1/grade of the project's reward service."""

    @staticmethod
    def question(batch: Sequence[RewardRequest], *, shared_prompts: bool = False) -> dict[str, Any]:
        """The body of a request; with ``shared_prompts`` it has each prompt once."""
        if not shared_prompts:
            return {
                "items": [{"completion": r.completion, "reference": r.reference, "prompt": r.prompt} for r in batch]
            }
        place = {prompt: i for i, prompt in enumerate(dict.fromkeys(r.prompt for r in batch))}
        items = [{"completion": r.completion, "reference": r.reference, "prompt": place[r.prompt]} for r in batch]
        return {"prompts": list(place), "items": items}

    @staticmethod
    def rewards(answer: Any, batch: Sequence[RewardRequest]) -> "list[Reward | Failure]":
        results = answer.get("results") if isinstance(answer, dict) else None
        if not isinstance(results, list):
            raise malformed("gave an answer without a list 'results'")
        if len(results) != len(batch):
            raise malformed(f"gave {len(results)} results for {len(batch)} items")
        return [_each(GradeProtocol._reward, result, request) for result, request in zip(results, batch, strict=True)]

    @staticmethod
    def _reward(result: Any, request: RewardRequest) -> Reward:
        if not isinstance(result, dict):
            raise Failure(f"gave a result that is {_kind(result)}, not an object")
        verdict, correct = result.get("verdict"), result.get("correct")
        if not isinstance(verdict, str):
            raise Failure(f"gave a 'verdict' that is {_kind(verdict)}, not a string")
        _refuse_no_judgement(verdict, request)
        if not isinstance(correct, bool):
            raise Failure(f"gave a 'correct' that is {_kind(correct)}, not true or false")
        return Reward(_number(result.get("reward"), "reward"), float(correct), verdict, {})


NO_JUDGEMENT = ("error", "bad_reference")
"""Verdicts of the project's service that do not judge the completion: a failure, never a reward of 0."""


def _refuse_no_judgement(verdict: str, request: RewardRequest) -> None:
    """Raise Failure for a verdict that does not judge the completion."""
    if verdict == "bad_reference":
        reference = str(request.reference)[:80]  # a data set may have a number or nothing here
        said = f"cannot read the reference answer {reference!r}, fix this row of the data"
        raise Failure(f"{said} (its prompt: {_ends_of(request.prompt)!r})", permanent=True)
    if verdict == "error":
        raise Failure("could not grade the completion (verdict 'error')")


def _ends_of(prompt: str) -> str:
    """Enough of a prompt to find its row: many rows begin alike, and many end alike."""
    return prompt if len(prompt) <= 200 else f"{prompt[:100]} ... {prompt[-100:]}"


class OpenRLHFProtocol:
    """POST to a remote reward model, as OpenRLHF's own client sends it."""

    @staticmethod
    def question(batch: Sequence[RewardRequest], *, shared_prompts: bool = False) -> dict[str, Any]:
        """The body of a request. OpenRLHF's protocol has no shared prompts."""
        return {
            "query": [r.query for r in batch],
            "prompts": [r.prompt for r in batch],
            "labels": [r.reference for r in batch],
        }

    @staticmethod
    def rewards(answer: Any, batch: Sequence[RewardRequest]) -> "list[Reward | Failure]":
        if not isinstance(answer, dict) or answer.get("rewards") is None:
            raise malformed("gave an answer without 'rewards'")
        rewards = _column(answer["rewards"], "rewards", len(batch))
        scores = rewards if answer.get("scores") is None else _column(answer["scores"], "scores", len(batch))
        extra_logs = answer.get("extra_logs") or {}
        if not isinstance(extra_logs, dict):
            raise malformed(f"gave 'extra_logs' that is {_kind(extra_logs)}, not an object")
        logs = {name: _column(values, f"extra_logs {name[:40]}", len(batch)) for name, values in extra_logs.items()}
        return [
            _each(
                OpenRLHFProtocol._reward,
                rewards[i],
                scores[i],
                {name: values[i] for name, values in logs.items()},
                batch[i],
            )
            for i in range(len(batch))
        ]

    @staticmethod
    def _reward(reward: Any, score: Any, logs: dict[str, Any], request: RewardRequest) -> Reward:
        for verdict in NO_JUDGEMENT:  # the project's service reports these in extra_logs
            if logs.get(f"verdict_{verdict}") == 1:
                _refuse_no_judgement(verdict, request)
        return Reward(
            _number(reward, "rewards"),
            _number(score, "scores", bool_allowed=True),
            None,
            {name: _number(value, f"extra_logs {name[:40]}", bool_allowed=True) for name, value in logs.items()},
        )


def refused(status: int, retry_after: str | None, stock: bool) -> Failure:
    """The failure for an HTTP status of 400 or more.

    Args:
        status: of the answer.
        retry_after: the header of this name, if any.
        stock: whether the server speaks OpenRLHF's protocol.
    """
    if status in (408, 429) or status >= 500:
        overloaded_or_gone = status in (408, 429, 502, 503, 504)
        return Failure(
            f"answered HTTP {status}",
            divisible=not overloaded_or_gone,
            answered=not overloaded_or_gone,
            retry_after=_seconds_of(retry_after),
        )
    of_client = status in (401, 403, 404, 405)
    about_the_batch = not of_client if stock else status in (413, 422)
    hint = f" ({STATUS_HINTS[status]})" if status in STATUS_HINTS else ""
    return Failure(
        f"refused the request with HTTP {status}{hint}",
        permanent=True,
        divisible=about_the_batch,
        answered=True,
        of_client=of_client,
    )


def _seconds_of(retry_after: str | None) -> float:
    """A Retry-After header, a number or an HTTP date (RFC 9110, 10.2.3), as seconds from now; 0 if it is neither."""
    if retry_after is None:
        return 0.0
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            date = parsedate_to_datetime(retry_after)
        except ValueError:
            return 0.0
        if date.tzinfo is None:
            date = date.replace(tzinfo=timezone.utc)
        seconds = (date - datetime.now(timezone.utc)).total_seconds()
    return max(seconds, 0.0) if math.isfinite(seconds) else 0.0


def malformed(reason: str) -> Failure:
    return Failure(reason, divisible=True, answered=True)


def _each(parse: Any, *arguments: Any) -> Reward | Failure:
    """Parse one item of an answer. A failure concerns this item only."""
    try:
        return parse(*arguments)
    except Failure as failure:
        return failure


def _column(values: Any, name: str, n: int) -> list[Any]:
    """The n values of a column of OpenRLHF's protocol: a list, a list of one-element lists, or for n = 1 a scalar."""
    if not isinstance(values, list):
        if n == 1:
            return [values]
        raise malformed(f"gave one value as '{name}' for {n} queries")
    if len(values) != n:
        raise malformed(f"gave {len(values)} values as '{name}' for {n} queries")
    if any(isinstance(value, list) for value in values):
        if not all(isinstance(value, list) and len(value) == 1 for value in values):
            raise malformed(f"gave '{name}' in a shape that is neither (n,) nor (n, 1)")
        return [value[0] for value in values]
    return values


def _number(value: Any, name: str, bool_allowed: bool = False) -> float:
    if isinstance(value, bool) and bool_allowed:
        return float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Failure(f"gave a '{name}' that is {_kind(value)}, not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise Failure(f"gave a '{name}' that is not finite ({number})")
    return number


def _kind(value: Any) -> str:
    """The JSON name of a value's type. Messages never show the value, which may be part of a completion."""
    names = {type(None): "null", bool: "a boolean", str: "a string", list: "a list", dict: "an object"}
    return names.get(type(value), "a number")
