"""Saved groups for the token view: Figure 1 of the paper with one's own data."""

import math
import re
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

MAX_GROUPS = 40
"""Most groups in a page; more would make the file slow to open."""
MAX_TOKENS = 400_000
"""Most tokens of all groups but one: 20 MB."""
VALUES = ("entropy", "shaped_reward", "advantage")
"""Values of a token; it has a shaped reward only with our estimators."""
ROUNDING = 1e-5
"""Relative difference from a mean (absolute for means below 1) that counts as rounding: rollouts.jsonl has seven
digits."""
MARKER = re.compile(
    r"(?:<\|[^<>|\n]{1,40}\|>|</?s>|<(?:start|end)_of_turn>|\[/?INST\])[ \t]*(?:(?:system|user|assistant|model)\b)?\n*"
)
"""A token that a chat template puts around messages, with the role behind it."""


def views(groups: Iterable[Sequence[dict[str, Any]]]) -> tuple[list[dict[str, Any]], int]:
    """Groups, which are lines of rollouts.jsonl, for the page: spread over the run and no more than fit, among them
    the one of all that `shows` most; and the place of that one."""
    shown: list[tuple[int, Sequence[dict[str, Any]]]] = []
    every = 1  # a group is kept of so many; doubled where there are too many
    most: tuple[int, Sequence[dict[str, Any]]] | None = None
    for number, group in enumerate(groups):
        if number % every == 0:
            shown.append((number, group))
        if most is None or shows(group) > shows(most[1]):
            most = number, group
        while len(shown) > MAX_GROUPS or (len(shown) > 1 and _tokens(shown) > MAX_TOKENS):
            shown, every = shown[::2], 2 * every
    if most is None:
        return [], 0
    if most[0] not in dict(shown):
        nearest = min(range(len(shown)), key=lambda place: abs(shown[place][0] - most[0]))
        shown[nearest] = most
    return [view(group) for _, group in shown], [number for number, _ in shown].index(most[0])


def shows(group: Sequence[dict[str, Any]]) -> tuple[int, int, int]:
    """How much a group tells about what the estimator does; a larger one tells more.

    Most tells one with two or more different correct responses and as many wrong ones, among which entropy divides a
    class's reward. Next is one with both classes, then any. Among equals it is the latest step's, then the one with
    the longest correct response.
    """
    correct = {tuple(line["tokens"]) for line in group if line["correct"]}
    wrong = {tuple(line["tokens"]) for line in group if line["correct"] is False}
    return min(len(correct), len(wrong), 2), group[0]["step"], max(map(len, correct), default=0)


def _tokens(groups: Sequence[tuple[int, Sequence[dict[str, Any]]]]) -> int:
    return sum(len(line["tokens"]) for _, group in groups for line in group)


def view(responses: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A group, which is lines of rollouts.jsonl, for the page: its responses, the numbers of correct (d) and wrong (h)
    responses that are active at each position, and the mean values of the tokens of each class.

    ``d[t]`` is the paper's d_{t+1}: the number of correct responses with more than t tokens. Equal responses are one,
    with their number as ``times``.
    """
    longest = max(len(line["tokens"]) for line in responses)
    classes = {
        name: [line for line in responses if line["correct"] is correct]
        for name, correct in (("correct", True), ("wrong", False), ("ungraded", None))
    }
    folded: list[dict[str, Any]] = []
    for line in responses:
        if same := next((one for one in folded if _equal(one, line)), None):
            same["times"] += 1
        else:
            own = {key: line[key] for key in ("correct", "tokens", *VALUES)}
            folded.append({**own, "guide": line.get("guide", False), "times": 1})
    return {
        "step": responses[0]["step"],
        "group": responses[0]["group"],
        "prompt": question(responses[0]["prompt"]),
        "label": responses[0]["label"],
        "size": len(responses),
        "right": len(classes["correct"]),
        "d": _active(classes["correct"], longest),
        "h": _active(classes["wrong"], longest),
        "classes": {name: _class(lines) if lines else None for name, lines in classes.items()},
        "responses": folded,
    }


def question(prompt: str) -> str:
    """A prompt without the tokens of its chat template."""
    return "\n".join(part for piece in MARKER.split(prompt) if (part := piece.strip()))


def _equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two responses have the same tokens, of the same class, with the same values but for rounding."""
    if any(one[key] != other[key] for key in ("tokens", "correct")) or one["guide"] != other.get("guide", False):
        return False
    pairs = [(one[name], other[name]) for name in VALUES if one[name] and other[name]]
    return all(
        math.isclose(x, y, rel_tol=ROUNDING, abs_tol=ROUNDING) for pair in pairs for x, y in zip(*pair, strict=True)
    )


def _active(lines: Sequence[dict[str, Any]], longest: int) -> list[int]:
    lengths = [len(line["tokens"]) for line in lines]
    return [sum(length > t for length in lengths) for t in range(longest)]


def _class(lines: Sequence[dict[str, Any]]) -> dict[str, dict[str, float] | None]:
    """For each value: the mean over the class's tokens, their standard deviation and the largest distance from the
    mean (both 0 if that is rounding), and the distance up to which it is rounding. None if no token has the value."""
    measured: dict[str, dict[str, float] | None] = {}
    for name in VALUES:
        values = [value for line in lines for value in line[name] or []]
        if not values:
            measured[name] = None
            continue
        mean = statistics.fmean(values)
        rounding = ROUNDING * max(1.0, abs(mean))
        reach = max(abs(value - mean) for value in values)
        reach = reach if reach > rounding else 0.0
        spread = math.sqrt(statistics.fmean((value - mean) ** 2 for value in values)) if reach else 0.0
        measured[name] = {"mean": mean, "spread": spread, "reach": reach, "rounding": rounding}
    return measured
