"""The entropy bonus in the policy's process: what it measures of an update, over micro-batches and ranks."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from openrlhf.trainer.ppo_utils.experience import Experience

from openrlhf_gtpo.policy.entropy_bonus import EntropyBonus
from openrlhf_gtpo.policy.objective import update_parts

from ..nested import with_settings


class Policy(torch.nn.Module):
    """OpenRLHF's Actor, as far as its outputs are read: entropies of all tokens but the last."""

    def forward(self, entropy: torch.Tensor, return_output: bool = False) -> Any:
        log_probs = -entropy
        return (log_probs, SimpleNamespace(entropy=entropy)) if return_output else log_probs


class Ranks:
    """Stands in for DeepSpeed's strategy: its arguments, and the sum over this rank and what another one holds."""

    def __init__(self, other: dict[str, float], **flags: Any) -> None:
        self.other, self.args = other, arguments(**flags)

    def all_reduce(self, data: dict[str, float], op: str) -> dict[str, float]:
        assert op == "sum"
        return {name: value + self.other[name] for name, value in data.items()}


def arguments(**changes: Any) -> SimpleNamespace:
    flags = {"entropy_target": 0.5, "entropy_coef": None, "entropy_coef_delta": 0.1}
    flags |= {"entropy_coef_min": 0.0, "entropy_coef_max": 1.0}
    return with_settings(SimpleNamespace(actor=SimpleNamespace(**{**flags, **changes})))


def bonus_of(policy: Policy, strategy: Ranks) -> EntropyBonus:
    (bonus,) = update_parts(strategy, policy)
    return bonus


def test_an_updates_entropy_is_the_mean_over_the_tokens_of_all_micro_batches_and_ranks() -> None:
    policy, strategy = Policy(), Ranks({"sum": 1.2, "tokens": 2.0})
    bonus = bonus_of(policy, strategy)
    # Prompt tokens and padding have entropies too: of these four columns the last two are the response's.
    entropy = torch.tensor([[9.0, 9.0, 0.2, 0.4], [9.0, 9.0, 0.6, 9.0]])
    for updated in (False, True):
        micro_batch = Experience(action_mask=torch.tensor([[1, 1], [1, 0]]), info={})
        bonus.begin(micro_batch)
        assert strategy.args.actor.entropy_coef == 0.0, "OpenRLHF computes entropies where this is a number"
        assert micro_batch.info["entropy_bonus/coefficient"].item() == 0.0
        policy(torch.full((2, 4), 7.0))  # old log-probabilities: another kind of call, not counted
        policy(entropy, return_output=True)
        bonus.end(micro_batch, updated=updated)
    # 1.2 of 3 tokens, twice, and the other rank's 1.2 of 2.
    assert bonus.controller.entropy == pytest.approx(3.6 / 8)
    bonus.begin(micro_batch)
    assert strategy.args.actor.entropy_coef == pytest.approx(0.1)
    assert micro_batch.info["entropy_bonus/coefficient"].item() == pytest.approx(0.1)


def test_an_update_counts_its_own_micro_batches_only() -> None:
    policy = Policy()
    bonus = bonus_of(policy, Ranks({"sum": 0.0, "tokens": 0.0}))
    for entropy in (0.1, 0.9):
        policy(torch.full((1, 3), entropy), return_output=True)
        bonus.end(Experience(action_mask=torch.ones(1, 3)), updated=True)
        assert bonus.controller.entropy == pytest.approx(entropy)


def test_without_a_target_there_is_no_bonus_and_the_first_coefficient_is_openrlhfs_flag() -> None:
    assert update_parts(Ranks({}, entropy_target=None), Policy()) == []
    assert bonus_of(Policy(), Ranks({}, entropy_coef=0.3)).controller.applied == 0.3
