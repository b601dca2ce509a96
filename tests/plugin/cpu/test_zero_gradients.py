"""Which micro-batches need no backward pass: none whose gradient, or whose turn, would be missed."""

from types import SimpleNamespace
from typing import Any

import openrlhf.trainer.ray.ppo_actor as ppo_actor
import pytest
import torch

from openrlhf_gtpo.cpu.zero_gradients import CpuPolicyTrainer


@pytest.mark.parametrize(
    ("changes", "goes_back"),
    [
        ({}, False),
        ({"advantages": [0.0, 0.0, -0.25]}, True),
        ({"last": True}, True),
        ({"ranks": 2}, True),
        ({"args__ds__zero_stage": 3}, True),
        ({"args__ds__adam_offload": True}, True),
        ({"args__train__dynamic_batch_enable": True}, True),
        ({"args__algo__kl__use_loss": True}, True),
        ({"args__actor__entropy_coef": 0.01}, True),
        ({"args__actor__entropy_coef": 0.0}, False),
        ({"aux_loss": True}, True),
    ],
)
def test_the_backward_pass_is_left_out_only_where_it_adds_zero(
    changes: dict[str, Any], goes_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"ds": {"zero_stage": 2, "adam_offload": False}, "train": {"dynamic_batch_enable": False}}
    names |= {"algo": {"kl": {"use_loss": False}}, "actor": {"entropy_coef": None}}
    for name, value in changes.items():
        if name.startswith("args__"):
            *path, last = name.split("__")[1:]
            at: dict[str, Any] = names
            for part in path:
                at = at[part]
            at[last] = value
    done: list[str] = []
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: changes.get("ranks", 1))
    monkeypatch.setattr(ppo_actor.ActorPPOTrainer, "training_step", training_step_of_openrlhf)
    trainer = object.__new__(CpuPolicyTrainer)
    trainer.args, trainer.aux_loss = spaces(names), changes.get("aux_loss", False)
    trainer.actor = SimpleNamespace(
        model=SimpleNamespace(is_gradient_accumulation_boundary=lambda: changes.get("last", False))
    )
    trainer.strategy = SimpleNamespace(
        backward=lambda loss: done.append("backward" if loss.requires_grad else "nothing to do"),
        optimizer_step=lambda: done.append("step"),
    )
    experience = SimpleNamespace(advantages=torch.tensor([changes.get("advantages", [0.0, 0.0, 0.0])]))
    assert trainer.training_step(experience, 0.0, 1) == {"policy_loss": 0.5}
    assert done == (["backward", "step"] if goes_back else ["step"])


def training_step_of_openrlhf(self: Any, experience: Any, kl_ctl: float, step: int) -> dict[str, float]:
    loss = torch.nn.Parameter(torch.tensor(0.5)) * 1
    self.strategy.backward(loss)
    self.strategy.optimizer_step()
    return {"policy_loss": loss.item()}


def spaces(names: dict[str, Any]) -> SimpleNamespace:
    return SimpleNamespace(**{name: spaces(of) if isinstance(of, dict) else of for name, of in names.items()})
