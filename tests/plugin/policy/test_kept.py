"""A policy over the tokens that top-k and top-p kept, in OpenRLHF's own Actor, against float64 worked out token by
token."""

from pathlib import Path

import pytest
import torch
from openrlhf.models import Actor

from openrlhf_gtpo.policy.kept import KeptTokens, restrict, rows_and_tokens

TEMPERATURE = 0.7
SEQUENCES = torch.tensor([[5, 17, 300, 9, 0], [100, 200, 11, 12, 13]])
ON = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]])
KEPT = [{1: [300, 7, 8], 2: [9]}, {0: [200, 1, 2, 3], 2: [12, 511], 3: [13, 0]}]
"""Place of each response -> the tokens that the next one was sampled from. The first has none for place 0, the second
none for place 1."""


@pytest.fixture
def actor(tiny_model: Path) -> Actor:
    new = Actor(str(tiny_model), attn_implementation="eager", param_dtype="bf16", temperature=TEMPERATURE)
    new.model.float()  # which OpenRLHF has no name for
    return new


def entries() -> list[torch.Tensor]:
    return [torch.tensor([(at, t) for at, tokens in one.items() for t in tokens], dtype=torch.int32) for one in KEPT]


def by_hand(actor: Actor) -> list[tuple[int, int, torch.Tensor, torch.Tensor]]:
    """Of each token after the first its response, its place, its log-probability and the entropy there."""
    found = []
    for i, places in enumerate(KEPT):
        length = int(ON[i].sum())
        logits = actor.model(SEQUENCES[i : i + 1, :length]).logits[0].double() / TEMPERATURE
        for at in range(length - 1):
            among = logits[at] if at not in places else logits[at][places[at]]
            logp = among.log_softmax(dim=0)
            token = logits[at][SEQUENCES[i, at + 1]] - among.logsumexp(dim=0)
            found.append((i, at, token, -(logp.exp() * logp).sum()))
    return found


def test_log_probabilities_entropies_and_gradients_are_those_over_the_kept_tokens(actor: Actor) -> None:
    with KeptTokens(actor.model, packed=False).of(entries(), ON):
        log_probs, output = actor(SEQUENCES, ON[:, 1:], ON, return_output=True, return_entropy=True)
    (log_probs.sum() + output.entropy[ON[:, 1:].bool()].sum()).backward()
    gradient = torch.cat([parameter.grad.flatten() for parameter in actor.model.parameters()])
    actor.model.zero_grad()

    expected = by_hand(actor)

    for i, at, logp, entropy in expected:
        assert log_probs[i, at].item() == pytest.approx(logp.item(), abs=1e-5), (i, at)
        assert output.entropy[i, at].item() == pytest.approx(entropy.item(), abs=1e-5), (i, at)
    assert log_probs[0, 2] == 0, "it was the only token that was kept"
    sum(logp + entropy for _, _, logp, entropy in expected).backward()
    wanted = torch.cat([parameter.grad.flatten() for parameter in actor.model.parameters()])
    torch.testing.assert_close(gradient, wanted, atol=1e-4, rtol=1e-4)


def test_the_next_pass_is_over_all_tokens_again(actor: Actor) -> None:
    kept = KeptTokens(actor.model, packed=False)
    before = actor(SEQUENCES, ON[:, 1:], ON)
    with kept.of(entries(), ON):
        assert not torch.equal(actor(SEQUENCES, ON[:, 1:], ON), before)
    assert torch.equal(actor(SEQUENCES, ON[:, 1:], ON), before)
    with kept.of(None, ON):
        assert torch.equal(actor(SEQUENCES, ON[:, 1:], ON), before)


def test_packed_rows_leave_the_padding_out() -> None:
    padded, _ = rows_and_tokens(entries(), ON, packed=False)
    packed, tokens = rows_and_tokens(entries(), ON, packed=True)
    assert padded.tolist() == [1, 1, 1, 2, 5, 5, 5, 5, 7, 7, 8, 8]
    assert packed.tolist() == [1, 1, 1, 2, 4, 4, 4, 4, 6, 6, 7, 7]
    assert tokens.tolist() == [300, 7, 8, 9, 200, 1, 2, 3, 12, 511, 13, 0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_token_that_was_not_kept_has_probability_0_and_no_gradient_in_every_precision(dtype: torch.dtype) -> None:
    logits = torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]], dtype=dtype, requires_grad=True)
    cut = logits * 1
    restrict(cut, torch.tensor([1, 1]), torch.tensor([0, 1]))
    p = cut.float().softmax(dim=-1)
    p.square().sum().backward()
    assert logits.grad is not None
    assert p[1].tolist() == pytest.approx([0.2689414, 0.7310586, 0.0], abs=1e-6)
    assert p[1, 2] == logits.grad[1, 2] == 0
    assert (p[0] > 0).all(), "a row without kept tokens is left as it is"
