"""LUFFY's shaped ratio on the guide's tokens, around OpenRLHF's own loss and GRPO-S's, against a plain loop."""

import functools
from collections.abc import Callable
from math import exp, fsum
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from openrlhf.models.loss import PolicyLoss
from openrlhf.trainer.ppo_utils.experience import Experience, make_experience_batch, split_experience_batch
from openrlhf.trainer.ray.ppo_actor import ActorPPOTrainer

from openrlhf_gtpo.guide.loss import ShapedGuideLoss
from openrlhf_gtpo.policy.actor import PolicyTrainer
from openrlhf_gtpo.policy.covariance_loss import KLCovLoss
from openrlhf_gtpo.policy.kept import KeptTokens
from openrlhf_gtpo.policy.loss import SequenceRatioLoss

from ..algorithms.naive_mixed_policy import clipped_objective

F64 = torch.float64
LOW, HIGH, GAMMA = 0.2, 0.28, 0.1
CLIP = {"clip_eps_low": LOW, "clip_eps_high": HIGH}
GUIDE = torch.tensor([False, True, False, True, True])
ADVANTAGES = [1.5, 0.7, -0.8, -1.1, 2.0]
LENGTHS = [3, 5, 4, 2, 1]


def batch(dtype: torch.dtype = F64) -> tuple[torch.Tensor, ...]:
    """log_probs, old_log_probs, advantages and mask; the ratios of the guide's tokens go from e^-4 to e^1."""
    random = torch.Generator().manual_seed(3)
    old = -3 * torch.rand(5, 5, generator=random, dtype=F64) - 0.1
    near = 0.6 * torch.rand(5, 5, generator=random, dtype=F64) - 0.3
    far = 5 * torch.rand(5, 5, generator=random, dtype=F64) - 4
    log_probs = old + torch.where(GUIDE[:, None], far, near)
    mask = torch.arange(5)[None] < torch.tensor(LENGTHS)[:, None]
    advantages = torch.tensor(ADVANTAGES, dtype=F64)[:, None].expand(5, 5)
    return log_probs.to(dtype).requires_grad_(), old.to(dtype), advantages.to(dtype), mask.long()


def shaped(loss: torch.nn.Module, guide: torch.Tensor = GUIDE) -> ShapedGuideLoss:
    found = ShapedGuideLoss(loss, GAMMA)
    found.guide = guide
    return found


def ratios(log_probs: torch.Tensor, old: torch.Tensor) -> list[list[float]]:
    """Of each response's tokens: r, and f(r) = r / (r + gamma) on the guide's."""
    found = []
    for new, before, n, is_guide in zip(log_probs.tolist(), old.tolist(), LENGTHS, GUIDE.tolist(), strict=True):
        row = [exp(a - b) for a, b in zip(new[:n], before[:n], strict=True)]
        found.append([r / (r + GAMMA) for r in row] if is_guide else row)
    return found


clipped = functools.partial(clipped_objective, low=LOW, high=HIGH)


def by_token(found: list[list[float]]) -> float:
    terms = [clipped(r, a) for row, a in zip(found, ADVANTAGES, strict=True) for r in row]
    return -fsum(terms) / len(terms)


def by_response(found: list[list[float]]) -> float:
    return -fsum(clipped(fsum(row) / len(row), a) for row, a in zip(found, ADVANTAGES, strict=True)) / len(found)


@pytest.mark.parametrize(("inner", "expected"), [(PolicyLoss, by_token), (SequenceRatioLoss, by_response)])
def test_the_guides_ratios_are_shaped_and_the_policys_are_not(
    inner: Any, expected: Callable[[list[list[float]]], float]
) -> None:
    log_probs, old, advantages, mask = batch()
    loss, *_ = shaped(inner(**CLIP))(log_probs, old, advantages, action_mask=mask)
    assert loss.item() == pytest.approx(expected(ratios(log_probs, old)), abs=1e-9)
    unshaped, *_ = inner(**CLIP)(log_probs, old, advantages, action_mask=mask)
    assert unshaped.item() != pytest.approx(loss.item(), abs=1e-2)


def test_the_gradient_on_a_guides_token_is_that_of_f() -> None:
    """d/dlog_prob of f(r) A is f'(r) r A, with f'(r) = gamma / (r + gamma)^2, unless a negative A is clipped."""
    log_probs, old, advantages, mask = batch()
    loss, *_ = shaped(PolicyLoss(**CLIP))(log_probs, old, advantages, action_mask=mask)
    (gradient,) = torch.autograd.grad(loss, log_probs)
    clipped_tokens = 0
    for i in GUIDE.nonzero().flatten().tolist():
        for t in range(LENGTHS[i]):
            r = exp((log_probs[i, t] - old[i, t]).item())
            expected = -GAMMA / (r + GAMMA) ** 2 * r * ADVANTAGES[i] / sum(LENGTHS)
            if ADVANTAGES[i] < 0 and r / (r + GAMMA) < 1 - LOW:
                clipped_tokens += 1
                expected = 0.0
            assert gradient[i, t].item() == pytest.approx(expected, rel=1e-7), (i, t)
    assert clipped_tokens, "a case of each kind"
    assert (gradient[mask == 0] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("inner", [PolicyLoss, SequenceRatioLoss])
def test_responses_that_are_not_the_guides_are_unchanged_bit_for_bit(inner: Any, dtype: torch.dtype) -> None:
    log_probs, old, advantages, mask = batch(dtype)
    loss = inner(**CLIP)
    found = shaped(loss, torch.zeros(5, dtype=torch.bool))(log_probs, old, advantages, action_mask=mask)
    expected = loss(log_probs, old, advantages, action_mask=mask)
    for one, other in zip(found, expected, strict=True):
        assert one is other is None or torch.equal(one, other)
    # Beside a guide's their gradients are those that they have without one.
    norm = {"batch_num_tokens": 15.0, "global_batch_size": 5.0}
    beside, *_ = shaped(loss)(log_probs, old, advantages, action_mask=mask, **norm)
    alone, *_ = loss(log_probs, old, advantages, action_mask=mask, **norm)
    gradients = [torch.autograd.grad(value, log_probs)[0][~GUIDE] for value in (beside, alone)]
    assert torch.equal(*gradients)
    assert gradients[0].any()


@pytest.mark.parametrize(
    "gate",
    [
        {"is_correction_gating": "ratio", "is_correction_threshold": [0.5, 2.0]},
        {"is_correction_gating": "tv", "is_correction_threshold": [0.0, 0.5]},
        {"is_correction_gating": "binary_kl", "is_correction_threshold": [0.0, 0.5]},
    ],
    ids=lambda gate: gate["is_correction_gating"],
)
@pytest.mark.parametrize("level", ["token", "seq"])
def test_with_the_importance_correction_a_guides_tokens_have_weight_one(level: str, gate: dict[str, Any]) -> None:
    log_probs, old, advantages, mask = batch()
    rollout = torch.where(GUIDE[:, None], old - 9, old - 0.1)  # of the guide's tokens it says nothing
    corrected = PolicyLoss(**CLIP, is_correction_level=level, **gate)
    loss, *_ = shaped(corrected)(log_probs, old, advantages, action_mask=mask, rollout_log_probs=rollout)
    terms = [
        (1.0 if is_guide else exp(0.1)) * clipped(r, a)
        for row, a, is_guide in zip(ratios(log_probs, old), ADVANTAGES, GUIDE.tolist(), strict=True)
        for r in row
    ]
    assert loss.item() == pytest.approx(-fsum(terms) / len(terms), abs=1e-9)


def test_a_positive_advantage_is_never_clipped_however_likely_the_token() -> None:
    log_probs = torch.tensor([[-0.01]], dtype=F64, requires_grad=True)
    old, one = torch.tensor([[-9.0]], dtype=F64), torch.ones(1, 1, dtype=F64)
    assert torch.autograd.grad(PolicyLoss(**CLIP)(log_probs, old, one, action_mask=one)[0], log_probs)[0] == 0
    loss, clip_ratio, *_ = shaped(PolicyLoss(**CLIP), torch.tensor([True]))(log_probs, old, one, action_mask=one)
    assert clip_ratio == 0
    assert torch.autograd.grad(loss, log_probs)[0] != 0


def test_before_every_step_the_loss_is_told_which_responses_are_the_guides(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[bool]] = []

    def training_step(self: Any, experience: Experience, *args: Any) -> str:
        if isinstance(self.actor_loss_fn, ShapedGuideLoss):
            seen.append(self.actor_loss_fn.guide.tolist())
        return "status"

    monkeypatch.setattr(ActorPPOTrainer, "training_step", training_step)
    trainer = object.__new__(PolicyTrainer)
    trainer.actor_loss_fn = ShapedGuideLoss(PolicyLoss(**CLIP), GAMMA)
    trainer.update_parts = []
    trainer.kept = KeptTokens(torch.nn.Identity(), packed=False)
    trainer.args = SimpleNamespace(train=SimpleNamespace(dynamic_batch_enable=False))
    trainer.strategy = SimpleNamespace(accumulated_gradient=1)
    ones, share = torch.ones(3, 4), torch.tensor([0.0, 1.0, 1.0])
    items = split_experience_batch(Experience(sequences=ones, attention_mask=ones, info={"guide/share": share}))
    for rows in ([0, 1], [2], [0]):  # as the replay buffer batches them
        assert trainer.training_step(make_experience_batch([items[i] for i in rows]), 0.0, 0) == "status"
    assert seen == [[False, True], [True], [False]]
    trainer.actor_loss_fn = PolicyLoss(**CLIP)
    assert trainer.training_step(make_experience_batch(items), 0.0, 0) == "status"


def test_a_loss_that_the_shaped_one_wraps_sees_the_micro_batch_too() -> None:
    loss = ShapedGuideLoss(KLCovLoss.like(PolicyLoss(**CLIP), coef=1.0), GAMMA)
    log_probs, old, advantages, mask = batch(torch.float32)
    ones = torch.ones(5, 6)
    numbers = ("covariance/logprob_mean", "covariance/advantage_mean", "kl_cov/threshold")
    info = {"guide/share": GUIDE.float(), **{name: torch.zeros(5) for name in numbers}}
    items = split_experience_batch(Experience(sequences=ones, attention_mask=ones, info=info))
    loss.see(make_experience_batch(items))
    assert torch.isfinite(loss(log_probs, old, advantages, action_mask=mask)[0])
