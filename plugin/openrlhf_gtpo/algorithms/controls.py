"""A control for estimators that read entropies: the entropies of other tokens. Pure tensor mathematics."""

import hashlib

import torch


def permuted(values: torch.Tensor, mask: torch.Tensor, correct: torch.Tensor, group: torch.Tensor) -> torch.Tensor:
    """Permute values among the tokens of the same position, group and class. The values decide the permutation, so it
    repeats.

    Args:
        values: (N, T).
        mask: (N, T) bool.
        correct: (N,) bool.
        group: (N,) int.

    Returns:
        (N, T), 0 off the mask.
    """
    digest = hashlib.sha256(values[mask].numpy().tobytes()).digest()
    draw = torch.Generator().manual_seed(int.from_bytes(digest[:7], "little"))
    position = mask.cumsum(1) - 1  # of each token in its response
    cell = (2 * group + correct.long())[:, None] * mask.shape[1] + position  # (N, T) tokens that may change places
    cells, chance = cell[mask], torch.rand(int(mask.sum()), generator=draw, dtype=torch.float64)
    by_cell = cells.argsort(stable=True)
    by_chance = chance.argsort()
    by_chance = by_chance[cells[by_chance].argsort(stable=True)]  # cell after cell, in random order inside
    source = torch.empty_like(by_cell)
    source[by_cell] = by_chance
    return torch.zeros_like(values).masked_scatter(mask, values[mask][source])
