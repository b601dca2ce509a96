"""The metrics that other trainers log, of a batch worked out by hand."""

import pytest
import torch

from openrlhf_gtpo.shaping import Shaped
from openrlhf_gtpo.trainers.metrics import shaping_metrics

N = 7


def metrics(correct: list[int], without_tokens: list[int], groups: list[int]) -> dict[str, float]:
    """Of responses with two columns, of which the second counts only in the first response."""
    mask = torch.zeros(N, 2, dtype=torch.bool)
    mask[:, 0], mask[0, 1] = True, True
    mask[without_tokens] = False
    entropy = torch.arange(N * 2, dtype=torch.float).reshape(N, 2)
    right = torch.tensor([row in correct for row in range(N)])
    shaped = Shaped(advantages=torch.full((N, 2), torch.nan), rewards=10 * entropy, informative=right)
    return shaping_metrics(entropy, mask, right, torch.tensor(groups), shaped)


def test_means_are_over_tokens_and_shares_over_groups_that_have_any():
    # Group 0 has both verdicts, 1 is all correct, 2 all wrong, and 3 has no tokens.
    found = metrics(correct=[0, 2, 3], without_tokens=[6], groups=[0, 0, 1, 1, 2, 2, 3])

    assert found == pytest.approx(
        {
            "entropy/token_mean": (0 + 1 + 2 + 4 + 6 + 8 + 10) / 7,
            "entropy/correct_token_mean": (0 + 1 + 4 + 6) / 4,
            "entropy/wrong_token_mean": (2 + 8 + 10) / 3,
            "shaped_reward/mean": 310 / 7,
            "shaped_reward/correct_mean": 110 / 4,
            "shaped_reward/wrong_mean": 200 / 3,
            "groups/all_correct_share": 1 / 3,
            "groups/all_wrong_share": 1 / 3,
            "groups/uninformative_share": 2 / 3,
        }
    )


def test_a_class_without_tokens_has_no_mean_and_a_batch_without_tokens_nothing():
    assert "entropy/correct_token_mean" not in metrics(correct=[], without_tokens=[], groups=[0] * N)
    assert metrics(correct=[0], without_tokens=list(range(N)), groups=[0] * N) == {}
