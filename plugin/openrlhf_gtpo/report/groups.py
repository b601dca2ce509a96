"""Turns saved rollouts into groups for the token view: Figure 1 of the paper with one's own data."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

MAX_GROUPS = 40
"""Most groups in a report; more would make the file slow to open."""

VALUES = ("entropy", "shaped_reward", "advantage")
"""Values of a token; it has a shaped reward only with our estimators."""

ROUNDING = 1e-5
"""Relative difference from a mean (absolute for means below 1) that counts as rounding: rollouts.jsonl has seven
digits."""


def shown(sizes: Sequence[int], most: int) -> list[int]:
    """Which groups a page shows: as many as fit, at most `MAX_GROUPS`, spread over the run.

    Args:
        sizes: bytes of each group, in order.
        most: bytes of all that are shown.

    Returns:
        Their numbers, ascending; empty if no group fits.
    """
    last = len(sizes) - 1
    for count in range(min(MAX_GROUPS, len(sizes)), 1, -1):
        chosen = [round(i * last / (count - 1)) for i in range(count)]
        if sum(sizes[place] for place in chosen) <= most:
            return chosen
    return [place for place in sorted(range(len(sizes)), key=lambda place: sizes[place])[:1] if sizes[place] <= most]


def view(responses: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A group for the page: its responses, the numbers of correct (d) and wrong (h) responses that are active at each
    position, and the mean values of the tokens of each class.

    ``d[t]`` is the paper's d_{t+1}: the number of correct responses with more than t tokens.

    Args:
        responses: the group's lines of rollouts.jsonl.
    """
    longest = max(len(line["tokens"]) for line in responses)
    return {
        "step": responses[0]["step"],
        "group": responses[0]["group"],
        "prompt": responses[0]["prompt"],
        "label": responses[0]["label"],
        "d": _active(responses, True, longest),
        "h": _active(responses, False, longest),
        "classes": {
            name: _class([line for line in responses if line["correct"] is correct])
            for name, correct in (("correct", True), ("wrong", False), ("ungraded", None))
        },
        "responses": [
            {
                **{key: line[key] for key in ("correct", "tokens", *VALUES)},
                "guide": line.get("guide", False),  # missing in files of early versions
            }
            for line in responses
        ],
    }


def _active(responses: Sequence[dict[str, Any]], correct: bool, longest: int) -> list[int]:
    lengths = [len(line["tokens"]) for line in responses if line["correct"] is correct]
    return [sum(length > t for length in lengths) for t in range(longest)]


def _class(responses: list[dict[str, Any]]) -> dict[str, dict[str, float] | None]:
    """For each value: the mean over the class's tokens, their standard deviation and the largest distance from the
    mean (both 0 if that is rounding), and the distance up to which it is rounding. None if no token has the value."""
    measured: dict[str, dict[str, float] | None] = {}
    for name in VALUES:
        values = [value for line in responses for value in line[name] or []]
        if not values:
            measured[name] = None
            continue
        mean = statistics.fmean(values)
        reach = max(abs(value - mean) for value in values)
        rounding = ROUNDING * max(1.0, abs(mean))
        if reach <= rounding:
            reach = 0.0
        spread = math.sqrt(statistics.fmean((value - mean) ** 2 for value in values)) if reach else 0.0
        measured[name] = {"mean": mean, "spread": spread, "reach": reach, "rounding": rounding}
    return measured
