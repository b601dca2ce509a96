"""The two protocols of services that give rewards: what is asked, and what an answer means.

* ``POST .../v1/grade``, the reward service's own: ``{"items": [{"completion", "reference", "prompt", "options"}]}`` ->
  ``{"results": [{"reward", "correct", "verdict", ...}]}``. A service whose answers have the header
  ``Accept-Prompts: shared`` gets each prompt once a request: ``"prompts"`` beside ``"items"`` has the texts, and an
  item's ``"prompt"`` is the place of its own there, from 0.
* OpenRLHF's, of remote reward models: ``{"query": [...], "prompts": [...], "labels": [...]}`` ->
  ``{"rewards": ..., "scores": ..., "extra_logs": {...}}``.

Opens nothing. An error says why a request, or one item of its answer, has no result.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import msgspec

from math_reward.client.errors import BadAnswer, Cause, ClientError, NotJudged, Refused, Unavailable

_Struct = TypeVar("_Struct", bound=msgspec.Struct)

OPTIONS = ("mode", "rel_tol", "allow_rounded", "allow_unevaluated", "evaluated")
"""How an item may be graded; docs/reward-service.md says what each means."""

TOKEN = (Cause.TOKEN, "set MATH_REWARD_TOKEN, or the client's token, to a token of the service")
PATH = (Cause.PATH, "fix the path of the URL")

REFUSALS = {
    401: TOKEN,
    403: TOKEN,
    404: PATH,
    405: PATH,
    413: (Cause.ITEM, "shorten the completion, or raise the service's MATH_REWARD_MAX_BODY_BYTES"),
    422: (Cause.ITEM, "fix the item, or the URL if that is no reward service"),
}
"""Status of 4xx -> cause, and what to do; for the others the service's log says it."""


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
        """An item from a mapping with the same names; TypeError if it is not one."""
        if isinstance(item, Item):
            return item
        try:
            return cls(**item)
        except TypeError as error:
            raise TypeError(
                f"An item is an Item, or a mapping with its fields, and this is neither: {error}."
            ) from None


class Result(msgspec.Struct, frozen=True):
    """The service's grade of one completion. Texts stay texts, so that a newer service's verdict can be read too.

    A remote reward model gives no verdict (an empty text), and its completion is correct if its score is 1.

    Attributes:
        reward: 1.0 for a correct completion, else 0.0; of a reward model any number that is a float32.
        correct: whether it is.
        verdict: a value of ``math_reward.grader.Verdict``, such as ``correct`` or ``no_answer``.
        answer: the answer that was found in the completion.
        reference: the reference answer. Of several: the one that matched, else the first.
        detail: one sentence that says why, if the verdict alone does not.
        stage: the stage that decided, a value of ``math_reward.grader.Stage``; None if nothing was compared.
        span: where the answer stands in the completion: its first character and the one after its last.
        seconds: time that grading took, without the wait for a worker.
        scores: verified correctness as a reward model gives it, or its reward; None of a reward service.
        extra_logs: what a reward model measured besides.
    """

    reward: float
    correct: bool
    verdict: str
    answer: str | None = None
    reference: str = ""
    detail: str | None = None
    stage: str | None = None
    span: tuple[int, int] | None = None
    seconds: float = 0.0
    scores: float | None = None
    extra_logs: dict[str, float] = {}

    @property
    def score(self) -> float:
        """Verified correctness: 1.0 or 0.0 of a reward service, what a reward model says of itself."""
        return float(self.correct) if self.scores is None else self.scores


Outcome = Result | ClientError


class _Answer(msgspec.Struct):
    """Of ``/v1/grade``. A service of another version may leave out what nobody needs."""

    results: list[Result]


class GradeProtocol:
    """``POST /v1/grade``."""

    @staticmethod
    def question(items: Sequence[Item], *, shared_prompts: bool) -> dict[str, Any]:
        """A request; with ``shared_prompts`` it has each prompt once."""
        place: dict[str, int] = {}

        def row(item: Item) -> dict[str, Any]:
            row: dict[str, Any] = {"completion": item.completion, "reference": item.reference}
            if item.prompt is not None:
                row["prompt"] = place.setdefault(item.prompt, len(place)) if shared_prompts else item.prompt
            if item.options:
                row["options"] = dict(item.options)
            return row

        rows = [row(item) for item in items]
        return {"prompts": list(place), "items": rows} if place else {"items": rows}

    @staticmethod
    def results(answer: bytes, items: Sequence[Item]) -> list[Outcome]:
        """The outcome of each item, from the body of an answer; BadAnswer if this is none to such a request."""
        results = _decoded(answer, _Answer).results
        if len(results) != len(items):
            raise BadAnswer(f"gave {len(results)} results for {len(items)} items", divisible=True)
        pairs = zip(results, items, strict=True)
        return [no_judgement(result, item) or contradiction(result) or result for result, item in pairs]


def no_judgement(result: Result, item: Item) -> ClientError | None:
    """The error, never a reward of 0, for a verdict that does not judge the completion; None for another one."""
    why = f": {result.detail.rstrip('.')}" if result.detail else ""
    if result.verdict == "bad_reference":
        whose = f" (its prompt: {ends_of(item.prompt)!r})" if item.prompt else ""
        reference = (result.reference or str(item.reference))[:80]
        return NotJudged(f"cannot read the reference answer {reference!r}, fix this row of the data{whose}{why}")
    if result.verdict == "error":
        return Unavailable(f"could not grade the completion{why}")
    return None


def contradiction(result: Result) -> ClientError | None:
    """The error for a grade that disagrees with itself; a wrong answer may earn a part, or a right one lose a part."""
    right = result.verdict == "correct"
    if result.correct == right == result.score and (0 < result.reward <= 1 if right else 0 <= result.reward < 1):
        return None
    said = f"the reward {result.reward:g}, the score {result.score:g} and the verdict {result.verdict[:40]!r}"
    return BadAnswer(f"contradicts itself with {said}, update it or check the URL")


def ends_of(prompt: str) -> str:
    """Enough of a prompt to find its row: many rows begin alike, and many end alike."""
    return prompt if len(prompt) <= 200 else f"{prompt[:100]} ... {prompt[-100:]}"


_ONE = msgspec.Meta(min_length=1, max_length=1)
# A trainer makes tensors of float32 of them, where 1e39 is infinite.
_Number = bool | Annotated[float, msgspec.Meta(ge=-3.4e38, le=3.4e38)]
_Value = _Number | Annotated[list[_Number | Annotated[list[_Number], _ONE]], _ONE]


class _Values(msgspec.Struct):
    """An answer of OpenRLHF's protocol to one query: each value is a scalar, or alone in a list or two."""

    rewards: _Value
    scores: _Value | None = None
    extra_logs: dict[str, _Value] | None = None


class OpenRLHFProtocol:
    """POST of one query to a remote reward model, as OpenRLHF's own client sends it."""

    @staticmethod
    def question(items: Sequence[Item], *, shared_prompts: bool) -> dict[str, Any]:
        """A request. This protocol has no shared prompts."""
        (item,) = items
        prompt = item.prompt or ""
        query = prompt + item.completion if item.query is None else item.query
        return {"query": [query], "prompts": [prompt], "labels": [item.reference]}

    @staticmethod
    def results(answer: bytes, items: Sequence[Item]) -> list[Outcome]:
        """The outcome of the item; BadAnswer if this is no answer to such a request."""
        values = _decoded(answer, _Values)
        reward = _only(values.rewards)
        score = reward if values.scores is None else _only(values.scores)
        logs = {name: _only(value) for name, value in (values.extra_logs or {}).items()}
        # The reward service, asked by this protocol, says in extra_logs that it did not judge.
        no_verdicts = ("error", "bad_reference")
        verdict = next((verdict for verdict in no_verdicts if logs.get(f"verdict_{verdict}") == 1), "")
        result = Result(reward, score == 1, verdict, scores=score, extra_logs=logs)
        return [no_judgement(result, items[0]) or result]


Protocol = type[GradeProtocol] | type[OpenRLHFProtocol]


def _only(value: Any) -> float:
    """The one number that a value is or holds."""
    while isinstance(value, list):
        value = value[0]
    return float(value)


def _decoded(answer: bytes, kind: type[_Struct]) -> _Struct:
    """A struct from JSON, whose numbers are finite. The sentence never shows a value, which may be of a completion."""
    try:
        return msgspec.json.decode(answer, type=kind)
    except (ValueError, RecursionError) as error:
        said = f"gave an answer of another form, perhaps HTML ({error}), check the URL"
        raise BadAnswer(said, divisible=True) from None


def body(protocol: Protocol, items: Sequence[Item], shared_prompts: bool) -> bytes:
    """The body of a request; Refused if JSON cannot hold it. Half a surrogate pair, for UTF-8, becomes U+FFFD."""
    try:
        text = json.dumps(protocol.question(items, shared_prompts=shared_prompts), ensure_ascii=False)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
    except (TypeError, ValueError, RecursionError) as error:
        said = f"was not asked, since the item cannot be written as JSON ({error})"
        raise Refused(said, divisible=True) from None


class _Refusal(msgspec.Struct):
    """What a reward service says of a refusal. A detail that is no text, as of other servers, may hold the item."""

    detail: str


def refusal(status: int, retry_after: str, answer: bytes) -> ClientError:
    """The error for an answer with an HTTP status of 400 or more, from its header Retry-After and its body."""
    try:
        said = _decoded(answer, _Refusal).detail[:300].rstrip(".")
    except BadAnswer:
        said = ""
    if status in (408, 429) or status >= 500:
        return Unavailable(
            f"answered HTTP {status}" + (f": {said}" if said else ""),
            divisible=status not in (408, 429, 502, 503, 504),  # it is not just busy
            retry_after=float(retry_after) if retry_after.isdecimal() else 0.0,  # it may be a date
        )
    cause, todo = REFUSALS.get(status, (Cause.ITEM, "check the service's log"))
    hint = f"{said}; {todo}" if said else todo
    return Refused(f"refused the request with HTTP {status} ({hint})", cause, divisible=status in (413, 422))
