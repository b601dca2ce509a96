"""The policy's forward pass with each prompt once (`openrlhf_gtpo.policy.layout`), on a CPU."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, RandomSampler

from openrlhf_gtpo.cpu.token_log_probs import token_log_probs
from openrlhf_gtpo.cpu.zero_gradients import teaches
from openrlhf_gtpo.policy.layout import layout, pays, sees_by_mask
from openrlhf_gtpo.policy.rotary import PreciseActor

LENGTHS = ("total_length", "response_length")
"""Fields of OpenRLHF's `Experience`, in tokens."""


class PromptsTogether(RandomSampler):
    """Shuffles responses as torch does, and orders those of each update, whose gradient is a sum over its responses in
    any order: those to one prompt together where it pays, and first those without a gradient."""

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
            together = pays(len(groups), max(widths), len(window), max(total.values()))
            units = [*groups.values()] if together else [[i] for i in window]
            units.sort(key=lambda unit: any(teaches(self.items[i]) for i in unit))
            order[begin : begin + self.update] = [i for unit in units for i in unit]
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
        output = self.model(
            found.tokens,
            attention_mask=found.bias(dtype),
            position_ids=found.positions,
            logits_to_keep=found.kept,
            use_cache=False,
        )
        row, column, token = found.source
        logits = output["logits"].flatten(0, 1)  # (P * kept, vocabulary)
        values = token_log_probs(logits, self.temperature, row * found.kept + column, token)
        log_probs = torch.zeros(action_mask.shape).index_put(found.target, values)
        return (log_probs, output) if return_output else log_probs
