"""The rivals and controls of docs/examples, as functions of one's own, against their papers' equations in loops."""

from pathlib import Path

import pytest
import torch
from hypothesis import given

from openrlhf_gtpo.algorithms.controls import permuted
from openrlhf_gtpo.algorithms.estimators import Estimate, estimator_named, small_batch
from openrlhf_gtpo.batch import RolloutBatch
from openrlhf_gtpo.shaping import gtpo

from . import naive_rivals
from .naive_weights import naive_weights
from .rollout_batches import batches

EXAMPLES = Path(__file__).resolve().parents[3] / "docs" / "examples"


def estimate(name: str, batch: RolloutBatch) -> Estimate:
    estimator = estimator_named(f"{EXAMPLES}/{name}")
    assert estimator is not None
    return estimator.function(batch)


@given(batches())
def test_entropy_advantage_and_edge_are_their_papers(batch: RolloutBatch) -> None:
    given = batch.entropy.tolist(), batch.mask.tolist(), batch.reward.tolist(), batch.group.tolist()
    expected = naive_rivals.entropy_advantage(*given, alpha=0.4, kappa=2.0)
    found = estimate("rivals.py:entropy_advantage", batch).advantages.tolist()
    assert found == [pytest.approx(row, abs=1e-5) for row in expected]
    found = estimate("rivals.py:edge", batch).advantages.tolist()
    assert found == [pytest.approx(row, rel=1e-4, abs=1e-4) for row in naive_rivals.edge(*given)]


@pytest.mark.parametrize("name", ["uniform", "surprisal", "inverse"])
def test_a_control_is_gtpo_with_other_values_in_the_place_of_entropies(name: str) -> None:
    batch = small_batch(8, seed=3)
    table = naive_weights(name, batch.entropy.tolist(), batch.logprob.tolist(), batch.mask.tolist())
    expected = gtpo(torch.tensor(table), batch.mask, batch.correct, batch.group).advantages
    torch.testing.assert_close(estimate(f"controls.py:{name}", batch).advantages, expected)
    assert not torch.allclose(expected, gtpo(batch.entropy, batch.mask, batch.correct, batch.group).advantages)


def test_shuffled_entropies_stay_in_their_position_group_and_class_and_repeat() -> None:
    batch = small_batch(16, seed=3)
    assert batch.correct is not None
    given = batch.entropy, batch.mask, batch.correct, batch.group
    mixed = permuted(*given)
    assert not torch.equal(mixed, batch.entropy)
    assert not mixed[~batch.mask].any()
    for group in batch.group.unique():
        for is_correct in (True, False):
            rows = (batch.group == group) & (batch.correct == is_correct)
            assert torch.equal(mixed[rows].sort(0).values, batch.entropy[rows].sort(0).values)
    expected = gtpo(mixed, *given[1:]).advantages
    for _ in range(2):
        torch.testing.assert_close(estimate("controls.py:shuffled", batch).advantages, expected)
