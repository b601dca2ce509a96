"""The gradient of each method on each group, at the same random coordinates of the policy's weights."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from openrlhf_gtpo.batch import RolloutBatch
from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.model_size import size_of
from openrlhf_gtpo.policy.layout import layout, sees_by_mask
from openrlhf_gtpo.seeds import derived

COORDINATES = 1 << 17
"""Most coordinates that are kept: half a megabyte a gradient."""
SMALLEST_SHARE = 32
"""Coordinates that every tensor has among them, if it has so many."""
SMALL = 10_000_000
"""Parameters of a policy below which float32 costs nothing."""
LOGITS = 1 << 26
"""Most logits of a forward pass, a quarter of a gigabyte in float32; a single response may have more."""
SINGULAR = 1e-5
"""Of the largest singular value: below it is rounding."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """n predicted tokens of some responses."""

    tensors: dict[str, torch.Tensor]
    kept: int
    """The last columns whose logits are computed; all with 0."""
    source: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
    """(n,) each: of a token its row, the column that predicts it, and itself."""
    target: tuple[torch.Tensor, torch.Tensor]
    """(n,) each: its response and its column of the batch's tables."""
    shape: tuple[int, int]
    """Responses and columns."""


class Policy:
    """A policy whose gradients are asked for."""

    def __init__(self, name: str, device: str, temperature: float, seed: int) -> None:
        """
        Args:
            name: a folder or a hub id.
            device: cpu or gpu.
            temperature: by which logits are divided, as in training.
            seed: of the coordinates that are kept.
        """
        from transformers import AutoModelForCausalLM

        self.device = torch.device("cuda" if device == "gpu" else "cpu")
        dtype = _dtype(name, device)
        self.model = AutoModelForCausalLM.from_pretrained(
            name, dtype=dtype, attn_implementation="sdpa", trust_remote_code=True
        )
        self.model.to(self.device).eval()
        self.temperature = temperature
        self.can_share = sees_by_mask(self.model)
        self.parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.kept, self.share = self._coordinates(seed)

    def _coordinates(self, seed: int) -> tuple[list[torch.Tensor], np.ndarray]:
        """Of each tensor the places that are kept, and (K,) for how many coordinates each stands."""
        draw = torch.Generator().manual_seed(derived(seed, "coordinates") % 2**63)
        total = sum(parameter.numel() for parameter in self.parameters)
        kept, share = [], []
        for parameter in self.parameters:
            size = parameter.numel()
            count = min(size, max(SMALLEST_SHARE, round(min(1.0, COORDINATES / total) * size)))
            places = torch.arange(size) if count == size else torch.randint(size, (count,), generator=draw)
            kept.append(places.to(self.device))
            share.append(np.full(count, size / count, dtype=np.float32))
        return kept, np.concatenate(share)

    def inputs(self, batch: RolloutBatch, rows: slice) -> Inputs:
        """Some responses of a batch, each prompt once where the model allows and it saves something."""
        responses = batch.responses[rows]
        ids = [torch.tensor(one.returned["observation_tokens"]) for one in responses]
        tokens = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)
        there = (torch.arange(tokens.shape[1]) < torch.tensor([len(one) for one in ids])[:, None]).long()
        mask = batch.mask[rows, : tokens.shape[1] - 1]
        shape = len(ids), batch.mask.shape[1]
        found = layout(tokens, mask, there) if self.can_share else None
        if found is None:
            row, column = mask.nonzero(as_tuple=True)
            given = {"input_ids": tokens, "attention_mask": there}
            return Inputs(given, 0, (row, column, tokens[:, 1:][mask]), (row, column), shape)
        bias = found.bias(self.model.dtype)
        given = {"input_ids": found.tokens, "attention_mask": bias, "position_ids": found.positions}
        return Inputs(given, found.kept, found.source, found.target, shape)

    def forward(self, inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
        """(n, T) log-probabilities and entropies (nats) of the responses' tokens, with a graph; 0 off the mask."""
        there = {name: tensor.to(self.device) for name, tensor in inputs.tensors.items()}
        kept = {"logits_to_keep": inputs.kept} if inputs.kept else {}
        row, column, token = (index.to(self.device) for index in inputs.source)
        logits = self.model(**there, **kept, use_cache=False).logits[row, column].float() / self.temperature
        logp = logits.log_softmax(-1)  # (tokens, vocabulary)
        values = logp.gather(-1, token[:, None]).squeeze(-1), -(logp.exp() * logp).sum(-1)
        places = tuple(index.to(self.device) for index in inputs.target)
        empty = torch.zeros(inputs.shape, device=self.device)
        return empty.index_put(places, values[0]), empty.index_put(places, values[1])

    def gradients(self, batch: RolloutBatch, weights: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray]:
        """The gradient of each method's objective on one group, sum over tokens of weight times log-probability, and
        of the mean entropy of its tokens, "entropy".

        Gradients are linear in the weights, so there is one backward pass for each dimension that they span.

        Args:
            batch: one group.
            weights: (N, T) each.

        Returns:
            (K,) float32 each, at the kept coordinates.
        """
        mask = batch.mask
        table = torch.stack([one[mask] for one in weights.values()]).double()  # (methods, tokens)
        left, singular, right = torch.linalg.svd(table, full_matrices=False)
        rank = int((singular > SINGULAR * singular.max()).sum()) if singular.max() > 0 else 0
        basis = [mask.new_zeros(mask.shape, dtype=torch.float32).masked_scatter(mask, one.float()) for one in right]
        seeds = [*basis[:rank], mask.float() / mask.sum()]
        sums = [torch.zeros(len(self.share), device=self.device) for _ in seeds]
        for rows in self._chunks(batch):
            values = self.forward(self.inputs(batch, rows))
            for place, one in enumerate(seeds):
                on = one[rows].to(self.device)
                objective = (on * values[place == rank]).sum()
                grads = torch.autograd.grad(
                    objective, self.parameters, retain_graph=place < rank, materialize_grads=True
                )
                sums[place] += torch.cat([g.flatten()[k].float() for g, k in zip(grads, self.kept, strict=True)])
        found = torch.stack(sums).cpu()
        mixed = ((left * singular)[:, :rank].float() @ found[:rank]).numpy()
        return {**dict(zip(weights, mixed, strict=True)), "entropy": found[rank].numpy()}

    def _chunks(self, batch: RolloutBatch) -> Iterator[slice]:
        longest = max(len(one.returned["observation_tokens"]) for one in batch.responses)
        vocabulary = self.model.config.get_text_config().vocab_size
        step = max(1, LOGITS // (longest * vocabulary))
        return (slice(first, first + step) for first in range(0, len(batch), step))


def _dtype(name: str, device: str) -> torch.dtype:
    size = size_of(name)
    if device == "gpu":
        return torch.bfloat16
    if size is not None and size.parameters < SMALL:
        return torch.float32
    from openrlhf_gtpo.cpu.platform import has_native_bf16

    return torch.bfloat16 if has_native_bf16() else torch.float32


def check_memory(name: str, device: str) -> None:
    """Refuse a policy that the gradients' memory does not hold: weights, one gradient, and as much for activations.

    Raises:
        SettingsError: it needs more than there is.
    """
    size = size_of(name)
    if size is None:
        return
    width = torch.finfo(_dtype(name, device)).bits // 8
    needed = 3 * width * size.parameters + 4 * 4 * LOGITS
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    there = torch.cuda.mem_get_info()[1] if device == "gpu" else installed
    if needed > there:
        raise SettingsError(
            f"--model {name} has {size.parameters / 1e9:.1f} billion parameters, whose gradients need "
            f"{needed / 2**30:.0f} GiB, and the {device.upper()} has {there / 2**30:.0f}: take a smaller policy or a "
            "larger machine."
        )
