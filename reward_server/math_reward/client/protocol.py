"""What goes to ``POST /v1/grade`` and comes back: items, results, and the faults of other answers. Opens nothing."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

from math_reward.client.errors import BadAnswer, ClientError, NotJudged, Refused, Unavailable
from math_reward.nearest import no_such

HINTS = {
    401: "set MATH_REWARD_TOKEN, or pass token=, to a token of the service",
    403: "set MATH_REWARD_TOKEN, or pass token=, to a token of the service",
    404: "fix the path of the URL",
    405: "fix the path of the URL",
    413: "shorten the completion, or raise the service's MATH_REWARD_MAX_BODY_BYTES",
    422: "fix the item, or the URL if that is no reward service",
}
"""Status -> what to do."""

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
    """

    completion: str
    reference: Any
    prompt: str | None = None
    options: Mapping[str, Any] | None = None

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
    """The service's grade of one completion. Texts stay texts, so that a newer service's verdict can be read too."""

    reward: float
    """1.0 for a correct completion, else 0.0."""
    correct: bool
    verdict: str
    """A value of ``math_reward.grader.Verdict``, such as ``correct`` or ``no_answer``."""
    answer: str | None
    """The answer that was found in the completion."""
    reference: str
    """The reference answer. Of several: the one that matched, else the first."""
    detail: str | None
    """One sentence that says why, if the verdict alone does not."""
    stage: str | None
    """The stage that decided, a value of ``math_reward.grader.Stage``; None if nothing was compared."""
    seconds: float
    """Time that grading took, without the wait for a worker."""


class Failure(Exception):
    """Why a request, or one item of its answer, gave no result. ``str()`` continues a sentence that begins with the
    service.

    Attributes:
        becomes: the error that the caller gets if nothing helps.
        permanent: whether another attempt cannot help.
        divisible: whether a smaller batch may succeed.
        rewritten_may_succeed: whether the same items may succeed with a prompt each.
        retry_after: seconds for which the service asked for no requests.
    """

    def __init__(
        self,
        reason: str,
        becomes: type[ClientError] = Unavailable,
        *,
        divisible: bool = False,
        rewritten_may_succeed: bool = False,
        retry_after: float = 0.0,
    ) -> None:
        super().__init__(reason)
        self.becomes = becomes
        self.permanent = issubclass(becomes, Refused)
        self.divisible = divisible
        self.rewritten_may_succeed = rewritten_may_succeed
        self.retry_after = retry_after


def body(items: Sequence[Item], *, shared_prompts: bool) -> bytes:
    """A request's body; with ``shared_prompts`` it has each prompt once.

    Raises:
        Failure: an item has a value that JSON has not.
    """
    place: dict[str, int] = {}

    def row(item: Item) -> dict[str, Any]:
        fields: dict[str, Any] = {"completion": item.completion, "reference": item.reference}
        if item.prompt is not None:
            fields["prompt"] = place.setdefault(item.prompt, len(place)) if shared_prompts else item.prompt
        if item.options:
            fields["options"] = dict(item.options)
        return fields

    try:
        rows = [row(item) for item in items]
        return json.dumps({"prompts": list(place), "items": rows} if place else {"items": rows}).encode()
    except (TypeError, ValueError, RecursionError) as error:
        reason = f"was not asked, since the item cannot be written as JSON ({error})"
        raise Failure(reason, Refused, divisible=True) from None


def results(content: bytes, items: Sequence[Item]) -> list[Result | Failure]:
    """The outcomes of an answer to a request with ``items``.

    Raises:
        Failure: it is not such an answer.
    """
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        kind = "HTML" if content.lstrip()[:1] == b"<" else "something"
        raise Failure(f"answered {kind} that is not JSON", BadAnswer) from None
    found = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(found, list):
        raise Failure("gave an answer without a list 'results'", BadAnswer, divisible=True)
    if len(found) != len(items):
        raise Failure(f"gave {len(found)} results for {len(items)} items", BadAnswer, divisible=True)
    return [_result(one, item) for one, item in zip(found, items, strict=True)]


def _result(value: Any, item: Item) -> Result | Failure:
    names = [each.name for each in fields(Result)]
    if not isinstance(value, dict) or not all(name in value for name in names):
        return Failure(f"gave a result without all of {', '.join(names)}", BadAnswer)
    for name in ("reward", "seconds"):
        if not _is_finite_number(value[name]):
            return Failure(f"gave a {name!r} that is not a finite number", BadAnswer)
    if not isinstance(value["correct"], bool):
        return Failure("gave a 'correct' that is neither true nor false", BadAnswer)
    for name in ("verdict", "reference", "answer", "detail", "stage"):
        may_be_null = name in ("answer", "detail", "stage")
        if not (isinstance(value[name], str) or (may_be_null and value[name] is None)):
            return Failure(f"gave a {name!r} that is not a text", BadAnswer)
    known: dict[str, Any] = {name: value[name] for name in names}
    result = Result(**known | {"reward": float(known["reward"]), "seconds": float(known["seconds"])})
    return no_judgement(result, item) or result


def no_judgement(result: Result, item: Item) -> Failure | None:
    """The failure for a verdict that does not judge the item's completion: it is never a reward of 0."""
    if result.verdict == "bad_reference":
        why = f": {result.detail}" if result.detail else ""
        whose = f" (its prompt: {ends_of(item.prompt)!r})" if item.prompt else ""
        said = f"cannot read the reference answer {result.reference[:80]!r}, fix this row of the data{whose}{why}"
        return Failure(said.rstrip("."), NotJudged)
    if result.verdict == "error":
        return Failure(f"could not grade the completion ({result.detail or 'its log says why'})".replace(".)", ")"))
    return None


def ends_of(prompt: str) -> str:
    """Enough of a prompt to find its row: many rows begin alike, and many end alike."""
    return prompt if len(prompt) <= 200 else f"{prompt[:100]} ... {prompt[-100:]}"


def refusal(status: int, retry_after: str | None, content: bytes) -> Failure:
    """The failure for an HTTP status of 400 or more."""
    try:
        said = str(json.loads(content)["detail"])[:300]
    except (ValueError, RecursionError, TypeError, KeyError):
        said = ""
    if status in (408, 429) or status >= 500:
        because = f": {said.rstrip('.')}" if said else ""
        gone = status in (408, 429, 502, 503, 504)
        return Failure(f"answered HTTP {status}{because}", divisible=not gone, retry_after=_seconds(retry_after))
    hint = "; ".join(filter(None, [said.rstrip("."), HINTS.get(status)]))
    reason = f"refused the request with HTTP {status}" + (f" ({hint})" if hint else "")
    return Failure(reason, Refused, divisible=status in (413, 422))


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


def _is_finite_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond the floats
        return False
