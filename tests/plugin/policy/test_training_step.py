"""OpenRLHF's own training step with its loss and with ours: no Ray, no DeepSpeed, one process."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from openrlhf.models.loss import PolicyLoss
from openrlhf.trainer.ppo_utils.experience import Experience

from openrlhf_gtpo.policy.actor import PolicyTrainer
from openrlhf_gtpo.policy.loss import SequenceRatioLoss


class Policy(torch.nn.Module):
    """OpenRLHF's Actor: log-probabilities of two tokens a response, and their entropies where they are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([[-0.1, -1.9], [-0.4, -1.6]]))

    def forward(self, sequences: Any, action_mask: Any, **kwargs: Any) -> Any:
        return self.weight * 1, SimpleNamespace(entropy=-self.weight)


def trainer(loss: PolicyLoss) -> tuple[PolicyTrainer, list[torch.Tensor]]:
    """The policy's trainer without its constructor, and the losses that it goes back through."""
    losses: list[torch.Tensor] = []
    new: PolicyTrainer = object.__new__(PolicyTrainer)
    actor = SimpleNamespace(entropy_coef=None, aux_loss_coef=0.0)
    kl = SimpleNamespace(use_loss=False, init_coef=0.0)
    new.args = SimpleNamespace(
        actor=actor, algo=SimpleNamespace(kl=kl), train=SimpleNamespace(dynamic_batch_enable=False)
    )
    new.strategy = SimpleNamespace(
        args=new.args,
        ring_attn_group=None,
        accumulated_gradient=1,
        backward=lambda value, *rest: losses.append(value),
        optimizer_step=lambda *args, **kwargs: None,
        get_grad_norm=lambda model: 0.0,
        all_reduce=lambda data, op: data,
    )
    new.actor, new.actor_optim, new.ema_model, new.aux_loss = Policy(), None, None, False
    new.actor_scheduler = SimpleNamespace(get_last_lr=lambda: [0.0])
    new.actor_loss_fn = loss
    return new, losses


def step(new: PolicyTrainer, kl_weight: float = 0.0) -> dict[str, Any]:
    mask = torch.ones(2, 2)
    experience = Experience(
        sequences=torch.zeros(2, 3, dtype=torch.long),
        attention_mask=torch.ones(2, 3),
        action_mask=mask,
        action_log_probs=new.actor.weight.detach(),
        advantages=torch.tensor([[1.0, 1.0], [-1.0, -1.0]]),
        base_action_log_probs=REFERENCE,
        info={},
    )
    info = {"dp_size": 1, "batch_num_tokens": mask.sum(), "global_batch_size": torch.tensor(2.0)}
    return new.training_step(experience, kl_weight, 0, info)


REFERENCE = torch.tensor([[-0.3, -1.4], [-0.5, -1.2]])


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
@pytest.mark.parametrize("kind", [PolicyLoss, SequenceRatioLoss], ids=["gtpo", "grpo_s"])
def test_openrlhfs_unbiased_kl_gradient_is_added_to_either_objective(kind: type[PolicyLoss], estimator: str) -> None:
    gradients = []
    for weight in (0.0, 0.1):
        new, losses = trainer(kind())
        new.args.algo.kl = SimpleNamespace(use_loss=True, init_coef=0.1, estimator=estimator, unbiased_gradient=True)
        step(new, weight)
        gradients.append(torch.autograd.grad(losses[0], new.actor.weight)[0])
    # That of the reverse KL over four tokens of an unchanged policy: log(policy / reference) at each.
    expected = 0.1 / 4 * (new.actor.weight.detach() - REFERENCE)
    torch.testing.assert_close(gradients[1] - gradients[0], expected)
