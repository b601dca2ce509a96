"""The rollouts that tests/adapters feeds to every trainer, in this one: the same advantages and gradients."""

import pytest
import torch
from openrlhf.models.loss import PolicyLoss

from openrlhf_gtpo.algorithms.estimators import grpo_s, gtpo
from openrlhf_gtpo.policy.loss import SequenceRatioLoss

from ..adapters import same_rollouts
from ..adapters.same_rollouts import CLIP, CORRECT, ENTROPY, GROUP, MASK, NEW, OLD, PENALTY
from .algorithms.rollout_batches import of_tensors

ESTIMATORS = {"gtpo": (gtpo, PolicyLoss), "grpo_s": (grpo_s, SequenceRatioLoss)}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_plugin_gives_the_advantages_and_the_gradient_of_every_trainer(name: str) -> None:
    estimate, loss = ESTIMATORS[name]
    mask, correct, penalty = torch.tensor(MASK).bool(), torch.tensor(CORRECT), torch.tensor(PENALTY)
    old, new = torch.tensor(OLD), torch.tensor(NEW, requires_grad=True)
    tensors = {"entropy": torch.tensor(ENTROPY), "mask": mask, "correct": correct, "group": torch.tensor(GROUP)}
    batch = of_tensors(**tensors, reward=correct.float())
    batch.reward = batch.given_reward + penalty
    advantages = estimate(batch).advantages
    torch.testing.assert_close(advantages, torch.tensor(same_rollouts.expected(name)), rtol=0, atol=1e-6)
    loss(clip_eps_low=CLIP[0], clip_eps_high=CLIP[1])(new, old, advantages, action_mask=mask)[0].backward()
    expected = torch.tensor(same_rollouts.expected_gradient(name))
    torch.testing.assert_close(new.grad, expected, rtol=0, atol=1e-7)
