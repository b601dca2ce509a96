"""Saved rollouts as groups for the token view: Figure 1 of the paper, made of one's own data."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

__all__ = ["MAX_GROUPS", "groups"]

MAX_GROUPS = 40
"""Groups that a report holds, spread over the steps: more would make the file slow to open."""


def groups(rollouts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The groups, each with its responses and with how many correct (d) and wrong (h) ones are alive at each position.

    ``d[t]`` is the paper's d_{t+1}: the number of correct responses with more than t tokens.
    """
    found = []
    for (step, group), lines in groupby(rollouts, key=lambda line: (line["step"], line["group"])):
        responses = list(lines)
        longest = max(len(line["tokens"]) for line in responses)
        found.append(
            {
                "step": step,
                "group": group,
                "prompt": responses[0]["prompt"],
                "label": responses[0]["label"],
                "d": _alive(responses, True, longest),
                "h": _alive(responses, False, longest),
                "responses": [
                    {
                        **{key: line[key] for key in ("correct", "tokens", "entropy", "shaped_reward", "advantage")},
                        "guide": line.get("guide", False),  # files of runs before there were guides
                    }
                    for line in responses
                ],
            }
        )
    if len(found) <= MAX_GROUPS:
        return found
    return [found[round(i * (len(found) - 1) / (MAX_GROUPS - 1))] for i in range(MAX_GROUPS)]


def _alive(responses: list[dict[str, Any]], correct: bool, longest: int) -> list[int]:
    lengths = [len(line["tokens"]) for line in responses if line["correct"] is correct]
    return [sum(length > t for length in lengths) for t in range(longest)]
