"""GRPO-S's sequence-ratio objective. GTPO's, which is OpenRLHF's loss: tests/plugin/guide/test_mixed_experience.py."""

import math

import pytest
import torch
from openrlhf.models.loss import PolicyLoss

from openrlhf_gtpo.policy.loss import SequenceRatioLoss

F64 = torch.float64
CLIP = {"clip_eps_low": 0.2, "clip_eps_high": 0.28}


def batch_of(ratios, advantages, columns=None):
    """log_probs, old_log_probs, advantages and mask of responses with the given token ratios; rubbish off the mask."""
    columns = columns or max(map(len, ratios))
    old = torch.linspace(-3.0, -0.1, len(ratios) * columns, dtype=F64).reshape(len(ratios), columns)
    log_ratio = torch.full((len(ratios), columns), 2.5, dtype=F64)
    along = torch.full((len(ratios), columns), -77.0, dtype=F64)
    mask = torch.zeros(len(ratios), columns, dtype=torch.int64)
    for i, row in enumerate(ratios):
        log_ratio[i, : len(row)] = torch.tensor(row, dtype=F64).log()
        along[i, : len(row)] = advantages[i]
        mask[i, : len(row)] = 1
    return (old + log_ratio).requires_grad_(), old, along, mask


def random_batch(seed, n=6, t=5):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, t + 1, (n,), generator=generator).tolist()
    ratios = [torch.exp(0.4 * torch.randn(k, generator=generator, dtype=F64)).tolist() for k in lengths]
    return batch_of(ratios, torch.randn(n, generator=generator, dtype=F64).tolist(), columns=t)


def test_two_responses_give_the_loss_worked_out_by_hand():
    # means 1.2, inside [0.8, 1.28], and 0.7, which is clipped to 0.8: objectives 1.2 * 2 and 0.8 * -1, loss -1.6 / 2
    loss, clip_ratio, *_ = SequenceRatioLoss(**CLIP)(*batch_of([[1.5, 0.9], [0.5, 0.9, 0.7]], [2.0, -1.0]))
    assert loss.item() == pytest.approx(-0.8, abs=1e-12)
    assert clip_ratio.item() == pytest.approx(0.5)


@pytest.mark.parametrize("dual_clip", [None, 1.5])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_gradients_agree_with_finite_differences(seed, dual_clip):
    log_probs, *others = random_batch(seed)
    loss = SequenceRatioLoss(**CLIP, dual_clip=dual_clip)
    assert torch.autograd.gradcheck(lambda x: loss(x, *others)[0], (log_probs,), eps=1e-7, atol=1e-7)
    (gradient,) = torch.autograd.grad(loss(log_probs, *others)[0], log_probs)
    assert (gradient[others[-1] == 0] == 0).all()
    assert (gradient != 0).any()


@pytest.mark.parametrize("dual_clip", [None, 3.0])
def test_responses_of_one_token_get_openrlhfs_own_loss(dual_clip):
    generator = torch.Generator().manual_seed(5)
    ratios = torch.exp(torch.randn(200, 1, generator=generator, dtype=F64)).tolist()
    arguments = batch_of(ratios, torch.randn(200, generator=generator, dtype=F64).tolist())
    ours = SequenceRatioLoss(**CLIP, dual_clip=dual_clip)(*arguments)
    theirs = PolicyLoss(**CLIP, dual_clip=dual_clip)(*arguments)
    for one, other in zip(ours[:2], theirs[:2], strict=True):
        torch.testing.assert_close(one, other, check_dtype=False)
    assert 0 < ours[1].item() < 1


@pytest.mark.parametrize(("cuts", "ranks"), [([6], 1), ([1, 5], 1), ([2, 2, 2], 1), ([1] * 6, 1), ([3, 3], 2)])
def test_micro_batches_add_up_and_ranks_average_to_the_whole_batch(cuts, ranks):
    arguments = random_batch(7)
    loss = SequenceRatioLoss(**CLIP)
    whole = loss(*arguments)[0]
    parts = zip(*(tensor.split(cuts) for tensor in arguments), strict=True)
    summed = sum(loss(*part, dp_size=ranks, global_batch_size=torch.tensor(6.0))[0] for part in parts) / ranks
    torch.testing.assert_close(summed, whole)
    gradients = [torch.autograd.grad(value, arguments[0])[0] for value in (summed, whole)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("size", [None, 2.0])
def test_an_empty_response_contributes_nothing(size):
    full, with_empty = batch_of([[1.5, 0.9], [0.5]], [2.0, -1.0]), batch_of([[1.5, 0.9], [], [0.5]], [2.0, 9.0, -1.0])
    loss = SequenceRatioLoss(**CLIP)
    expected, actual = (loss(*arguments, global_batch_size=size) for arguments in (full, with_empty))
    assert actual[0].item() == pytest.approx(expected[0].item(), abs=1e-12)
    assert actual[1].item() == expected[1].item() == 0.5
    (gradient,) = torch.autograd.grad(actual[0], with_empty[0])
    assert gradient.isfinite().all()
    assert (gradient[1] == 0).all()


def test_an_extreme_log_ratio_is_held_at_twenty():
    _, old, advantages, mask = batch_of([[1.0, 1.0]], [-1.0])
    log_probs = (old + torch.tensor([[1000.0, -1000.0]])).requires_grad_()
    loss = SequenceRatioLoss(**CLIP)(log_probs, old, advantages, mask)[0]
    (gradient,) = torch.autograd.grad(loss, log_probs)
    assert loss.item() == pytest.approx((math.exp(20) + math.exp(-20)) / 2)
    assert gradient.isfinite().all()
