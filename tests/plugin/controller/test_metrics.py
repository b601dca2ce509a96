"""The statistics of a rollout batch, against a second implementation by loops over plain numbers."""

import math
import statistics
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from openrlhf_gtpo.controller.metrics import rollout_metrics

Table = list[list[float]]


def naive_metrics(
    tables: dict[str, Table], mask: list[list[bool]], correct: list[bool] | None, ends: list[int]
) -> dict[str, float]:
    """Of tokens and responses; quantiles are between the two values beside them."""
    found: dict[str, float] = {}
    classes: dict[str, list[bool]] = {"": [True] * len(mask)}
    if correct is not None:
        classes |= {"correct_": correct, "wrong_": [not one for one in correct]}
    for prefix, rows in classes.items():
        of = {
            name: [_on(row, on) for row, on, own in zip(table, mask, rows, strict=True) if own]
            for name, table in tables.items()
        }
        if not any(of["entropy"]):
            continue
        entropy = sorted(value for row in of["entropy"] for value in row)
        found[f"entropy/{prefix}token_mean"] = statistics.fmean(entropy)
        for percent in (10, 50, 90):
            place = (len(entropy) - 1) * percent / 100
            low, high = entropy[math.floor(place)], entropy[math.ceil(place)]
            found[f"entropy/{prefix}token_q{percent}"] = low + (high - low) * (place - math.floor(place))
        found[f"entropy/{prefix}response_mean"] = statistics.fmean(
            statistics.fmean(row) for row in of["entropy"] if row
        )
        found[f"response_length/{prefix}mean"] = statistics.fmean(len(row) for row in of["entropy"])
        measures: dict[str, Callable[[list[float]], float]] = {
            "mean": statistics.fmean,
            "std": statistics.pstdev,
            "min": min,
            "max": max,
        }
        for subject in ("advantage", "shaped_reward"):
            values = [value for row in of[subject] for value in row]
            found |= {f"{subject}/{prefix}{name}": measure(values) for name, measure in measures.items()}
        against = {"correct_": ("negative", lambda a: a < 0), "wrong_": ("positive", lambda a: a > 0)}
        if prefix:
            sign, is_against = against[prefix]
            advantages = [value for row in of["advantage"] for value in row]
            found[f"advantage/{prefix}{sign}_share"] = sum(map(is_against, advantages)) / len(advantages)
    gaps = [
        abs(one - other)
        for rows in zip(tables["rollout"], tables["actor"], mask, strict=True)
        for one, other, on in zip(*rows, strict=True)
        if on
    ]
    if correct is not None:
        found |= naive_best_after_answer(tables["advantage"], mask, correct, ends)
        found |= naive_shaped_share(tables["shaped_reward"], mask, correct)
    return found | ({"mismatch/logprob_gap": statistics.fmean(gaps)} if gaps else {})


def naive_best_after_answer(
    advantages: Table, mask: list[list[bool]], correct: list[bool], ends: list[int]
) -> dict[str, float]:
    """Responses are in groups of four; a token from the column ``ends`` on stands after the answer."""
    wins: list[bool] = []
    for first in range(0, len(mask), 4):
        group = range(first, min(first + 4, len(mask)))
        if len({correct[i] for i in group}) == 1:
            continue
        paid = [(a, t >= ends[i]) for i in group for t, a in enumerate(advantages[i]) if mask[i][t]]
        best = max((a for a, after in paid if not after), default=-math.inf)
        wins.append(any(after and a > best for a, after in paid))
    somewhere = any(on and t >= end for row, end in zip(mask, ends, strict=True) for t, on in enumerate(row))
    return {"advantage/best_after_answer": statistics.fmean(wins)} if wins and somewhere else {}


def naive_shaped_share(rewards: Table, mask: list[list[bool]], correct: list[bool]) -> dict[str, float]:
    """Responses are in groups of four; the t-th tokens of those that are alike in being right are compared."""
    shaped: list[bool] = []
    for first in range(0, len(mask), 4):
        group = range(first, min(first + 4, len(mask)))
        if len({correct[i] for i in group}) == 1:
            continue
        paid = {i: _on(rewards[i], mask[i]) for i in group}
        pairs = [(paid[i], paid[j]) for i in group for j in group if correct[i] == correct[j]]
        shaped.append(any(abs(a - b) > 0.001 for one, other in pairs for a, b in zip(one, other, strict=False)))
    return {"groups/shaped_share": statistics.fmean(shaped)} if shaped else {}


def _on(row: list[float], on: list[bool]) -> list[float]:
    return [value for value, one in zip(row, on, strict=True) if one]


@st.composite
def rollouts(draw: Any) -> dict[str, Any]:
    n, t = draw(st.integers(1, 9)), draw(st.integers(1, 6))

    def table(values: Any) -> Any:
        return st.lists(st.lists(values, min_size=t, max_size=t), min_size=n, max_size=n)

    numbers = st.floats(-3, 3, width=32)
    return {
        "tables": {
            name: draw(table(numbers)) for name in ("entropy", "advantage", "shaped_reward", "rollout", "actor")
        },
        "mask": draw(table(st.booleans())),
        "correct": draw(st.none() | st.lists(st.booleans(), min_size=n, max_size=n)),
        "ends": draw(st.lists(st.integers(0, t), min_size=n, max_size=n)),
    }


@given(rollouts())
def test_agree_with_loops(batch: dict[str, Any]) -> None:
    tables = {name: torch.tensor(table) for name, table in batch["tables"].items()}
    n = len(batch["mask"])
    found = rollout_metrics(
        SimpleNamespace(
            counted=slice(None),
            entropy=tables["entropy"] * torch.tensor(batch["mask"]),
            mask=torch.tensor(batch["mask"]),
            correct=None if batch["correct"] is None else torch.tensor(batch["correct"]),
            group=torch.arange(n) // 4,
            penalty=torch.zeros(n),
            advantages=tables["advantage"],
            shaped_rewards=tables["shaped_reward"],
            logprob=tables["rollout"],
            actor_logprob=tables["actor"],
            after_answer=torch.tensor(batch["mask"])
            & (torch.arange(len(batch["mask"][0])) >= torch.tensor(batch["ends"])[:, None]),
        )
    )
    expected = naive_metrics(**batch)
    of_groups = {name for name in found if name.startswith(("groups/", "rollout/"))} - set(expected)
    assert set(found) - of_groups == set(expected)
    assert bool(of_groups) == (batch["correct"] is not None)
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=1e-5), name
