"""Log-probabilities a few rows at a time, beside torch's own in float64."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from openrlhf_gtpo.cpu.token_log_probs import token_log_probs


@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)])
@given(rows=st.integers(1, 50), tokens=st.integers(1, 80), temperature=st.sampled_from([0.5, 1.0, 1.3]))
def test_values_and_gradients_are_those_of_log_softmax(dtype, close, rows: int, tokens: int, temperature: float):
    torch.manual_seed(rows)
    logits = (3 * torch.randn(rows, 40)).to(dtype).requires_grad_()
    place, token = torch.randint(0, rows, (tokens,)), torch.randint(0, 40, (tokens,))  # several tokens after one row
    given_logits, weights = logits.detach().clone(), torch.randn(tokens)

    found = token_log_probs(logits, temperature, place, token)
    (gradient,) = torch.autograd.grad(found, logits, weights)

    exact = logits.detach().double().requires_grad_()
    expected = (exact / temperature).log_softmax(-1)[place, token]
    (expected_gradient,) = torch.autograd.grad(expected, exact, weights.double())
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(gradient.double(), expected_gradient, rtol=close, atol=close)
    assert torch.equal(logits, given_logits), "which others still read"
