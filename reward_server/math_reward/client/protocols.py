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
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import msgspec

from math_reward.client.errors import ERROR_OF, Cause, Refused, Unavailable
from math_reward.json_lines import reference_of
from math_reward.nearest import no_such

_Struct = TypeVar("_Struct", bound=msgspec.Struct)

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


class _Row(msgspec.Struct):
    """A result of ``/v1/grade``. A service of another version, or another one with this protocol, may leave out what
    nobody needs.
    """

    verdict: str
    correct: bool | None = None
    reward: float | None = None
    answer: str | None = None
    reference: str | None = None
    detail: str | None = None
    stage: str | None = None
    span: tuple[int, int] | None = None
    seconds: float = 0.0


def _graded(result: Any, item: Item) -> Result:
    row = _converted(result, _Row, "a result")
    known = Result(0.0, False, row.verdict, row.answer, row.reference or "", row.detail, row.stage)
    if failure := no_judgement(known, item):
        raise failure
    if row.reward is None or row.correct is None:
        raise wrong("gave a result without 'reward' and 'correct'")
    return replace(
        known, reward=_finite(row.reward, "reward"), correct=row.correct, span=row.span, seconds=row.seconds
    )


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
    """POST of one query to a remote reward model, as OpenRLHF's own client sends it."""

    @staticmethod
    def question(items: Sequence[Item], *, shared_prompts: bool) -> dict[str, Any]:
        """A request. This protocol has no shared prompts."""
        (item,) = items
        prompt = item.prompt or ""
        query = prompt + item.completion if item.query is None else item.query
        return {"query": [query], "prompts": [prompt], "labels": [_sent(item.reference)]}

    @staticmethod
    def results(answer: Any, items: Sequence[Item]) -> "list[Result | Failure]":
        """The outcome of the item.

        Raises:
            Failure: this is no answer to such a request.
        """
        if not isinstance(answer, dict) or answer.get("rewards") is None:
            raise wrong("gave an answer without 'rewards'")
        values = _converted(answer, _Values, "an answer")
        reward = _only(values.rewards, "rewards")
        score = reward if values.scores is None else _only(values.scores, "scores")
        logs = {name: _only(value, f"extra_logs {name[:40]}") for name, value in (values.extra_logs or {}).items()}
        for verdict in NO_JUDGEMENT:  # the reward service, asked by this protocol, reports these in extra_logs
            if logs.get(f"verdict_{verdict}") == 1:
                return [no_judgement(Result(0.0, False, verdict), items[0]) or wrong("gave no verdict")]
        return [Result(reward, score == 1, "", scores=score, extra_logs=logs)]


_Value = bool | float | list[bool | float | list[bool | float]]


class _Values(msgspec.Struct):
    """An answer of OpenRLHF's protocol: each value is a scalar, or in a list or two."""

    rewards: _Value
    scores: _Value | None = None
    extra_logs: dict[str, _Value] | None = None


Protocol = type[GradeProtocol] | type[OpenRLHFProtocol]


def _only(value: Any, name: str) -> float:
    """The one number that a value is or holds."""
    for _ in range(2):
        if isinstance(value, list):
            if len(value) != 1:
                raise wrong(f"gave {len(value)} values as '{name}' for one query")
            value = value[0]
    return _finite(value, name)


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
        of_reward_model: whether OpenRLHF's protocol is spoken. Such a server may repeat the completion in its refusal.
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
        divisible=cause is Cause.ITEM and status in (413, 422),
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


def _converted(value: Any, kind: type[_Struct], what: str) -> _Struct:
    """A struct; a sentence that never shows a value, which may be part of a completion."""
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, OverflowError) as error:
        said = re.sub(r"`\$\.?([^`]*)`", r"'\1'", str(error)).replace("`", "'")
        raise wrong(f"gave {what} that cannot be read ({said})") from None


def _finite(value: float, name: str) -> float:
    if not math.isfinite(value):
        raise wrong(f"gave a '{name}' that is not finite ({value})")
    return float(value)
