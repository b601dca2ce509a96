"""Rollout batches for tests of estimators, of tensors instead of responses: by hand, and drawn."""

import math
from typing import Any

import torch
from hypothesis import strategies as st

from openrlhf_gtpo.batch import RolloutBatch


def of_tensors(seed: int = 0, **tensors: torch.Tensor) -> RolloutBatch:
    """A batch whose tensors are these, whatever responses could have them; without penalties."""
    batch = RolloutBatch([], seed=seed)
    vars(batch).update(tensors)
    batch.given_reward = batch.reward
    return batch


def rollouts(
    entropy: list[list[float]], correct: list[bool], group: list[int] | None = None, seed: int = 0
) -> RolloutBatch:
    """Responses side by side from column 0, padded with NaN; log-probabilities are minus twice the entropies."""
    width = max(map(len, entropy))
    table = torch.tensor([row + [math.nan] * (width - len(row)) for row in entropy], dtype=torch.float64)
    return of_tensors(
        seed,
        entropy=table,
        logprob=-2 * table,
        mask=~table.isnan(),
        correct=torch.tensor(correct),
        group=torch.tensor(group or [0] * len(entropy)),
        reward=torch.tensor(correct).double(),
    )


@st.composite
def batches(draw: st.DrawFn) -> RolloutBatch:
    """Up to 9 responses of up to 3 groups with gaps, entropies in thousandths of a nat from 0 to 4."""
    n, t = draw(st.integers(1, 9)), draw(st.integers(1, 5))

    def table(values: st.SearchStrategy[Any]) -> torch.Tensor:
        return torch.tensor(draw(st.lists(values, min_size=n * t, max_size=n * t))).reshape(n, t)

    return of_tensors(
        entropy=table(st.integers(0, 4000)).double() / 1000,
        logprob=-table(st.integers(0, 9000)).double() / 1000,
        mask=table(st.booleans()),
        correct=torch.tensor(draw(st.lists(st.booleans(), min_size=n, max_size=n))),
        group=torch.tensor(draw(st.lists(st.sampled_from([-3, 5, 10**12]), min_size=n, max_size=n))),
        reward=torch.tensor(draw(st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=n, max_size=n))),
        seed=draw(st.integers(0, 2**31)),
    )
