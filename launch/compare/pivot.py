"""What a step teaches at a pivotal token, over its noise: a simulation of a study's arms without a run.

    python launch/compare/pivot.py [--groups N] [--out FOLDER]

Responses to a task are drawn from a policy that is a table: at each *state*, a gate and a digit, it takes the right
operation with a probability of its own. The project's own `gtpo` turns them into advantages A. With x = 1 for a right
operation and 0 for a wrong one, and p the policy's probability of a right one, a group of responses moves the log-odds
of the right one at a state by

    U = sum over the group's visits of A (x - p)

(the score function of a choice between two). The mean of U over groups is what is learned at the state, its standard
deviation is what is chance, and their ratio is given as a multiple of that without entropy (alpha2 = 0). What is left
out: tokens that share a network's parameters, clipping, Adam, and all that changes after the first step.

It prints a table for each task and writes pivot.png: the ratio for `wordings` beside the area under pass@1 that the
runs had (the records in docs/studies/entropy).
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "laptop"))

import dose
import gates
import record
import traps
import wordings
from contrasts import by_replicate
from gates import Row
from inference import mean_and_half
from openrlhf_gtpo.algorithms.estimators import Rollouts
from openrlhf_gtpo.shaping import gtpo
from openrlhf_gtpo.tables import markdown
from pivotal import WEIGHTS, weighed

SAMPLES = 16  # responses to a prompt, as in the studies
CERTAIN = 0.01  # nats; mean entropy of a token that follows from what stands before
FEW = 30  # visits in fewer groups than these say nothing about a state
FEWEST = 400  # prompts: with fewer no exception of `traps` may be visited in so many groups
RECORDS = Path(__file__).resolve().parents[2] / "docs" / "studies" / "entropy"

State = tuple[str, int]
"""A gate and the digit that comes to it."""


@dataclass(frozen=True)
class Token:
    """One token of a response: its entropy in nats and, where it is pivotal, its state and whether it was right."""

    entropy: float
    state: State | None = None
    right: bool = False


class Policy:
    """A table: the probability of the right operation at each state."""

    def __init__(self, wrong: Mapping[str, float], spread: float, rng: random.Random) -> None:
        """
        Args:
            wrong: gate -> the probability of its wrong operation at a middling digit.
            spread: standard deviation, over states, of the log-odds of the right operation.
            rng: draws the states' log-odds here, and responses later.
        """
        self.rng = rng
        self.right = {
            (letter, digit): 1 / (1 + math.exp(-rng.gauss(math.log((1 - p) / p), spread)))
            for letter, p in wrong.items()
            for digit in range(10)
        }

    def operation(self, state: State, words: int = 1) -> Token:
        """A token that says one of two operations, in one of so many words."""
        p = self.right[state]
        entropy = math.log(words) - p * math.log(p) - (1 - p) * math.log(1 - p)
        return Token(entropy, state, self.rng.random() < p)

    def certain(self, count: int) -> list[Token]:
        return [Token(self.rng.expovariate(1 / CERTAIN)) for _ in range(count)]


def in_words(policy: Policy, row: Row) -> tuple[list[Token], bool]:
    """A response to `wordings`, and whether it is correct: its last digit is."""
    tokens: list[Token] = []
    digit = row.digit
    for letter in row.letters:
        said = policy.operation((letter, digit), len(wordings.ADD))
        multiply = gates.multiplies(letter, digit) == said.right
        sign, constant = gates.operation(letter, multiply)
        word = policy.rng.choice(wordings.MULTIPLY if multiply else wordings.ADD)
        more = 0 if word in wordings.TASK.words else len(word) - 1
        tokens += [*policy.certain(2), said, *policy.certain(more + 4)]  # letter digit WORD constant = result newline
        digit = (digit * constant if sign == "*" else digit + constant) % 10
    return tokens + policy.certain(4), str(digit) == wordings.TASK.answer(row)  # \\boxed{ digit } and the end


def in_traps(policy: Policy, row: Row) -> tuple[list[Token], bool]:
    """A response to `traps`, and whether it is correct: every operation is."""
    synonym, checked = math.log(len(traps.SYNONYMS)), traps.CHECKED
    begins = -checked * math.log(checked) - (1 - checked) * math.log(1 - checked)
    tokens: list[Token] = []
    digit, is_correct, first = row.digit, True, policy.certain(1)
    for letter in row.letters:
        said = policy.operation((letter, digit))
        is_correct &= said.right
        # letter digit OPERATION constant SYNONYM result newline
        tokens += [*first, *policy.certain(1), said, *policy.certain(1), Token(synonym), *policy.certain(2)]
        first = [Token(begins)]  # of the next gate's line or the box, or `again`
        if policy.rng.random() < checked:
            tokens += [*first, *policy.certain(4), Token(synonym), *policy.certain(2)]
            first = policy.certain(1)
        sign, constant = traps.operation(letter, traps.multiplies(letter, digit) == said.right)
        digit = (digit * constant if sign == "*" else digit + constant) % 10
    return tokens + first + policy.certain(6), is_correct  # \\boxed{ five digits } and the end


@dataclass(frozen=True)
class Task:
    """What is simulated."""

    name: str
    draw: Callable[[random.Random], Row]
    response: Callable[[Policy, Row], tuple[list[Token], bool]]
    policies: tuple[tuple[Mapping[str, float], float], ...]
    """Arguments of `Policy`; the first is the study's start, the others are around it."""
    gates: Mapping[str, str]
    """Title of a table -> the gates whose states count in it."""


def everywhere(wrong: float) -> dict[str, float]:
    return dict.fromkeys(gates.LETTERS, wrong)


def with_habits(slip: float, habit: float) -> dict[str, float]:
    return {letter: habit if letter in traps.EXCEPTIONS else slip for letter in traps.LETTERS}


TRAPS = tuple(
    (with_habits(slip, habit), 0.5) for slip, habit in ((0.30, 0.85), (0.25, 0.85), (0.30, 0.80), (0.30, 0.90))
)
RULE = "".join(letter for letter in traps.LETTERS if letter not in traps.EXCEPTIONS)
TASKS = (
    # 0.15 has the start of the study's policy: pass@1 0.28 and 0.32 nats.
    Task(
        "wordings",
        wordings.TASK.draw,
        in_words,
        tuple((everywhere(wrong), 1.0) for wrong in (0.15, 0.10, 0.22, 0.30)),
        {"wordings": gates.LETTERS},
    ),
    Task(
        "traps",
        traps.TASK.draw,
        in_traps,
        TRAPS,
        {"traps, at exceptions": traps.EXCEPTIONS, "traps, at gates of the rule": RULE},
    ),
)


@dataclass(frozen=True, eq=False)
class Drawn:
    """A batch of N responses of at most T tokens.

    Attributes:
        entropy: (N, T) nats, 0 off the mask.
        mask: (N, T) bool.
        correct: (N,) bool.
        group: (N,) int.
        state: (N, T) int, the number of a pivotal token's state; -1 elsewhere.
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


def draw(task: Task, groups: int, wrong: Mapping[str, float], spread: float) -> Drawn:
    """Responses to this many prompts, `SAMPLES` to each."""
    rng = random.Random(0)
    policy = Policy(wrong, spread, rng)
    responses: list[list[Token]] = []
    correct: list[bool] = []
    for _ in range(groups):
        row = task.draw(rng)
        for _ in range(SAMPLES):
            tokens, is_correct = task.response(policy, row)
            responses.append(tokens)
            correct.append(is_correct)
    shape = (len(responses), max(map(len, responses)))
    entropy, surprise = torch.zeros(shape, dtype=torch.float64), torch.zeros(shape, dtype=torch.float64)
    mask, state = torch.zeros(shape, dtype=torch.bool), torch.full(shape, -1)
    numbers = {of: number for number, of in enumerate(policy.right)}
    for n, tokens in enumerate(responses):
        mask[n, : len(tokens)] = True
        entropy[n, : len(tokens)] = torch.tensor([token.entropy for token in tokens])
        for t, token in enumerate(tokens):
            if token.state is not None:
                state[n, t], surprise[n, t] = numbers[token.state], token.right - policy.right[token.state]
    group = torch.arange(groups).repeat_interleave(SAMPLES)
    return Drawn(entropy, mask, torch.tensor(correct), group, state, surprise)


def ratio(advantages: torch.Tensor, drawn: Drawn, states: range) -> float:
    """Mean over these states of the mean of U over its standard deviation, over the groups that visit the state."""
    visits = (drawn.state >= states.start) & (drawn.state < states.stop)
    key = (drawn.group[:, None] * len(states) + drawn.state - states.start)[visits]
    size = (int(drawn.group.max()) + 1) * len(states)
    update = torch.zeros(size, dtype=torch.float64).index_add_(0, key, (advantages * drawn.surprise)[visits])
    visited = torch.zeros(size, dtype=torch.bool).index_fill_(0, key, True)
    found = [
        (seen.mean() / seen.std()).item()
        for seen in (
            u[v] for u, v in zip(update.view(-1, len(states)).T, visited.view(-1, len(states)).T, strict=True)
        )
        if len(seen) >= FEW and seen.std() > 0
    ]
    return sum(found) / len(found)


def weights(kind: str, drawn: Drawn) -> torch.Tensor:
    """(N, T) what takes the place of the entropies (`pivotal.weighed`)."""
    reward = drawn.correct.to(drawn.entropy.dtype)
    rollouts = Rollouts(
        drawn.entropy, -drawn.entropy, drawn.mask, drawn.correct, drawn.group, reward, torch.zeros_like(reward)
    )
    return weighed(kind, rollouts, drawn.pivotal)


KINDS = {kind: title for kind, title in WEIGHTS.items() if kind != "surprisal"}
"""What is drawn here has no log-probabilities."""
DOSES = (0.1, 1.0, 3.0)
RUN = {"entropy": "gtpo", "shuffled": "gtpo_shuffled"}
"""Kinds of weights that the study ran -> its arms, but for the dose."""

Ratios = Mapping[tuple[str, float], list[float]]
"""(weights, dose) -> the ratio as a multiple of that without entropy, for each of a task's policies."""


def simulate(task: Task, groups: int) -> dict[str, Ratios]:
    """All weights at all doses, for each of the task's tables."""
    found: dict[str, dict[tuple[str, float], list[float]]] = {title: {} for title in task.gates}
    for wrong, spread in tqdm(task.policies, desc=task.name):
        drawn = draw(task, groups, wrong, spread)
        firsts = {title: 10 * list(wrong).index(some[0]) for title, some in task.gates.items()}
        states = {title: range(firsts[title], firsts[title] + 10 * len(some)) for title, some in task.gates.items()}

        def of(entropy: torch.Tensor, dose: float, drawn: Drawn = drawn) -> torch.Tensor:
            return gtpo(entropy, drawn.mask, drawn.correct, drawn.group, alpha2=dose).advantages

        advantages = of(drawn.entropy, 0.0)
        none = {title: ratio(advantages, drawn, some) for title, some in states.items()}
        for kind in KINDS:
            values = weights(kind, drawn)
            for alpha2 in DOSES:
                advantages = of(values, alpha2)
                for title, some in states.items():
                    relative = ratio(advantages, drawn, some) / none[title]
                    found[title].setdefault((kind, alpha2), []).append(relative)
    return found


def table(ratios: Ratios) -> str:
    """Markdown: for each kind of weights and dose the ratio at the study's start, and its range over the policies."""
    rows = [
        [title, *(f"{r[0]:.2f} ({min(r):.2f} to {max(r):.2f})" for r in (ratios[kind, dose] for dose in DOSES))]
        for kind, title in KINDS.items()
    ]
    return markdown(["weights", *(f"alpha2 = {dose:g}" for dose in DOSES)], rows)


def measured(records: Path) -> dict[tuple[str, float], float]:
    """(weights, dose) -> the mean area under pass@1 of the study's runs; dose 0 is the arm without entropy."""
    values = by_replicate(record.load(records), dose.outcomes)
    keys = {(kind, alpha2): f"{arm}_{alpha2:g}" for kind, arm in RUN.items() for alpha2 in (0.0, *DOSES)}
    return {
        key: mean_and_half(list(values[arm][dose.OUTCOMES[0]].values()))[0]
        for key, arm in keys.items()
        if arm in values
    }


def picture(ratios: Ratios, areas: Mapping[tuple[str, float], float], out: Path) -> None:
    """One point for each arm that was run: the ratio, with its range over policies, and the runs' area."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5.6, 3.3), layout="constrained")
    for (kind, alpha2), area in areas.items():
        found = ratios[kind, alpha2] if alpha2 else [1.0]
        colour, mark = ("#0072B2", "o") if kind == "entropy" else ("#D55E00", "s")
        reach = [[found[0] - min(found)], [max(found) - found[0]]]
        axes.errorbar([found[0]], [area], xerr=reach, fmt=mark, color=colour)
        label = f"{KINDS[kind]}, {alpha2:g}" if alpha2 else "no entropy"
        place = (-34, 5) if (kind, alpha2) == ("entropy", 1.0) else (6, 4)  # beside its neighbour's, not on it
        axes.annotate(label, (found[0], area), xytext=place, textcoords="offset points", fontsize=8)
    axes.set_xlabel("simulated: signal over noise at a pivotal token (no entropy: 1)")
    axes.set_ylabel("measured: area under pass@1")
    axes.set_xlim(right=1.25)
    axes.set_ylim(top=0.6)
    axes.grid(alpha=0.15)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(out, dpi=120, metadata={"Software": None})
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=2000, help=f"prompts for each policy, {FEWEST} or more (2000)")
    parser.add_argument("--out", type=Path, default=RECORDS, help="folder of pivot.png")
    args = parser.parse_args()
    if args.groups < FEWEST:
        parser.error(f"--groups is {args.groups}, but fewer than {FEWEST} visit too few states often enough")
    for task in TASKS:
        for title, ratios in simulate(task, args.groups).items():
            print(f"{title}\n\n{table(ratios)}\n")
            if title == "wordings":
                picture(ratios, measured(RECORDS), args.out / "pivot.png")


if __name__ == "__main__":
    main()
