"""Clip-Cov's and KL-Cov's objectives (arXiv 2505.22617): by hand, against loops, in micro-batches and over ranks."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from openrlhf_gtpo.policy.covariance_loss import ClipCovLoss, CovarianceLoss, KLCovLoss

from ..algorithms import naive_rivals as naive

F64 = torch.float64
LOW, HIGH = 0.2, 0.28


def loss_of(loss: CovarianceLoss, **numbers: float) -> CovarianceLoss:
    """With the clip of the tests, and numbers as OpenRLHF's replay buffer hands them on, a list of one for each of up
    to 9 responses."""
    loss.clip_eps_low, loss.clip_eps_high = LOW, HIGH
    names = {"logprob": "covariance/logprob_mean", "advantage": "covariance/advantage_mean"}
    names |= {"chance": "clip_cov/chance", "threshold": "kl_cov/threshold"}
    loss.numbers = {names[name]: value for name, value in numbers.items()}
    return loss


def call(loss: CovarianceLoss, *arguments: torch.Tensor, **batch: Any) -> Any:
    rows = len(arguments[0])
    loss.info = {name: [torch.tensor(value)] * rows for name, value in loss.numbers.items()}
    return loss(*arguments, **batch)


@st.composite
def batches(draw: st.DrawFn) -> tuple[torch.Tensor, ...]:
    """log_probs, old_log_probs, advantages and mask of up to 5 responses; values in hundredths."""
    n, t = draw(st.integers(1, 5)), draw(st.integers(1, 5))

    def table(low: int, high: int) -> torch.Tensor:
        values = draw(st.lists(st.integers(low, high), min_size=n * t, max_size=n * t))
        return torch.tensor(values, dtype=F64).reshape(n, t) / 100

    old, moved = table(-300, 0), table(-40, 40)
    mask = table(0, 100) > 0.3
    mask[0, 0] = True
    return (old + moved).requires_grad_(), old, table(-200, 200), mask.long()


def covariances(log_probs: torch.Tensor, advantages: torch.Tensor, logprob: float, advantage: float) -> torch.Tensor:
    return ((log_probs - logprob) * (advantages - advantage)).detach()


def test_clip_cov_cuts_the_token_between_the_bounds_worked_out_by_hand() -> None:
    # Deviations of log-probabilities 0.9, -0.1, -1.1 and of advantages 2, 2, -1: covariances 1.8, -0.2, 1.1.
    new = torch.tensor([[-0.1, -1.1, -2.1]], dtype=F64, requires_grad=True)
    advantages = torch.tensor([[2.0, 2.0, -1.0]], dtype=F64)
    loss = loss_of(ClipCovLoss([1.5, 5.0]), logprob=-1.0, advantage=0.0, chance=1.0)
    value, clipped, *_ = call(loss, new, new.detach(), advantages, torch.ones(1, 3))
    # An unchanged policy: ratios 1, so minus the mean of the advantages 0, 2 and -1.
    assert value.item() == pytest.approx(-1 / 3)
    (gradient,) = torch.autograd.grad(value, new)
    assert gradient[0].tolist() == pytest.approx([0.0, -2 / 3, 1 / 3])
    assert clipped.item() == 0
    assert loss.info["clip_cov/cut_share"].item() == pytest.approx(1 / 3)
    assert loss.info["clip_cov/between_share"].item() == pytest.approx(1 / 3)


def test_clip_cov_leaves_alone_what_ppo_clips_already() -> None:
    new = torch.tensor([[0.5, 0.0]], dtype=F64)  # the ratio e^0.5 is above 1.28
    loss = loss_of(ClipCovLoss([0.1, 5.0]), logprob=-1.0, advantage=0.0, chance=1.0)
    value, clipped, *_ = call(loss, new, torch.zeros(1, 2, dtype=F64), torch.ones(1, 2, dtype=F64), torch.ones(1, 2))
    assert value.item() == pytest.approx(-1.28 / 2), "the first is clipped, the second cut"
    assert clipped.item() == 0.5
    assert loss.info["clip_cov/cut_share"].item() == 0.5


@settings(max_examples=50, deadline=None)
@given(batches())
def test_clip_cov_agrees_with_a_naive_reference(batch: tuple[torch.Tensor, ...]) -> None:
    new, old, advantages, mask = batch
    found = covariances(new, advantages, -1.003, 0.203)
    loss = loss_of(ClipCovLoss([0.10005, 1.00005]), logprob=-1.003, advantage=0.203, chance=1.0)
    value = call(loss, new, old, advantages, mask)[0]
    kept = [
        [
            0.0 if 0.10005 < c < 1.00005 and min(max(r, 1 - LOW), 1 + HIGH) * a >= r * a else a
            for c, a, r in zip(*rows, strict=True)
        ]
        for rows in zip(found.tolist(), advantages.tolist(), (new - old).exp().tolist(), strict=True)
    ]
    expected = naive.clipped_loss(new.tolist(), old.tolist(), kept, mask.tolist(), LOW, HIGH)
    assert value.item() == pytest.approx(expected, abs=1e-9)


def test_clip_cov_cuts_as_many_as_the_chance_says_whatever_the_micro_batches() -> None:
    """20,000 tokens all between the bounds, one response at a time: 3 % are cut, within 5 standard deviations."""
    loss = loss_of(ClipCovLoss([0.0, 5.0]), logprob=-2.0, advantage=-1.0, chance=0.03)
    ones = torch.ones(1, 100)
    shares = []
    for _ in range(200):
        call(loss, -ones, -ones, ones, ones)
        shares.append(loss.info["clip_cov/cut_share"].item())
    assert sum(shares) / 200 == pytest.approx(0.03, abs=5 * (0.03 * 0.97 / 20_000) ** 0.5)
    assert len(set(shares)) > 1


def test_clip_cov_cuts_the_same_tokens_on_ranks_that_share_a_sequence() -> None:
    torch.manual_seed(7)
    ranks = [loss_of(ClipCovLoss([0.0, 5.0]), logprob=-2.0, advantage=-1.0, chance=0.5) for _ in range(2)]
    new = -torch.ones(2, 50)
    gradients = []
    for loss in ranks:
        torch.rand(len(gradients) * 3)  # what else a rank draws does not matter
        own = new.clone().requires_grad_()
        gradients.append(torch.autograd.grad(call(loss, own, new, torch.ones(2, 50), torch.ones(2, 50))[0], own)[0])
    assert torch.equal(*gradients)
    assert 0 < (gradients[0] == 0).sum() < 100


def test_kl_cov_adds_the_penalty_to_the_highest_covariances_worked_out_by_hand() -> None:
    new = torch.tensor([[-0.1, -1.1, -2.1]], dtype=F64, requires_grad=True)
    old = torch.tensor([[-0.2, -1.1, -2.1]], dtype=F64)
    advantages = torch.tensor([[2.0, 2.0, -1.0]], dtype=F64)
    loss = loss_of(KLCovLoss(coef=0.5), logprob=-1.0, advantage=0.0, threshold=1.5)
    loss.clip_eps_low = loss.clip_eps_high = 1e9
    value = call(loss, new, old, advantages, torch.ones(1, 3))[0]
    ratio = 1.1051709
    assert value.item() == pytest.approx((-2 * ratio - 2 + 1 + 0.5 * 0.1) / 3, abs=1e-6)
    (gradient,) = torch.autograd.grad(value, new)
    assert gradient[0].tolist() == pytest.approx([(-2 * ratio + 0.5) / 3, -2 / 3, 1 / 3], abs=1e-6)
    assert loss.info["kl_cov/penalised_share"].item() == pytest.approx(1 / 3)
    assert loss.info["kl_cov/penalty"].item() == pytest.approx(0.05 / 3)


@settings(max_examples=50, deadline=None)
@given(batches())
def test_kl_cov_agrees_with_a_naive_reference(batch: tuple[torch.Tensor, ...]) -> None:
    new, old, advantages, mask = batch
    loss = loss_of(KLCovLoss(coef=0.7), logprob=-1.003, advantage=0.203, threshold=0.20005)
    value = call(loss, new, old, advantages, mask)[0]
    chosen = (covariances(new, advantages, -1.003, 0.203) >= 0.20005) & mask.bool()
    penalties = [
        abs(x - y)
        for x, y, c in zip(new.flatten().tolist(), old.flatten().tolist(), chosen.flatten().tolist(), strict=True)
        if c
    ]
    expected = naive.clipped_loss(new.tolist(), old.tolist(), advantages.tolist(), mask.tolist(), LOW, HIGH)
    assert value.item() == pytest.approx(expected + 0.7 * sum(penalties) / int(mask.sum()), abs=1e-9)


@pytest.mark.parametrize("make", [lambda: ClipCovLoss([0.0, 9.0]), lambda: KLCovLoss(coef=0.3)], ids=["clip", "kl"])
def test_micro_batches_and_ranks_add_up_to_the_whole_batch(make: Any) -> None:
    generator = torch.Generator().manual_seed(3)
    new, old, advantages = (torch.randn(6, 4, generator=generator, dtype=F64) for _ in range(3))
    mask = torch.ones(6, 4)
    mask[1, 2:] = 0
    numbers = {"logprob": 0.1, "advantage": 0.2, "chance": 1.0, "threshold": 0.3}
    whole = call(loss_of(make(), **numbers), new, old, advantages, mask)[0]
    tokens = mask.sum()
    parts = [
        call(loss_of(make(), **numbers), *(x[rows] for x in (new, old, advantages, mask)), batch_num_tokens=tokens)[0]
        for rows in (slice(0, 1), slice(1, 4), slice(4, 6))
    ]
    torch.testing.assert_close(sum(parts), whole)
    halves = [
        call(
            loss_of(make(), **numbers),
            *(x[rows] for x in (new, old, advantages, mask)),
            batch_num_tokens=tokens,
            dp_size=2,
        )[0]
        for rows in (slice(0, 3), slice(3, 6))
    ]
    torch.testing.assert_close(sum(halves) / 2, whole)
