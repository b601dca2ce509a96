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
    """Groups, which are lines of rollouts.jsonl, for the page: spread over the run and no more than fit; and the place
    of a typical one: of those with correct and wrong responses, whose advantages are spread as far as in the median
    group."""
    shown: list[Sequence[dict[str, Any]]] = []
    every = 1  # a group is kept of so many; doubled where there are too many
    for number, group in enumerate(groups):
        if number % every == 0:
            shown.append(group)
        while len(shown) > MAX_GROUPS or (len(shown) > 1 and _tokens(shown) > MAX_TOKENS):
            shown, every = shown[::2], 2 * every
    found = [view(group) for group in shown]
    mixed = [place for place, one in enumerate(found) if one["classes"]["correct"] and one["classes"]["wrong"]]
    ranked = sorted(mixed or range(len(found)), key=lambda place: _spread(found[place]))
    return found, ranked[len(ranked) // 2] if ranked else 0


def _tokens(groups: Sequence[Sequence[dict[str, Any]]]) -> int:
    return sum(len(line["tokens"]) for group in groups for line in group)


def _spread(group: dict[str, Any]) -> float:
    """How far advantages are spread in the class where they are spread most."""
    return max((about["advantage"]["spread"] for about in group["classes"].values() if about), default=0.0)


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
