"""``--shaping.weights``: controls for GTPO and GRPO-S, whose formulas stay and whose weights are not the entropies.

A control puts other values in the place of the entropies H, of each token for GTPO and of each response's mean for
GRPO-S. What is proved of the formulas for any H, conservation and bounds, therefore holds for every control. Pure
tensor mathematics."""

from collections.abc import Sequence

import torch

SMALLEST_ENTROPY = 1e-6
"""Nats. 1/H is that of an entropy of at least this, so that it stays finite."""


def in_place_of_entropy(
    weights: str,
    entropy: torch.Tensor,
    logprob: torch.Tensor,
    mask: torch.Tensor,
    correct: torch.Tensor,
    group: torch.Tensor,
    *,
    per_response: bool,
    seed: int,
) -> torch.Tensor:
    """What GTPO or GRPO-S takes for the entropies.

    Args:
        weights: ``entropy``, ``shuffled``, ``uniform``, ``surprisal`` or ``inverse``; docs/algorithms.md defines each.
        entropy: (N, T) nats; values off the mask are ignored.
        logprob: (N, T) of the sampled tokens, in nats; values off the mask are ignored.
        mask: (N, T), 1 on response tokens.
        correct: (N,) bool.
        group: (N,) int, which prompt each response answers.
        per_response: whether the formulas weigh responses (GRPO-S); their values are then means, the same at every
            token of a response.
        seed: of the permutation. Padding does not change it.

    Returns:
        (N, T), 0 off the mask.

    Raises:
        ValueError: there are no such weights.
    """
    on = mask.bool()
    values = torch.where(on, -logprob.clamp(max=0) if weights == "surprisal" else entropy, 0.0)
    length = on.sum(1, keepdim=True)
    units, present = (values.sum(1, keepdim=True) / length.clamp(min=1), length > 0) if per_response else (values, on)
    if weights == "shuffled":
        (units,) = shuffled([units], present, correct, group, seed)
    elif weights == "uniform":
        units = torch.ones_like(units)
    elif weights == "inverse":
        units = 1 / units.clamp(min=SMALLEST_ENTROPY)
    elif weights not in ("entropy", "surprisal"):
        raise ValueError(f"weights is {weights}, but must be entropy, shuffled, uniform, surprisal or inverse")
    return units * on


def shuffled(
    values: Sequence[torch.Tensor], present: torch.Tensor, correct: torch.Tensor, group: torch.Tensor, seed: int
) -> list[torch.Tensor]:
    """Permute values among the units of the same position, group and class; what a unit has in all tensors moves
    together.

    Args:
        values: of (N, U) each, U being T (tokens) or 1 (responses).
        present: (N, U) bool, where there is a unit; its position is its number in its row.
        correct: (N,) bool.
        group: (N,) int, which prompt each response answers.
        seed: of the permutation. Padding does not change it.

    Returns:
        (N, U) each, 0 where there is no unit.
    """
    units_of = present.sum(1)
    start = units_of.cumsum(0) - units_of  # where each row begins, when the units stand row by row
    # Rows of one group and class side by side, those with most units first, so that the first take part at a position.
    rows = units_of.argsort(descending=True, stable=True)
    cell = 2 * group + correct.long()
    rows = rows[cell[rows].argsort(stable=True)]
    _, sizes = cell[rows].unique_consecutive(return_counts=True)
    draw = torch.Generator().manual_seed(seed)
    source = torch.empty(int(units_of.sum()), dtype=torch.long, device=present.device)
    for peers in rows.split(sizes.tolist()):
        position = torch.arange(int(units_of[peers[0]]), device=source.device)[:, None]
        takes_part = position < units_of[peers]  # (positions, peers)
        chance = torch.rand(takes_part.shape, generator=draw, dtype=torch.float64).to(source.device)
        drawn = chance.masked_fill_(~takes_part, 2).argsort(1)  # those that take part first, in random order
        place = start[peers] + position
        source[place[takes_part]] = place.gather(1, drawn)[takes_part]
    return [torch.zeros_like(units).masked_scatter(present, units[present][source]) for units in values]


def correlation(one: torch.Tensor, other: torch.Tensor) -> float | None:
    """Pearson's correlation of two (n,) tensors; None where one of them does not vary."""
    one, other = (values.double() - values.double().mean() for values in (one, other))
    scale = one.square().sum().sqrt() * other.square().sum().sqrt()
    # Below this the values differ by float32's rounding only.
    if one.numel() < 2 or one.abs().max() < 1e-6 or other.abs().max() < 1e-6:
        return None
    return ((one * other).sum() / scale).item()
