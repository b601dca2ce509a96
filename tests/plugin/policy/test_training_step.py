"""OpenRLHF's own training step with a loss of ours and with the entropy bonus: no Ray, no DeepSpeed, one process."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from openrlhf.models.loss import PolicyLoss
from openrlhf.trainer.ppo_utils.experience import Experience

from openrlhf_gtpo.algorithms.entropy_bonus import EntropyController
from openrlhf_gtpo.policy.actor import PolicyTrainer
from openrlhf_gtpo.policy.covariance_loss import ClipCovLoss, CovarianceLoss, KLCovLoss
from openrlhf_gtpo.policy.entropy_bonus import EntropyBonus
from openrlhf_gtpo.policy.kept import KeptTokens
from openrlhf_gtpo.policy.loss import LikeAnother, SequenceRatioLoss

NUMBERS = {"covariance/logprob_mean": -1.0, "covariance/advantage_mean": 0.0}
NUMBERS |= {"clip_cov/chance": 1.0, "kl_cov/threshold": 0.5}


class Policy(torch.nn.Module):
    """OpenRLHF's Actor: log-probabilities of two tokens a response, and their entropies where they are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([[-0.1, -1.9], [-0.4, -1.6]]))

    def forward(self, sequences: Any, action_mask: Any, *, return_entropy: bool = False, **kwargs: Any) -> Any:
        assert return_entropy
        return self.weight * 1, SimpleNamespace(entropy=-self.weight)


def trainer(loss: LikeAnother) -> tuple[PolicyTrainer, list[torch.Tensor]]:
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
    new.actor_loss_fn = loss.like(PolicyLoss(), **vars(loss).get("options", {}))
    new.update_parts = [EntropyBonus(EntropyController(target=9.0, coefficient=0.25), new.strategy, new.actor)]
    new.kept = KeptTokens(new.actor, packed=False)
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
        info={name: [torch.tensor(value)] * 2 for name, value in NUMBERS.items()},
    )
    info = {"dp_size": 1, "batch_num_tokens": mask.sum(), "global_batch_size": torch.tensor(2.0)}
    return new.training_step(experience, kl_weight, 0, info)


REFERENCE = torch.tensor([[-0.3, -1.4], [-0.5, -1.2]])


@pytest.mark.parametrize(
    ("kind", "options", "name", "share"),
    # Covariances 0.9, -0.9, -0.6, 0.6: two are above 0.5.
    [
        (ClipCovLoss, {"bounds": [0.5, 5.0]}, "clip_cov/cut_share", 0.5),
        (KLCovLoss, {"coef": 1.0}, "kl_cov/penalised_share", 0.5),
    ],
)
def test_the_loss_gets_the_batchs_numbers_and_the_step_logs_what_it_did(
    kind: type[CovarianceLoss], options: dict[str, Any], name: str, share: float
) -> None:
    loss = kind(**options)
    loss.options = options
    new, losses = trainer(loss)
    logged = step(new)["metrics"]
    assert logged[name].item() == share
    assert logged["entropy_bonus/coefficient"].item() == 0.25
    assert logged["entropy_loss"].item() == pytest.approx(1.0), "the mean of 0.1, 1.9, 0.4 and 1.6"
    # Advantages of an unchanged policy: 1 and 1, -1 and -1, of which Clip-Cov cuts the first and the last. The bonus
    # takes a quarter of the entropy off either loss.
    assert losses[0].item() == pytest.approx(-0.25)
    step(new)
    assert new.args.actor.entropy_coef == pytest.approx(0.255), "after an update below the target"


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
@pytest.mark.parametrize(
    ("kind", "options"),
    [(LikeAnother, {}), (SequenceRatioLoss, {}), (ClipCovLoss, {"bounds": [0.5, 5.0]}), (KLCovLoss, {"coef": 1.0})],
    ids=["gtpo", "grpo_s", "clip_cov", "kl_cov"],
)
def test_openrlhfs_unbiased_kl_gradient_is_added_to_the_objective_of_each_of_ours(
    kind: type[LikeAnother], options: dict[str, Any], estimator: str
) -> None:
    gradients = []
    for weight in (0.0, 0.1):
        loss = kind(**options)
        loss.options = options
        new, losses = trainer(loss)
        new.args.algo.kl = SimpleNamespace(use_loss=True, init_coef=0.1, estimator=estimator, unbiased_gradient=True)
        step(new, weight)
        gradients.append(torch.autograd.grad(losses[0], new.actor.weight)[0])
    # That of the reverse KL over four tokens of an unchanged policy: log(policy / reference) at each.
    expected = 0.1 / 4 * (new.actor.weight.detach() - REFERENCE)
    torch.testing.assert_close(gradients[1] - gradients[0], expected)
