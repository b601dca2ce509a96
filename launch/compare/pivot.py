"""What a step teaches at a pivotal token, over its noise: a simulation of the entropy study's arms without a run.

    python launch/compare/pivot.py [--groups N] [--out FOLDER]

Responses to the task `wordings` are drawn from a policy that is a table: at each *state*, a gate and a digit, it takes
the right operation with a probability of its own. The project's own `gtpo` turns them into advantages A. With x = 1
for a right operation and 0 for a wrong one, a group of responses moves the log-odds of the right one at a state by

    U = sum over the group's visits of A (x - p)

(the score function of a choice between two). The mean of U over groups is what is learned at the state, its standard
deviation is what is chance, and their ratio is given as a multiple of that without entropy (alpha2 = 0). What is left
out: tokens that share a network's parameters, clipping, Adam, and all that changes after the first step.

It writes pivot.png: the ratio beside the area under pass@1 that the runs had (the records in docs/studies/entropy).
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "laptop"))

import dose
import record
from gates import LETTERS, multiplies, operation
from inference import mean_and_half
from openrlhf_gtpo.algorithms.weights import in_place_of_entropy
from openrlhf_gtpo.shaping import gtpo
from openrlhf_gtpo.tables import markdown
from wordings import ADD, MULTIPLY, TASK

SAMPLES = 16  # responses to a prompt, as in the study
SPREAD = 1.0  # standard deviation, over states, of the log-odds of the right operation
CERTAIN = 0.01  # nats; mean entropy of a token that follows from what stands before
WRONG = (0.10, 0.15, 0.22, 0.30)
"""Probability of the wrong operation at a middling state. 0.15 has the study's start: pass@1 0.28, 0.32 nats."""
START = 0.15
SHUFFLES = 16
FEW = 30  # visits in fewer groups than these say nothing about a state
RECORDS = Path(__file__).resolve().parents[2] / "docs" / "studies" / "entropy"


@dataclass(frozen=True)
class Token:
    """One token of a response: its entropy in nats and, where it is pivotal, its state and whether it was right."""

    entropy: float
    state: int | None = None
    right: bool = False


@dataclass(frozen=True, eq=False)
class Drawn:
    """A batch of N responses of at most T tokens.

    Attributes:
        entropy: (N, T) nats, 0 off the mask.
        mask: (N, T) bool.
        correct: (N,) bool.
        group: (N,) int.
        state: (N, T) int, the state of a pivotal token, -1 elsewhere.
        surprise: (N, T) x - p at pivotal tokens, 0 elsewhere.
    """

    entropy: torch.Tensor
    mask: torch.Tensor
    correct: torch.Tensor
    group: torch.Tensor
    state: torch.Tensor
    surprise: torch.Tensor

    @property
    def pivotal(self) -> torch.Tensor:
        """(N, T) bool."""
        return self.state >= 0


def policy(wrong: float, rng: random.Random) -> list[float]:
    """The probability of the right operation at each state, a hundred of them."""
    middle = math.log((1 - wrong) / wrong)
    return [1 / (1 + math.exp(-rng.gauss(middle, SPREAD))) for _ in range(10 * len(LETTERS))]


def response(letters: str, digit: int, right: Sequence[float], rng: random.Random) -> tuple[list[Token], int]:
    """A response's tokens, and its last digit."""

    def certain(count: int) -> list[Token]:
        return [Token(rng.expovariate(1 / CERTAIN)) for _ in range(count)]

    tokens: list[Token] = []
    for letter in letters:
        state = 10 * LETTERS.index(letter) + digit
        p = right[state]
        is_right = rng.random() < p
        sign, constant = operation(letter, multiplies(letter, digit) == is_right)
        word = rng.choice(MULTIPLY if sign == "*" else ADD)
        entropy = math.log(len(ADD)) - p * math.log(p) - (1 - p) * math.log(1 - p)  # which operation, which word
        more = 0 if word in TASK.words else len(word) - 1
        # letter digit WORD constant = result newline
        tokens += [*certain(2), Token(entropy, state, is_right), *certain(more + 4)]
        digit = (digit * constant if sign == "*" else digit + constant) % 10
    return tokens + certain(4), digit  # \boxed{ digit } and the end


def draw(groups: int, wrong: float, seed: int = 0) -> Drawn:
    """Responses to this many prompts, `SAMPLES` to each."""
    rng = random.Random(seed)
    right = policy(wrong, rng)
    responses: list[list[Token]] = []
    correct: list[bool] = []
    for _ in range(groups):
        row = TASK.draw(rng)
        answer = int(TASK.answer(row))
        for _ in range(SAMPLES):
            tokens, digit = response(row.letters, row.digit, right, rng)
            responses.append(tokens)
            correct.append(digit == answer)
    shape = (len(responses), max(map(len, responses)))
    entropy, surprise = torch.zeros(shape, dtype=torch.float64), torch.zeros(shape, dtype=torch.float64)
    mask, state = torch.zeros(shape, dtype=torch.bool), torch.full(shape, -1)
    for n, tokens in enumerate(responses):
        mask[n, : len(tokens)] = True
        entropy[n, : len(tokens)] = torch.tensor([token.entropy for token in tokens])
        for t, token in enumerate(tokens):
            if token.state is not None:
                state[n, t], surprise[n, t] = token.state, token.right - right[token.state]
    group = torch.arange(groups).repeat_interleave(SAMPLES)
    return Drawn(entropy, mask, torch.tensor(correct), group, state, surprise)


def ratio(advantages: torch.Tensor, drawn: Drawn) -> float:
    """Mean over states of the mean of U over its standard deviation, over the groups that visit the state."""
    states = int(drawn.state.max()) + 1
    visits = drawn.pivotal
    key = (drawn.group[:, None] * states + drawn.state)[visits]
    size = (int(drawn.group.max()) + 1) * states
    update = torch.zeros(size, dtype=torch.float64).index_add_(0, key, (advantages * drawn.surprise)[visits])
    visited = torch.zeros(size, dtype=torch.bool).index_fill_(0, key, True)
    found = [
        (seen.mean() / seen.std()).item()
        for seen in (u[v] for u, v in zip(update.view(-1, states).T, visited.view(-1, states).T, strict=True))
        if len(seen) >= FEW and seen.std() > 0
    ]
    return sum(found) / len(found)


def shuffled_among(on: torch.Tensor, drawn: Drawn) -> torch.Tensor:
    """(N, T) the entropies of these tokens, permuted among those of one column, group and class; 0 elsewhere."""
    row, column = on.nonzero(as_tuple=True)
    cell = (2 * drawn.group + drawn.correct)[row] * on.shape[1] + column
    chance = torch.randperm(len(cell), generator=torch.Generator().manual_seed(0))
    moved = torch.empty(len(cell), dtype=drawn.entropy.dtype)
    moved[cell.argsort(stable=True)] = drawn.entropy[on][chance[cell[chance].argsort(stable=True)]]
    return torch.zeros_like(drawn.entropy).masked_scatter(on, moved)


def weights(name: str, drawn: Drawn) -> torch.Tensor:
    """(N, T) what takes the place of the entropies.

    ``shuffled_pivots`` and ``shuffled_others`` permute the entropies of one kind of token among that kind alone, at
    the same position, group and class; ``average`` has the shares of `SHUFFLES` permutations, averaged; ``indicator``
    has the mean entropy of pivotal tokens at those, and the mean of the others at the others.
    """

    def other(kind: str, mask: torch.Tensor, seed: int = 0) -> torch.Tensor:
        return in_place_of_entropy(
            kind, drawn.entropy, -drawn.entropy, mask, drawn.correct, drawn.group, per_response=False, seed=seed
        )

    if name == "average":
        # A share is a token's H (right responses) or 1/H (wrong ones) over a mean that no permutation changes.
        shuffled = [other("shuffled", drawn.mask, seed).clamp(min=1e-6) for seed in range(SHUFFLES)]
        right = sum(shuffled) / SHUFFLES
        wrong = SHUFFLES / sum(1 / values for values in shuffled)
        return torch.where(drawn.correct[:, None], right, wrong) * drawn.mask
    if name == "indicator":
        others = drawn.mask & ~drawn.pivotal
        flat = torch.where(drawn.pivotal, drawn.entropy[drawn.pivotal].mean(), drawn.entropy[others].mean())
        return flat * drawn.mask
    if name in ("shuffled_pivots", "shuffled_others"):
        on = drawn.mask & (drawn.pivotal == (name == "shuffled_pivots"))
        return torch.where(on, shuffled_among(on, drawn), drawn.entropy)
    return other(name, drawn.mask)


KINDS = {
    "entropy": "real",
    "shuffled": "shuffled",
    "shuffled_pivots": "shuffled among pivotal tokens",
    "shuffled_others": "shuffled among the others",
    "average": f"the mean of {SHUFFLES} shuffles",
    "indicator": "pivotal or not",
    "inverse": "inverse",
    "uniform": "none",
}
DOSES = (0.1, 1.0, 3.0)
RUN = {"entropy": "gtpo", "shuffled": "gtpo_shuffled"}
"""Kinds of weights that the study ran -> its arms, but for the dose."""

Ratios = Mapping[tuple[str, float], list[float]]
"""(weights, dose) -> the ratio as a multiple of that without entropy, for each of `WRONG`."""


def simulate(groups: int) -> Ratios:
    """All weights at all doses."""
    found: dict[tuple[str, float], list[float]] = {}
    for wrong in tqdm(WRONG, desc="policies"):
        drawn = draw(groups, wrong)

        def of(entropy: torch.Tensor, dose: float, drawn: Drawn = drawn) -> float:
            return ratio(gtpo(entropy, drawn.mask, drawn.correct, drawn.group, alpha2=dose).advantages, drawn)

        none = of(drawn.entropy, 0.0)
        for kind in KINDS:
            values = weights(kind, drawn)
            for alpha2 in DOSES:
                found.setdefault((kind, alpha2), []).append(of(values, alpha2) / none)
    return found


def table(ratios: Ratios) -> str:
    """Markdown: for each kind of weights and dose the ratio at the study's start, and its range over `WRONG`."""
    place = WRONG.index(START)
    rows = [
        [title, *(f"{r[place]:.2f} ({min(r):.2f} to {max(r):.2f})" for r in (ratios[kind, dose] for dose in DOSES))]
        for kind, title in KINDS.items()
    ]
    return markdown(["weights", *(f"alpha2 = {dose:g}" for dose in DOSES)], rows)


def measured(records: Path) -> dict[tuple[str, float], float]:
    """(weights, dose) -> the mean area under pass@1 of the study's runs; dose 0 is the arm without entropy."""
    values = dose.by_replicate(record.load(records))
    keys = {(kind, alpha2): f"{arm}_{alpha2:g}" for kind, arm in RUN.items() for alpha2 in (0.0, *DOSES)}
    return {
        key: mean_and_half(list(values[arm][dose.OUTCOMES[0]].values()))[0]
        for key, arm in keys.items()
        if arm in values
    }


def picture(ratios: Ratios, areas: Mapping[tuple[str, float], float], out: Path) -> None:
    """The ratio over which the runs' area is drawn, one point for each arm."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5.6, 3.3), layout="constrained")
    for (kind, alpha2), area in areas.items():
        found = ratios[kind, alpha2] if alpha2 else [1.0]
        at = found[WRONG.index(START)] if alpha2 else 1.0
        colour = "#0072B2" if kind == "entropy" else "#D55E00"
        axes.errorbar(
            [at],
            [area],
            xerr=[[at - min(found)], [max(found) - at]],
            fmt="o" if kind == "entropy" else "s",
            color=colour,
        )
        label = f"{KINDS[kind]}, {alpha2:g}" if alpha2 else "no entropy"
        axes.annotate(label, (at, area), xytext=(5, 5), textcoords="offset points", fontsize=8)
    axes.set_xlabel("simulated: signal over noise at a pivotal token, no entropy = 1")
    axes.set_ylabel("measured: area under pass@1")
    axes.set_xlim(right=1.3)
    axes.grid(alpha=0.15)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(out, dpi=120, metadata={"Software": None})
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=2000, help="prompts for each policy")
    parser.add_argument("--out", type=Path, default=RECORDS, help="folder of pivot.png")
    args = parser.parse_args()
    ratios = simulate(args.groups)
    print(table(ratios))
    picture(ratios, measured(RECORDS), args.out / "pivot.png")


if __name__ == "__main__":
    main()
