"""Entropy advantage (Cheng et al., arXiv 2506.14758): by hand, against loops, and as properties."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from openrlhf_gtpo.algorithms.entropy_advantage import entropy_advantage
from openrlhf_gtpo.algorithms.estimators import Rollouts, group_norm

from . import naive_rivals as naive
from .rollout_batches import batches, rollouts

moderate = settings(max_examples=50, deadline=None)


def test_it_has_the_papers_equations_advantages_by_hand() -> None:
    found = entropy_advantage(rollouts([[0.5, 4.0], [1.0]], [True, False]), alpha=0.4, kappa=2.0)
    # Group norm of (1, 0) is +-0.70711; bounds 0.35355; bonuses min(0.2, .), min(1.6, .) and min(0.4, .).
    expected = torch.tensor([[0.90711, 1.06066], [-0.35355, 0.0]])
    assert torch.allclose(found.advantages.float(), expected, atol=1e-5)
    assert found.metrics == {
        "entropy_advantage/bonus_mean": pytest.approx((0.2 + 0.35355 + 0.35355) / 3, abs=1e-5),
        "entropy_advantage/bounded_share": pytest.approx(2 / 3),
    }


@moderate
@given(batch=batches(), alpha=st.floats(0, 3), kappa=st.floats(1.1, 5))
def test_agrees_with_a_naive_reference(batch: Rollouts, alpha: float, kappa: float) -> None:
    plain = (tensor.tolist() for tensor in (batch.entropy, batch.mask, batch.reward, batch.group))
    expected = torch.tensor(naive.entropy_advantage(*plain, alpha, kappa))
    found = entropy_advantage(batch, alpha=alpha, kappa=kappa).advantages
    torch.testing.assert_close(found.float(), expected, atol=1e-5, rtol=1e-5)


@moderate
@given(batch=batches(), alpha=st.floats(0, 30), kappa=st.floats(1.01, 5))
def test_no_advantage_changes_its_sign_or_gains_more_than_its_bound(
    batch: Rollouts, alpha: float, kappa: float
) -> None:
    plain = group_norm(batch).advantages
    found = entropy_advantage(batch, alpha=alpha, kappa=kappa).advantages
    assert torch.equal(found.sign(), plain.sign())
    assert (found >= plain).all()
    assert (found - plain <= plain.abs() / kappa + 1e-6).all()


def test_groups_without_contrast_stay_without_advantage() -> None:
    found = entropy_advantage(rollouts([[3.0], [2.0]], [True, True]), alpha=0.4, kappa=2.0)
    assert (found.advantages == 0).all()
    assert found.metrics == {}


@pytest.mark.parametrize("impossible", [-0.5, math.nan])
def test_an_impossible_entropy_is_refused_with_its_place(impossible: float) -> None:
    batch = rollouts([[0.5], [0.5, impossible]], [True, False])
    batch.mask[1, 1] = True
    with pytest.raises(ValueError, match=f"{impossible} in response 1, column 1"):
        entropy_advantage(batch, alpha=0.4, kappa=2.0)
