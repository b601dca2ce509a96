"""A micro-batch with each prompt once, however many responses follow it.

A row holds a prompt and, one after the other, its responses; a mask keeps them from attending to each other, and each
one's positions go on from the prompt's. Eight responses of 24 tokens to a prompt of 80 are 272 tokens in place of 832,
and the head, which is a fifth of a small model, is computed where a response's token is predicted. The sums are
those of the padded rows in another order."""

import inspect
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, eq=False)
class Layout:
    """Prompts P, columns L; n predicted tokens of a micro-batch of B responses and A action columns."""

    tokens: torch.Tensor  # (P, L) int64
    positions: torch.Tensor  # (P, L) int64
    allowed: torch.Tensor  # (P, L, L) bool, whether a query (row) attends to a key (column)
    kept: int
    """The last columns, which predict responses' tokens."""
    source: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
    """(n,) each: of a predicted token its prompt, the kept column that predicts it, and itself."""
    target: tuple[torch.Tensor, torch.Tensor]
    """(n,) each: its response and its action column."""

    def bias(self, dtype: torch.dtype) -> torch.Tensor:
        """(P, 1, L, L), what is added to attention's scores."""
        mask = torch.zeros(self.allowed.shape, dtype=dtype)
        return mask.masked_fill_(~self.allowed, torch.finfo(dtype).min)[:, None]


def pays(prompts: int, width: int, rows: int, longest: int) -> bool:
    """Whether rows with a prompt and its responses cost less than ordinary ones: attention grows with the square."""
    return prompts * width**2 <= rows * longest**2


def layout(sequences: torch.Tensor, action_mask: torch.Tensor, attention_mask: torch.Tensor) -> Layout | None:
    """Where a micro-batch's tokens stand when each prompt is there once; None where that saves nothing.

    Args:
        sequences: (B, T) int64.
        action_mask: (B, A), 1 on a response's own tokens, of which column A - 1 is that of token T - 1.
        attention_mask: (B, T), 1 on tokens.
    """
    b, t = sequences.shape
    a = action_mask.shape[1]
    rows: dict[tuple[int, ...], list[tuple[int, list[int], list[int]]]] = {}  # of a prompt: response, tokens, columns
    for i in range(b):
        there = attention_mask[i].nonzero().flatten()
        actions = action_mask[i].nonzero().flatten() + t - a
        first = int((there < actions[0]).sum()) if len(actions) else 0
        if not first:
            return None
        own = there[first:]
        rows.setdefault(tuple(sequences[i, there[:first]].tolist()), []).append(
            (i, sequences[i, own].tolist(), (own - t + a).tolist())
        )
    before = max(map(len, rows))
    after = max(sum(len(rest) for _, rest, _ in row) for row in rows.values())
    p, width = len(rows), before + after
    if not pays(p, width, b, t):
        return None
    tokens, positions = torch.zeros(p, width, dtype=torch.long), torch.zeros(p, width, dtype=torch.long)
    part = torch.full((p, width), -1)  # 0 for the prompt, 1, 2, ... for its responses
    predicted: list[tuple[int, int, int, int, int]] = []
    for row, (shared, responses) in enumerate(rows.items()):
        begin = before - len(shared)  # so that all responses begin in one column
        tokens[row, begin:before] = torch.tensor(shared)
        positions[row, begin:before] = torch.arange(len(shared))
        part[row, begin:before] = 0
        end = before
        for number, (i, rest, columns) in enumerate(responses, start=1):
            here = slice(end, end + len(rest))
            tokens[row, here] = torch.tensor(rest)
            positions[row, here] = torch.arange(len(shared), len(shared) + len(rest))
            part[row, here] = number
            for k, (token, column) in enumerate(zip(rest, columns, strict=True)):
                if action_mask[i, column]:
                    predicts = 0 if k == 0 else end + k - before  # column 0 is the prompt's last token
                    predicted.append((row, predicts, token, i, column))
            end += len(rest)
    order = torch.arange(width)
    allowed = (part[:, None] == part[:, :, None]) | ((part[:, None] == 0) & (part[:, :, None] > 0))
    allowed &= order[None, :] <= order[:, None]
    prompts, sources, ids, responses_of, columns_of = (torch.tensor(values) for values in zip(*predicted, strict=True))
    return Layout(tokens, positions, allowed, after + 1, (prompts, sources, ids), (responses_of, columns_of))


def sees_by_mask(model: Any) -> bool:
    """Whether a mask and positions say all of what a token of this model of transformers sees."""
    config = model.config.get_text_config()
    takes = inspect.signature(getattr(model, "get_base_model", lambda: model)().forward).parameters
    return (
        {"position_ids", "logits_to_keep"} <= set(takes)
        and not getattr(config, "sliding_window", None)
        and set(getattr(config, "layer_types", None) or ["full_attention"]) == {"full_attention"}
    )
