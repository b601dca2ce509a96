"""The rivals and controls of docs/examples, as functions of one's own, against their papers' equations in loops."""

from pathlib import Path

import pytest
import torch
from hypothesis import given

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
