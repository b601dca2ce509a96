"""The entropy kernel against float64, and its Triton form in Triton's own interpreter."""

import math
import os
import subprocess
import sys
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from openrlhf_gtpo.algorithms import entropy as entropy_module
from openrlhf_gtpo.algorithms.entropy import token_entropy


def reference(logits: torch.Tensor) -> torch.Tensor:
    """The textbook formula in float64; a token of probability 0 contributes 0."""
    logp = logits.double().log_softmax(dim=-1)
    return -(logp.exp() * logp).nan_to_num(0.0).sum(dim=-1)


@pytest.mark.parametrize("vocabulary", [2, 97, 4096, 4097, 152_064])
@pytest.mark.parametrize("scale", [0.01, 1.0, 8.0, 60.0])
def test_float32_logits_are_within_1e_6_of_float64(vocabulary: int, scale: float) -> None:
    logits = torch.randn(7, vocabulary, generator=torch.Generator().manual_seed(vocabulary)) * scale
    assert (token_entropy(logits) - reference(logits)).abs().max() <= 1e-6


def test_uniform_logits_have_the_logarithm_of_the_vocabulary_whatever_their_level() -> None:
    logits = torch.stack([torch.full((1000,), level) for level in (-300.0, 0.0, 1e4)])
    assert token_entropy(logits).tolist() == pytest.approx([math.log(1000)] * 3, abs=1e-6)


def test_a_sure_token_has_no_entropy() -> None:
    logits = torch.zeros(1, 50)
    logits[0, 3] = 1e4
    assert token_entropy(logits).item() == 0.0


def test_masked_tokens_count_for_nothing() -> None:
    logits = torch.tensor([[0.0, float("-inf"), 0.0, float("-inf")], [5.0] + [float("-inf")] * 3])
    assert token_entropy(logits).tolist() == pytest.approx([math.log(2), 0.0], abs=1e-7)


@given(
    st.lists(st.floats(-1e4, 1e4, width=32) | st.just(float("-inf")), min_size=1, max_size=40).filter(
        lambda row: max(row) > float("-inf")
    )
)
@settings(max_examples=200, deadline=None)
def test_entropy_is_never_negative_nor_above_the_logarithm_of_the_vocabulary(row: list[float]) -> None:
    value = token_entropy(torch.tensor([row])).item()
    assert 0.0 <= value <= math.log(len(row)) + 1e-6
    assert value == pytest.approx(reference(torch.tensor([row])).item(), abs=1e-6)


def test_log_probabilities_are_logits_too() -> None:
    logits = torch.randn(5, 300, dtype=torch.float64) * 3
    assert torch.allclose(token_entropy(logits.log_softmax(-1)), token_entropy(logits), atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits_are_taken_at_face_value(dtype: torch.dtype) -> None:
    logits = (torch.randn(4, 5000) * 4).to(dtype)
    assert (token_entropy(logits) - reference(logits)).abs().max() <= 1e-6


def test_the_callers_logits_are_left_alone() -> None:
    logits = torch.randn(3, 100)
    before = logits.clone()
    token_entropy(logits)
    assert torch.equal(logits, before)


def test_a_broken_row_is_not_hidden() -> None:
    logits = torch.zeros(3, 4)
    logits[1, 2] = float("nan")
    result = token_entropy(logits)
    assert result.isnan().tolist() == [False, True, False]


def test_no_rows_give_no_entropies() -> None:
    assert token_entropy(torch.empty(0, 10)).shape == (0,)


@pytest.mark.parametrize("bad", [torch.zeros(3), torch.zeros(2, 2, 2), torch.zeros(2, 2, dtype=torch.long)])
def test_anything_but_a_matrix_of_floats_is_refused_in_one_sentence(bad: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="logits must be a floating-point tensor of shape"):
        token_entropy(bad)


def test_scratch_memory_stays_far_below_the_size_of_the_logits() -> None:
    from torch.profiler import ProfilerActivity, profile

    logits = torch.randn(256, 16_384)  # 16 MiB
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as prof:
        token_entropy(logits)
    largest = max(event.self_cpu_memory_usage / max(1, event.count) for event in prof.key_averages())
    assert 0 < largest <= logits.nbytes / 8


def test_the_triton_kernel_agrees_with_float64_in_tritons_interpreter() -> None:
    pytest.importorskip("triton", reason="Triton has no wheel for this platform; the eager path serves here")
    program = """
import torch
from openrlhf_gtpo.algorithms.entropy import _triton_kernel
kernel = _triton_kernel()
torch.manual_seed(0)
for vocabulary in (3, 16384, 40001):  # a part of a block, one, and more than two
    for scale in (0.1, 5.0, 40.0):
        logits = torch.randn(6, vocabulary) * scale
        logits[1:, torch.randperm(vocabulary)[: vocabulary // 3]] = float("-inf")
        logits[0, : vocabulary // 2] = float("-inf")  # a first block of nothing but masked tokens
        logits[2] = logits[2].sort().values  # the maximum moves in every block
        p = logits.double().log_softmax(-1)
        expected = -(p.exp() * p).nan_to_num(0.0).sum(-1)
        result = kernel(logits)
        assert (result - expected).abs().max() <= 1e-6, (vocabulary, scale, result, expected)
        assert (result >= 0).all()
assert kernel(torch.tensor([[0.0, float("nan")]])).isnan().all()
print("agrees")
"""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert run.stdout.strip() == "agrees", run.stderr


def test_a_gpu_is_served_by_triton_and_anything_else_by_the_eager_path() -> None:
    logits = torch.randn(2, 8)
    with mock.patch.object(entropy_module, "_triton_kernel") as kernel:
        token_entropy(logits)
    kernel.assert_not_called()
