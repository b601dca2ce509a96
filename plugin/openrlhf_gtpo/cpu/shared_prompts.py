"""The policy's forward pass with each prompt once, however many responses follow it.

A row holds a prompt and, one after the other, its responses; a mask keeps them from attending to each other, and each
one's positions go on from the prompt's. Eight responses of 24 tokens to a prompt of 80 are 272 tokens in place of 832,
and the head, which is a fifth of a small model, is computed where a response's token is predicted. The sums are
those of the padded rows in another order."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader, RandomSampler

from openrlhf_gtpo.policy.rotary import PreciseActor


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


LENGTHS = ("total_length", "response_length")
"""Fields of OpenRLHF's `Experience`, in tokens."""


class PromptsTogether(RandomSampler):
    """Shuffles responses as torch does. Where it pays it then brings those to one prompt together, within each update,
    whose gradient is a sum over its responses in any order."""

    def __init__(self, items: Any, update: int) -> None:
        """``items``: OpenRLHF's replay buffer. ``update``: responses of an update on this rank."""
        super().__init__(items)
        self.items, self.update = items, update

    def __iter__(self) -> Iterator[int]:
        order = list(super().__iter__())
        for begin in range(0, len(order), self.update):
            groups: dict[str, list[int]] = {}
            window = order[begin : begin + self.update]
            for i in window:
                groups.setdefault(self.items[i].prompts[0], []).append(i)
            total, own = ({i: int(getattr(self.items[i], name)) for i in window} for name in LENGTHS)
            widths = [total[group[0]] - own[group[0]] + sum(own[i] for i in group) for group in groups.values()]
            if pays(len(groups), max(widths), len(window), max(total.values())):
                order[begin : begin + self.update] = [i for group in groups.values() for i in group]
        return iter(order)


def loader(batch_size: int) -> Callable[..., Any]:
    """What takes the place of the DataLoader of OpenRLHF's policy trainer.

    Args:
        batch_size: responses of an update on all ranks.
    """

    def load(items: Any, shuffle: bool = False, **kwargs: Any) -> Any:
        update = batch_size // torch.distributed.get_world_size()
        return DataLoader(items, sampler=PromptsTogether(items, update) if shuffle else None, **kwargs)

    return load


class SharedPromptsActor(PreciseActor):
    """OpenRLHF's model, which computes a prompt once for the responses of a micro-batch that have it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._can_share = not self.packing_samples and not getattr(self, "is_vlm", False) and sees_by_mask(self.model)

    def forward(
        self,
        sequences: torch.Tensor,
        action_mask: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        return_output: bool = False,
        **others: Any,
    ) -> Any:
        """As OpenRLHF's: log-probabilities of actions, (B, A) float32; those of ordinary rows where prompts cannot be
        shared, or more is asked for."""
        found = None
        if self._can_share and action_mask is not None and attention_mask is not None:
            found = None if others.get("return_entropy") else layout(sequences, action_mask, attention_mask)
        if found is None or action_mask is None:
            return super().forward(sequences, action_mask, attention_mask, return_output, **others)
        dtype = self.model.get_input_embeddings().weight.dtype
        mask = torch.zeros(found.allowed.shape, dtype=dtype).masked_fill_(~found.allowed, torch.finfo(dtype).min)
        output = self.model(
            found.tokens,
            attention_mask=mask[:, None],
            position_ids=found.positions,
            logits_to_keep=found.kept,
            use_cache=False,
        )
        logits = output["logits"].float() / self.temperature  # (P, kept, vocabulary)
        row, column, token = found.source
        values = logits[row, column, token] - logits.logsumexp(-1)[row, column]
        log_probs = torch.zeros(action_mask.shape).index_put(found.target, values)
        return (log_probs, output) if return_output else log_probs


def sees_by_mask(model: Any) -> bool:
    """Whether a mask and positions say all of what a token of this model of transformers sees."""
    config = model.config.get_text_config()
    takes = inspect.signature(getattr(model, "get_base_model", lambda: model)().forward).parameters
    return (
        {"position_ids", "logits_to_keep"} <= set(takes)
        and not getattr(config, "sliding_window", None)
        and set(getattr(config, "layer_types", None) or ["full_attention"]) == {"full_attention"}
    )
