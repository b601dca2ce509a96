"""The numbers of the whole batch that Clip-Cov and KL-Cov (arXiv 2505.22617) work with."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings

from openrlhf_gtpo.algorithms.covariance import clip_cov, kl_cov
from openrlhf_gtpo.algorithms.estimators import Rollouts, group_norm

from . import naive_rivals as naive
from .rollout_batches import batches, rollouts

moderate = settings(max_examples=50, deadline=None)


def by_hand() -> Rollouts:
    """Advantages +-0.70711 with mean 0; log-probabilities with mean -1: deviations 0.9, 0.5, -0.5 and -0.9."""
    batch = rollouts([[1.0, 1.0], [1.0, 1.0]], [True, False])
    return dataclasses.replace(batch, logprob=torch.tensor([[-0.1, -0.5], [-1.5, -1.9]]))


def test_the_means_and_the_chance_are_worked_out_by_hand() -> None:
    # Covariances 0.636, 0.354, 0.354, 0.636; of four tokens a quarter is one, and two are above 0.5.
    found = clip_cov(by_hand(), share=0.25, bounds=[0.5, 5.0]).for_loss
    assert found == {
        "covariance/logprob_mean": pytest.approx(-1.0),
        "covariance/advantage_mean": pytest.approx(0.0, abs=1e-6),
        "clip_cov/chance": pytest.approx(0.5),
    }
    assert clip_cov(by_hand(), share=1.0, bounds=[0.5, 5.0]).for_loss["clip_cov/chance"] == 1.0
    assert clip_cov(by_hand(), share=0.25, bounds=[1.0, 5.0]).for_loss["clip_cov/chance"] == 0.0


def test_the_threshold_is_the_lowest_covariance_of_the_share_worked_out_by_hand() -> None:
    assert kl_cov(by_hand(), share=0.5).for_loss["kl_cov/threshold"] == pytest.approx(0.9 * 0.70711, abs=1e-5)
    assert kl_cov(by_hand(), share=0.75).for_loss["kl_cov/threshold"] == pytest.approx(0.5 * 0.70711, abs=1e-5)
    least = kl_cov(by_hand(), share=1e-9).for_loss["kl_cov/threshold"]
    assert least == pytest.approx(0.9 * 0.70711, abs=1e-5), "one token at least"


@moderate
@given(batch=batches())
def test_agrees_with_a_naive_reference(batch: Rollouts) -> None:
    if not batch.mask.any():
        assert clip_cov(batch, share=0.3, bounds=[0.1, 1.0]).for_loss == {}
        assert kl_cov(batch, share=0.3).for_loss == {}
        return
    plain = (tensor.tolist() for tensor in (batch.logprob, batch.mask, batch.reward, batch.group))
    # A hundredth beside the sampled values' grid, so that rounding decides nothing.
    found = sorted(naive.covariances(*plain).values(), reverse=True)
    top = max(1, int(0.3 * len(found)))
    assert kl_cov(batch, share=0.3).for_loss["kl_cov/threshold"] == pytest.approx(found[top - 1], abs=1e-5)
    low = (found[0] + found[-1]) / 2 + 1e-3
    between = sum(low < value < 1e6 for value in found)
    near = any(abs(value - low) < 1e-4 for value in found)
    chance = clip_cov(batch, share=0.3, bounds=[low, 1e6]).for_loss["clip_cov/chance"]
    assert near or chance == pytest.approx(min(1.0, 0.3 * len(found) / between) if between else 0.0)


@moderate
@given(batch=batches())
def test_their_advantages_are_grpos(batch: Rollouts) -> None:
    plain = group_norm(batch).advantages
    assert torch.equal(clip_cov(batch, share=0.3, bounds=[1.0, 5.0]).advantages, plain)
    assert torch.equal(kl_cov(batch, share=0.3).advantages, plain)
