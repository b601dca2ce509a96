"""EDGE-GRPO's entropy-driven advantage (arXiv 2507.21848): by hand, against loops, and as properties."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from openrlhf_gtpo.algorithms.edge import edge
from openrlhf_gtpo.algorithms.estimators import Rollouts

from . import naive_rivals as naive
from .rollout_batches import batches, rollouts

moderate = settings(max_examples=50, deadline=None)


def test_it_has_the_papers_equations_advantages_by_hand() -> None:
    found = edge(rollouts([[0.1, 0.3], [0.6]], [True, False]), clip=None)
    # Mean entropies 0.2 and 0.6, the group's mean 0.4: divisors 0.5 and 1.5 of +-0.70711.
    expected = torch.tensor([[1.41421, 1.41421], [-0.47140, 0.0]])
    assert torch.allclose(found.advantages.float(), expected, atol=1e-5)
    assert found.metrics == {"edge/divisor_min": pytest.approx(0.5), "edge/divisor_max": pytest.approx(1.5)}


def test_the_clip_bounds_the_divisor() -> None:
    found = edge(rollouts([[0.1, 0.3], [0.6]], [True, False]), clip=[0.8, 1.25])
    expected = torch.tensor([[0.88388, 0.88388], [-0.56569, 0.0]])
    assert torch.allclose(found.advantages.float(), expected, atol=1e-5)


@moderate
@given(batch=batches(), clip=st.sampled_from([None, [0.5, 2.0]]))
def test_agrees_with_a_naive_reference(batch: Rollouts, clip: list[float] | None) -> None:
    plain = (tensor.tolist() for tensor in (batch.entropy, batch.mask, batch.reward, batch.group))
    expected = torch.tensor(naive.edge(*plain, clip), dtype=torch.float64)
    torch.testing.assert_close(edge(batch, clip=clip).advantages, expected, atol=1e-5, rtol=1e-5)


def test_the_confident_correct_response_learns_more_the_opposite_of_grpo_s() -> None:
    from openrlhf_gtpo.algorithms.estimators import grpo_s

    batch = rollouts([[0.1], [0.9], [0.5]], [True, True, False])
    ours, theirs = grpo_s(batch).advantages[:2, 0], edge(batch, clip=None).advantages[:2, 0]
    assert ours[0] < ours[1]
    assert theirs[0] > theirs[1]


def test_a_response_without_entropy_stays_finite() -> None:
    found = edge(rollouts([[0.0], [0.5], []], [True, False, True]), clip=None).advantages
    assert found.isfinite().all()
