"""The two protocols of services that give rewards: requests, valid answers, and the faults of other answers.

* ``POST .../v1/grade``, the reward service's own: ``{"items": [{"completion", "reference", "prompt", "options"}]}`` ->
  ``{"results": [{"reward", "correct", "verdict", ...}]}``. A service whose answers have the header
  ``Accept-Prompts: shared`` gets each prompt once a request: ``"prompts"`` beside ``"items"`` has the texts, and an
  item's ``"prompt"`` is the place of its own there, from 0.
* OpenRLHF's, of remote reward models: ``{"query": [...], "prompts": [...], "labels": [...]}`` ->
  ``{"rewards": ..., "scores": ..., "extra_logs": {...}}``.

Opens nothing.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

from math_reward.client.errors import ERROR_OF, Cause, Refused, Unavailable
from math_reward.json_lines import reference_of
from math_reward.nearest import no_such

HINTS = {
    401: "set MATH_REWARD_TOKEN, or the client's token, to a token of the service",
    403: "set MATH_REWARD_TOKEN, or the client's token, to a token of the service",
    404: "fix the path of the URL",
    405: "fix the path of the URL",
    413: "shorten the completion, or raise the service's MATH_REWARD_MAX_BODY_BYTES",
    422: "fix the item, or the URL if that is no reward service",
}
"""Status of 4xx -> what to do; for the others the service's log says it."""

CAUSES = {401: Cause.TOKEN, 403: Cause.TOKEN, 404: Cause.PATH, 405: Cause.PATH}
"""Status of 4xx -> cause; `Cause.ITEM` for the others."""

OPTIONS = ("mode", "rel_tol", "allow_rounded", "allow_unevaluated", "evaluated")
"""How an item may be graded; docs/reward-service.md says what each means."""


@dataclass(frozen=True)
class Item:
    """One completion to grade.

    Attributes:
        completion: what the model wrote.
        reference: the reference answer, text or a number, or a list of which any one may match.
        prompt: what the completion answers; it is never graded.
        options: how to grade, by the names of OPTIONS.
        query: what a remote reward model gets: prompt and completion in one text, these two as they are by default.
    """

    completion: str
    reference: Any
    prompt: str | None = None
    options: Mapping[str, Any] | None = None
    query: str | None = None

    @classmethod
    def of(cls, item: "Item | Mapping[str, Any]") -> "Item":
        """An item from a mapping with the same names.

        Raises:
            TypeError: it is not one; the sentence names the field.
        """
        if isinstance(item, Item):
            return item
        names = [each.name for each in fields(cls)]
        if not isinstance(item, Mapping):
            raise TypeError(f"An item is an Item, or a mapping with {', '.join(names)}, not {type(item).__name__}.")
        if unknown := next((name for name in item if name not in names), None):
            raise TypeError(f"{no_such('field', str(unknown), names).rstrip('.')} (of an item).")
        if missing := next((name for name in names[:2] if name not in item), None):
            raise TypeError(f"An item needs {missing!r}; this one has {', '.join(map(repr, item)) or 'nothing'}.")
        return cls(**item)


@dataclass(frozen=True)
class Result:
    """The service's grade of one completion. Texts stay texts, so that a newer service's verdict can be read too.

    A remote reward model gives no verdict (an empty text), and its completion is correct if its score is 1.
    """

    reward: float
    """1.0 for a correct completion, else 0.0; of a reward model any finite number."""
    correct: bool
    verdict: str
    """A value of ``math_reward.grader.Verdict``, such as ``correct`` or ``no_answer``."""
    answer: str | None = None
    """The answer that was found in the completion."""
    reference: str = ""
    """The reference answer. Of several: the one that matched, else the first."""
    detail: str | None = None
    """One sentence that says why, if the verdict alone does not."""
    stage: str | None = None
    """The stage that decided, a value of ``math_reward.grader.Stage``; None if nothing was compared."""
    span: tuple[int, int] | None = None
    """Where the answer stands in the completion: its first character and the one after its last."""
    seconds: float = 0.0
    """Time that grading took, without the wait for a worker."""
    scores: float | None = None
    """Verified correctness as a reward model gives it, or its reward; None of a reward service."""
    extra_logs: Mapping[str, float] = field(default_factory=dict, hash=False)
    """What a reward model measured besides."""

    @property
    def score(self) -> float:
        """Verified correctness: 1.0 or 0.0 of a reward service, what a reward model says of itself."""
        return float(self.correct) if self.scores is None else self.scores


class Failure(Exception):
    """Why a request, or one item of its answer, gave no result. ``str()`` continues a sentence that begins with the
    service.

    Attributes:
        cause: of the error that the caller gets if nothing helps.
        becomes: that error's class.
        permanent: whether another attempt cannot help.
        divisible: whether a smaller batch may succeed.
        rewritten_may_succeed: whether the same items may succeed with a prompt each.
        retry_after: seconds for which the service asked for no requests.
    """

    def __init__(
        self,
        reason: str,
        cause: Cause,
        *,
        divisible: bool = False,
        rewritten_may_succeed: bool = False,
        retry_after: float = 0.0,
    ) -> None:
        super().__init__(reason)
        self.cause = cause
        self.becomes = ERROR_OF.get(cause, Unavailable)
        self.permanent = issubclass(self.becomes, Refused)
        self.divisible = divisible
        self.rewritten_may_succeed = rewritten_may_succeed
        self.retry_after = retry_after


class GradeProtocol:
    """``POST /v1/grade``."""

    @staticmethod
    def question(items: Sequence[Item], *, shared_prompts: bool) -> dict[str, Any]:
        """A request; with ``shared_prompts`` it has each prompt once."""
        place: dict[str, int] = {}

        def row(item: Item) -> dict[str, Any]:
            row: dict[str, Any] = {"completion": item.completion, "reference": _sent(item.reference)}
            if item.prompt is not None:
                row["prompt"] = place.setdefault(item.prompt, len(place)) if shared_prompts else item.prompt
            if item.options:
                row["options"] = dict(item.options)
            return row

        rows = [row(item) for item in items]
        return {"prompts": list(place), "items": rows} if place else {"items": rows}

    @staticmethod
    def results(answer: Any, items: Sequence[Item]) -> "list[Result | Failure]":
        """The outcome of each item.

        Raises:
            Failure: this is no answer to such a request.
        """
        results = answer.get("results") if isinstance(answer, dict) else None
        if not isinstance(results, list):
            raise malformed("gave an answer without a list 'results'")
        if len(results) != len(items):
            raise malformed(f"gave {len(results)} results for {len(items)} items")
        return [_each(_graded, result, item) for result, item in zip(results, items, strict=True)]


def _graded(result: Any, item: Item) -> Result:
    """A service of another version, or another one with this protocol, may leave out what nobody needs."""
    if not isinstance(result, dict):
        raise wrong(f"gave a result that is {_kind(result)}, not an object")
    texts: dict[str, Any] = {"reference": result.get("reference") or ""}
    for name in ("verdict", "answer", "detail", "stage"):
        texts[name] = result.get(name)
    for name, value in texts.items():
        if not isinstance(value, str) and (value is not None or name == "verdict"):
            raise wrong(f"gave a {name!r} that is {_kind(value)}, not a text")
    if failure := no_judgement(Result(0.0, False, **texts), item):
        raise failure
    if not isinstance(result.get("correct"), bool):
        raise wrong(f"gave a 'correct' that is {_kind(result.get('correct'))}, not true or false")
    reward, seconds = _number(result.get("reward"), "reward"), _number(result.get("seconds", 0.0), "seconds")
    return Result(reward, result["correct"], span=_span(result.get("span")), seconds=seconds, **texts)


def _span(value: Any) -> tuple[int, int] | None:
    """Two places in a completion; None of an older service, which does not say where the answer stands."""
    if value is None:
        return None
    if isinstance(value, list) and len(value) == 2 and all(type(place) is int for place in value):
        begin, end = value
        return begin, end
    raise wrong(f"gave a 'span' that is {value!r}, not two places in the completion")


NO_JUDGEMENT = ("error", "bad_reference")
"""Verdicts that do not judge the completion: a failure, never a reward of 0."""


def no_judgement(result: Result, item: Item) -> Failure | None:
    """The failure for a verdict of NO_JUDGEMENT; None for another one."""
    if result.verdict == "bad_reference":
        why = f": {result.detail}" if result.detail else ""
        whose = f" (its prompt: {ends_of(item.prompt)!r})" if item.prompt else ""
        reference = (result.reference or str(item.reference))[:80]
        said = f"cannot read the reference answer {reference!r}, fix this row of the data{whose}{why}"
        return Failure(said.rstrip("."), Cause.REFERENCE)
    if result.verdict == "error":
        said = f"could not grade the completion ({result.detail or 'its log says why'})".replace(".)", ")")
        return Failure(said, Cause.FAILED)
    return None


def ends_of(prompt: str) -> str:
    """Enough of a prompt to find its row: many rows begin alike, and many end alike."""
    return prompt if len(prompt) <= 200 else f"{prompt[:100]} ... {prompt[-100:]}"


class OpenRLHFProtocol:
    """POST to a remote reward model, as OpenRLHF's own client sends it."""

    @staticmethod
    def question(items: Sequence[Item], *, shared_prompts: bool) -> dict[str, Any]:
        """A request. This protocol has no shared prompts."""
        prompts = [item.prompt or "" for item in items]
        return {
            "query": [
                prompt + item.completion if item.query is None else item.query
                for prompt, item in zip(prompts, items, strict=True)
            ],
            "prompts": prompts,
            "labels": [_sent(item.reference) for item in items],
        }

    @staticmethod
    def results(answer: Any, items: Sequence[Item]) -> "list[Result | Failure]":
        """The outcome of each item.

        Raises:
            Failure: this is no answer to such a request.
        """
        if not isinstance(answer, dict) or answer.get("rewards") is None:
            raise malformed("gave an answer without 'rewards'")
        n = len(items)
        rewards = _column(answer["rewards"], "rewards", n)
        scores = rewards if answer.get("scores") is None else _column(answer["scores"], "scores", n)
        extra_logs = answer.get("extra_logs") or {}
        if not isinstance(extra_logs, dict):
            raise malformed(f"gave 'extra_logs' that is {_kind(extra_logs)}, not an object")
        logs = {name: _column(values, f"extra_logs {name[:40]}", n) for name, values in extra_logs.items()}
        return [
            _each(_scored, rewards[i], scores[i], {name: values[i] for name, values in logs.items()}, items[i])
            for i in range(n)
        ]


Protocol = type[GradeProtocol] | type[OpenRLHFProtocol]


def _scored(reward: Any, score: Any, logs: dict[str, Any], item: Item) -> Result:
    for verdict in NO_JUDGEMENT:  # the reward service, asked by this protocol, reports these in extra_logs
        if logs.get(f"verdict_{verdict}") == 1 and (failure := no_judgement(Result(0.0, False, verdict), item)):
            raise failure
    rewards, scores = _number(reward, "rewards"), _number(score, "scores", bool_allowed=True)
    return Result(
        reward=rewards,
        correct=scores == 1,
        verdict="",
        scores=scores,
        extra_logs={
            name: _number(value, f"extra_logs {name[:40]}", bool_allowed=True) for name, value in logs.items()
        },
    )


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


def _sent(reference: Any) -> Any:
    """A reference for JSON, which has no NaN and no infinity: they become texts that are no reference."""
    if isinstance(reference, list | tuple):
        return [_sent(one) for one in reference]
    return reference_of(reference) if isinstance(reference, float) and not math.isfinite(reference) else reference


def body(protocol: Protocol, items: Sequence[Item], shared_prompts: bool) -> bytes:
    """The body of a request. Half a surrogate pair, which UTF-8 cannot say, becomes U+FFFD.

    Raises:
        Failure: an item has a value that JSON has not.
    """
    try:
        text = json.dumps(protocol.question(items, shared_prompts=shared_prompts), ensure_ascii=False)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
    except (TypeError, ValueError, RecursionError) as error:
        said = f"was not asked, since the item cannot be written as JSON ({error})"
        raise Failure(said, Cause.ITEM, divisible=True) from None


def outcomes(protocol: Protocol, content: bytes, items: Sequence[Item]) -> list[Result | Failure]:
    """The outcome of each item, from the body of an answer.

    Raises:
        Failure: it is no answer to a request with these items.
    """
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        kind = "HTML" if content.lstrip()[:1] == b"<" else "something"
        raise wrong(f"answered {kind} that is not JSON") from None
    return protocol.results(answer, items)


def refusal(status: int, retry_after: str | None, content: bytes, *, of_reward_model: bool) -> Failure:
    """The failure for an HTTP status of 400 or more.

    Args:
        status: of the answer.
        retry_after: the header of this name, if any.
        content: the answer's body.
        of_reward_model: whether OpenRLHF's protocol is spoken. Such a server may refuse a batch since it is one, and
            may repeat the completion in what it says.
    """
    said = "" if of_reward_model else _detail(content)
    if status in (408, 429) or status >= 500:
        because = f": {said.rstrip('.')}" if said else ""
        busy = status in (408, 429, 502, 503, 504)
        return Failure(
            f"answered HTTP {status}{because}",
            Cause.BUSY if busy else Cause.FAILED,
            divisible=not busy,
            retry_after=_seconds(retry_after),
        )
    hint = "; ".join(filter(None, [said.rstrip("."), HINTS.get(status, "check the service's log")]))
    cause = CAUSES.get(status, Cause.ITEM)
    return Failure(
        f"refused the request with HTTP {status} ({hint})",
        cause,
        divisible=cause is Cause.ITEM and (of_reward_model or status in (413, 422)),
    )


def _detail(content: bytes) -> str:
    """What a reward service says of a refusal: a text. What is no text, as of other servers, may hold the item."""
    try:
        detail = json.loads(content)["detail"]
    except (ValueError, RecursionError, TypeError, KeyError):
        return ""
    return detail[:300] if isinstance(detail, str) else ""


def _seconds(retry_after: str | None) -> float:
    """A Retry-After header, a number or an HTTP date (RFC 9110, 10.2.3), as seconds from now; 0 if it is neither."""
    try:
        seconds = float(retry_after or 0)
    except ValueError:
        try:
            date = parsedate_to_datetime(str(retry_after))
        except ValueError:
            return 0.0
        seconds = (date.replace(tzinfo=date.tzinfo or timezone.utc) - datetime.now(timezone.utc)).total_seconds()
    return max(seconds, 0.0) if math.isfinite(seconds) else 0.0


def wrong(reason: str) -> Failure:
    """The failure for a value that no service gives."""
    return Failure(reason, Cause.BAD_ANSWER)


def malformed(reason: str) -> Failure:
    """The failure for an answer that does not fit its batch; a smaller batch may get a better one."""
    return Failure(reason, Cause.BAD_ANSWER, divisible=True)


def _each(parse: Callable[..., Result], *arguments: Any) -> Result | Failure:
    """Parse one item of an answer. A failure concerns this item only."""
    try:
        return parse(*arguments)
    except Failure as failure:
        return failure


def _number(value: Any, name: str, bool_allowed: bool = False) -> float:
    if not isinstance(value, int | float) or (isinstance(value, bool) and not bool_allowed):
        raise wrong(f"gave a '{name}' that is {_kind(value)}, not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise wrong(f"gave a '{name}' that is not finite ({number})")
    return number


def _kind(value: Any) -> str:
    """The JSON name of a value's type. Messages never show the value, which may be part of a completion."""
    names = {type(None): "null", bool: "a boolean", str: "a string", list: "a list", dict: "an object"}
    return names.get(type(value), "a number")
