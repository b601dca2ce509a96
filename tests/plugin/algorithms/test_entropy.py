"""Entropy and log-probability against float64, and their kernel in Triton's own interpreter."""

import math
import os
import subprocess
import sys

import pytest
import torch

from openrlhf_gtpo.algorithms.entropy import logprob_and_entropy


def both_in_float64(logits: torch.Tensor, sampled: torch.Tensor) -> torch.Tensor:
    """(rows, 2): the textbook formulas; a token of probability 0 contributes 0 to the entropy."""
    logp = logits.double().log_softmax(dim=-1)
    entropy = -(logp.exp() * logp).nan_to_num(0.0).sum(dim=-1)
    return torch.stack([logp.gather(1, sampled.long()[:, None]).squeeze(1), entropy], dim=1)


@pytest.mark.parametrize("vocabulary", [3, 4097, 152_064])
@pytest.mark.parametrize(("dtype", "ids"), [(torch.float32, torch.int64), (torch.bfloat16, torch.int32)])
def test_both_are_those_of_float64(vocabulary: int, dtype: torch.dtype, ids: torch.dtype) -> None:
    logits = 4 * torch.randn(5, vocabulary, generator=torch.Generator().manual_seed(vocabulary))
    logits[1, 1::7] = float("-inf")
    logits[2, : vocabulary - 1] = float("-inf")
    logits[3] *= 5
    logits[4] *= 15
    logits, sampled = logits.to(dtype), torch.tensor([0, 1, vocabulary - 1, 2, int(logits[4].argmax())], dtype=ids)
    sampled[1] = 0 if vocabulary < 7 else 7  # not masked
    found, expected = logprob_and_entropy(logits, sampled).double(), both_in_float64(logits, sampled)
    apart = (found - expected).abs().amax(dim=0)
    assert apart[0] <= 5e-6, "the log-probability"
    assert apart[1] <= 1e-6, "the entropy"


def test_a_fair_die_with_two_masked_faces_by_hand() -> None:
    die = torch.tensor([[0.5, 0.5, float("-inf"), 0.5, 0.5, float("-inf")]])
    (found,) = logprob_and_entropy(die, torch.tensor([3])).tolist()
    assert found == pytest.approx([-math.log(4), math.log(4)], abs=1e-7)
    assert logprob_and_entropy(die, torch.tensor([2]))[0, 0] == float("-inf")


def test_rows_may_be_a_part_of_a_wider_tensor_and_vocabularies_may_be_padded_or_turned() -> None:
    wide, sampled = torch.randn(10, 320), torch.tensor([3, 0, 299, 7, 8])
    rows = wide[::2, :300]
    expected = logprob_and_entropy(rows.contiguous(), sampled)
    assert torch.equal(logprob_and_entropy(rows, sampled), expected)
    turned = rows.t().contiguous().t()
    torch.testing.assert_close(logprob_and_entropy(turned, sampled), expected)


@pytest.mark.parametrize("broken", [float("nan"), float("inf"), float("-inf")])
def test_a_broken_row_is_one_in_every_column_and_alone(broken: float) -> None:
    logits, sampled = torch.randn(3, 50), torch.tensor([1, 2, 3])
    whole = logprob_and_entropy(logits, sampled)
    logits[1, slice(None) if broken == float("-inf") else 7] = broken
    found = logprob_and_entropy(logits, sampled)
    assert found[1].isnan().all()
    assert torch.equal(found[[0, 2]], whole[[0, 2]])


def test_the_triton_kernel_agrees_with_float64_in_tritons_interpreter() -> None:
    pytest.importorskip("triton", reason="Triton has no wheel for this platform; the eager path serves here")
    program = """
import torch
from openrlhf_gtpo.algorithms.entropy import BLOCK, WARPS, triton_kernel
def kernel(logits, sampled):
    out = torch.empty(len(logits), 2)
    if len(logits):
        arguments = (logits, logits.stride(0), sampled, out, logits.shape[1])
        triton_kernel()[(len(logits),)](*arguments, BLOCK=BLOCK, num_warps=WARPS)
    return out
torch.manual_seed(0)
for vocabulary in (3, 16384, 40001):  # a part of a block, one, and more than two
    for scale in (0.1, 5.0, 40.0):
        for dtype, ids in ((torch.float32, torch.int64), (torch.bfloat16, torch.int32)):
            logits = torch.randn(6, vocabulary) * scale
            logits[1:, torch.randperm(vocabulary)[: vocabulary // 3]] = float("-inf")
            logits[0, : vocabulary // 2] = float("-inf")  # a first block of nothing but masked tokens
            logits[2] = logits[2].sort().values  # the maximum moves in every block
            logits = logits.to(dtype)
            sampled = logits.argmax(dim=-1).to(ids)
            sampled[0] = vocabulary - 1
            wide = torch.randn(12, vocabulary + 5).to(dtype)
            wide[::2, :vocabulary] = logits
            logp = logits.double().log_softmax(-1)
            p = logp.exp()
            expected = torch.stack([
                logp.gather(1, sampled.long()[:, None]).squeeze(1),
                -(p * logp).nan_to_num(0.0).sum(-1),
            ], dim=1)
            found = kernel(wide[::2, :vocabulary], sampled)
            apart = (found.double() - expected).abs().amax(dim=0)
            assert apart[0] <= 5e-6 and apart[1] <= 1e-6, (vocabulary, scale, dtype, apart)
            assert (found[:, 1:] >= 0).all()
broken = torch.zeros(4, 5)
broken[0, 1], broken[1, 1], broken[2] = float("nan"), float("inf"), float("-inf")
rows = kernel(broken, torch.tensor([1, 1, 1, 1])).isnan()
assert rows[:3].all() and not rows[3].any()
assert kernel(torch.zeros(1, 5), torch.tensor([5]))[0, 0].isnan(), "a token outside is not read"
print("agrees")
"""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert run.stdout.strip() == "agrees", run.stderr
