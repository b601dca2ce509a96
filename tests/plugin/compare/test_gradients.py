"""The gradients of all methods from a few backward passes, against torch's own and against two forward passes."""

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from openrlhf_gtpo.batch import RolloutBatch
from openrlhf_gtpo.compare import gradients
from openrlhf_gtpo.compare.gradients import Policy

from .conftest import group

LENGTHS, PROMPT = (2, 5, 4, 7), 9
BATCH = RolloutBatch([group(*((True, [1.0] * length) for length in LENGTHS), prompt=PROMPT)])
ONE, OTHER = torch.randn(2, *BATCH.mask.shape, generator=torch.Generator().manual_seed(0)) * BATCH.mask
WEIGHTS = {"one": ONE, "other": OTHER, "both": 2 * ONE - OTHER, "nothing": 0 * ONE}
"""Four methods that span two dimensions."""


def slowly(model: Any, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    """(4, T) log-probabilities and entropies, each response by itself in float64."""
    found = torch.zeros(2, *BATCH.mask.shape, dtype=torch.float64)
    for row, response in enumerate(BATCH.responses):
        tokens = torch.tensor(response.returned["observation_tokens"])
        p = torch.softmax(model(tokens[None, :-1]).logits[0] / temperature, -1)[PROMPT - 1 :]
        at = slice(PROMPT - 1, PROMPT - 1 + LENGTHS[row])
        found[0, row, at] = p[range(len(p)), tokens[PROMPT:]].log()
        found[1, row, at] = -(p * p.log()).sum(-1)
    return found[0], found[1]


@pytest.mark.parametrize(
    ("shares", "logits", "temperature", "seen"),
    [
        (True, 1 << 26, 1.0, [1]),
        (False, 1 << 26, 0.7, [4]),
        (False, 2 * (PROMPT + max(LENGTHS)) * 32, 1.3, [2, 2]),
        (True, 1, 0.7, [1, 1, 1, 1]),
    ],
)
def test_each_methods_gradient_is_torchs_own_however_the_responses_are_laid_out(
    smallest: Path, shares: bool, logits: int, temperature: float, seen: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one row behind their prompt, in rows of their own, or some at a time; of the mean entropy too. There is a
    backward pass for each dimension, and one for the entropy."""
    monkeypatch.setattr(gradients, "LOGITS", logits)
    policy, rows = Policy(str(smallest), "cpu", temperature, 0), []
    assert policy.can_share
    policy.can_share = shares
    see = policy.model.register_forward_pre_hook
    see(lambda model, args, given: rows.append(len(given["input_ids"])), with_kwargs=True)
    with mock.patch.object(torch.autograd, "grad", wraps=torch.autograd.grad) as passes:
        found = policy.gradients(BATCH, WEIGHTS)
    assert (rows, passes.call_count) == (seen, 3 * len(seen))
    model = AutoModelForCausalLM.from_pretrained(smallest).double()
    assert np.array_equal(policy.share, np.ones(sum(one.numel() for one in model.parameters())))
    logprob, entropy = slowly(model, temperature)
    objectives = {name: (one * logprob).sum() for name, one in WEIGHTS.items()}
    for name, objective in (objectives | {"entropy": entropy.sum() / sum(LENGTHS)}).items():
        wanted = torch.autograd.grad(objective, list(model.parameters()), retain_graph=True)
        assert found[name] == pytest.approx(torch.cat([g.flatten() for g in wanted]).numpy(), rel=1e-3, abs=1e-4)


def test_two_forward_passes_see_the_same_slope(smallest: Path) -> None:
    """At weights moved by eps d, up and down: the sum of weight times slope of a token is <gradient, d>."""
    found = Policy(str(smallest), "cpu", 1.0, 0).gradients(BATCH, WEIGHTS)
    model, logprobs = AutoModelForCausalLM.from_pretrained(smallest).double().requires_grad_(False), []
    draw = torch.Generator().manual_seed(0)
    d = [torch.randn(one.shape, generator=draw, dtype=torch.float64) for one in model.parameters()]
    for step in (1e-4, -2e-4):
        for parameter, direction in zip(model.parameters(), d, strict=True):
            parameter += step * direction
        logprobs.append(slowly(model, 1.0)[0])
    slopes, flat = (logprobs[0] - logprobs[1]) / 2e-4, torch.cat([one.flatten() for one in d]).numpy()
    for name, one in WEIGHTS.items():
        assert found[name] @ flat == pytest.approx(float((one * slopes).sum()), rel=1e-3, abs=0.05)


def test_of_a_large_policy_some_coordinates_of_each_tensor_stand_for_all(
    smallest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Policy(str(smallest), "cpu", 1.0, 0)
    exact = torch.tensor(whole.gradients(BATCH, WEIGHTS)["one"]).split([one.numel() for one in whole.parameters])
    monkeypatch.setattr(gradients, "COORDINATES", 1000)
    some, other = (Policy(str(smallest), "cpu", 1.0, seed) for seed in (0, 1))
    assert any(not torch.equal(*pair) for pair in zip(some.kept, other.kept, strict=True))
    found, share = (
        torch.tensor(one).split([len(places) for places in some.kept])
        for one in (some.gradients(BATCH, WEIGHTS)["one"], some.share)
    )
    assert 1000 <= len(some.share) < 2000
    for ours, stands_for, places, theirs in zip(found, share, some.kept, exact, strict=True):
        assert len(places) >= min(32, len(theirs))
        assert stands_for.sum().item() == pytest.approx(len(theirs))
        assert torch.equal(ours, theirs[places])
