"""Restricts the policy to the tokens that each token was sampled from, so that its log-probabilities, entropies and
gradients are those of the distribution that top-k and top-p made of it. `openrlhf_gtpo.rollout.kept` says why.

OpenRLHF's Actor takes log-probabilities of the model's logits in its own ``forward``, and has no argument for this. So
the logits are changed between the two, by a hook on the model."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch

FLOOR = -6.0e4
"""Replaces the logits of tokens that were not kept: their probability is 0 in float32, at any temperature up to 100.
-inf would make an entropy NaN, and a lower number is infinite in float16."""


class KeptTokens:
    """The kept tokens of the micro-batch in a policy's next pass.

    Args:
        model: the policy's, of transformers.
        packed: whether it gets sequences without their padding, as with OpenRLHF's ``--ds.packing_samples``.
    """

    def __init__(self, model: torch.nn.Module, *, packed: bool) -> None:
        self._packed = packed
        self._places: tuple[torch.Tensor, torch.Tensor] | None = None
        model.register_forward_hook(self._restrict)

    @contextlib.contextmanager
    def of(self, kept: Sequence[torch.Tensor] | None, attention_mask: torch.Tensor) -> Iterator[None]:
        """A context in which passes are over this micro-batch.

        Args:
            kept: of each of B responses (n, 2) int32: a place in the sequence, whose logits the next token is sampled
                from, and a token that was kept there. A place without any is not restricted; None restricts nothing.
            attention_mask: (B, S), 1 on tokens.
        """
        self._places = None if kept is None else rows_and_tokens(kept, attention_mask, packed=self._packed)
        try:
            yield
        finally:
            self._places = None

    def _restrict(self, module: torch.nn.Module, arguments: Any, output: Any) -> None:
        if self._places is not None:
            restrict(output["logits"], *(one.to(output["logits"].device) for one in self._places))


def rows_and_tokens(
    kept: Sequence[torch.Tensor], attention_mask: torch.Tensor, *, packed: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Where the kept tokens are in the model's logits: rows (n,) int64, of all sequences one below the other, and
    tokens (n,) int64.

    Args:
        kept: as for `KeptTokens.of`.
        attention_mask: (B, S), 1 on tokens.
        packed: whether the logits have no rows for padding.
    """
    mask = attention_mask.cpu()
    row = mask.flatten().long().cumsum(0) - 1 if packed else torch.arange(mask.numel())
    entries = [one.cpu().long() for one in kept]
    places = torch.cat([one[:, 0] + i * mask.shape[1] for i, one in enumerate(entries)])
    return row[places], torch.cat([one[:, 1] for one in entries])


def restrict(logits: torch.Tensor, rows: torch.Tensor, tokens: torch.Tensor) -> None:
    """Put `FLOOR` in the place of every logit that is not kept, in the rows that have kept tokens.

    Args:
        logits: (..., V), changed in place.
        rows: (n,) int64, of the logits as (rows, V).
        tokens: (n,) int64.
    """
    cut = torch.zeros(logits.shape, dtype=torch.bool, device=logits.device).view(-1, logits.shape[-1])
    cut[rows] = True
    cut[rows, tokens] = False
    logits.masked_fill_(cut.view_as(logits), FLOOR)
