"""An idea on trial: a function of one's own, its arms beside GRPO, GTPO and its shuffled control, and
the two tasks that it is tried on."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from designs import ROOT, Arm, Design, Study
from openrlhf_gtpo.algorithms.estimators import Estimator, estimator_named, small_batch, try_out
from openrlhf_gtpo.batch import RolloutBatch
from record import Record
from shuffled_idea import permuted, write_control

POLICIES = (0, 1, 2, 3, 4, 5)
GRPO, GTPO, SHUFFLED = "grpo", "gtpo", "-shuffled"
"""Keys of arms; the last is the end of the key of an idea's control."""
# A rate that falls within so few steps would leave little to see.
FLAT = ("--actor.min_lr_ratio", "1.0")
FLAGS = {
    GRPO: ("--preset", "grpo", *FLAT),
    # The length of a response is chance on these tasks: a punishment of long ones would hide what entropy does.
    GTPO: ("--preset", "gtpo", "--no-shaping.grop", "--shaping.alpha2", "0.1", *FLAT),
}
TITLES = {GRPO: "GRPO", GTPO: "GTPO, alpha2 = 0.1"}
SAMPLES = 16
"""Responses to each prompt."""


@dataclass(frozen=True)
class Bench:
    """One of the two tasks."""

    design: Design
    figures: Mapping[str, Callable[[Record], float]]
    """Name of an outcome that is tested -> its value."""

    @property
    def outcomes(self) -> list[str]:
        """Their names in tables."""
        return [f"{self.design.task}: {name}" for name in self.figures]


def pass_rate(run: Record) -> float:
    """Of all responses of all steps. A step's prompts are new, so none was learned from before it is counted, and the
    arms of a policy answer the same prompts."""
    return statistics.fmean(value for _, value in run.points("reward"))


def at_end(key: str) -> Callable[[Record], float]:
    return lambda run: run.last[key]


def settings(task: str, steps: int, max_new_tokens: int, max_length: int, evaluation_samples: int) -> Design:
    """A task's settings; one evaluation, at the end. The arms come with the idea."""
    return Design(
        name="try",
        title=f"An idea on {task}",
        task=task,
        arms=(),
        batch_size=128,
        prompts_for_filtering=1,
        evaluations=1,
        evaluation_prompts=64,
        evaluation_samples=evaluation_samples,
        steps=steps,
        prompts=16,
        samples=SAMPLES,
        max_new_tokens=max_new_tokens,
        max_length=max_length,
        learning_rate=1.5e-4,
        final_samples=None,
    )


BENCHES = {
    "wordings": Bench(
        settings("wordings", steps=16, max_new_tokens=120, max_length=144, evaluation_samples=16),
        {"pass rate in training": pass_rate},
    ),
    # After 16 steps GRPO's pass@32 has not fallen yet, after 32 it has.
    "traps": Bench(
        settings("traps", steps=32, max_new_tokens=96, max_length=112, evaluation_samples=32),
        {"pass@1 at the end": at_end("pass@1"), "pass@32 at the end": at_end("pass@32")},
    ),
}
OUTCOMES = [name for one in BENCHES.values() for name in one.outcomes]


@dataclass(frozen=True)
class Idea:
    """A function of one's own."""

    place: str
    """``FILE.py:NAME`` of a copy, which stays as it is when the file is edited."""
    sha256: str
    """Of the file."""
    is_shuffled_by: bool
    """Whether other entropies and log-probabilities change an advantage."""

    @property
    def name(self) -> str:
        return self.place.rpartition(":")[2]

    @property
    def key(self) -> str:
        return f"{self.name}-{self.sha256[:12]}"


def read_idea(place: str, out: Path) -> Idea:
    """Try an idea on small batches, and keep a copy of its file in a folder of its name and SHA-256.

    Args:
        place: ``FILE.py:NAME``.
        out: where the folder is.

    Raises:
        ValueError: it cannot be loaded, or does not return advantages.
    """
    if ".py:" not in place:
        raise ValueError(f"{place} does not name a Python file: write FILE.py:NAME.")
    try_out(place, SAMPLES)
    estimator = estimator_named(place)
    assert estimator is not None
    path, _, name = place.rpartition(":")
    content = Path(path).read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    copy = out / f"{name}-{digest[:12]}" / Path(path).name
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_bytes(content)
    at = copy.relative_to(ROOT) if copy.is_relative_to(ROOT) else copy
    return Idea(f"{at}:{name}", digest, reads_tokens(estimator))


def reads_tokens(estimator: Estimator) -> bool:
    """Whether a function's advantages change when entropies and log-probabilities are shuffled."""

    def advantages(batch: RolloutBatch) -> torch.Tensor:
        found: torch.Tensor = estimator.function(batch).advantages
        return found

    def mixed(batch: RolloutBatch) -> RolloutBatch:
        entropy, logprob = permuted([batch.entropy, batch.logprob], batch.mask, batch.correct, batch.group)
        other = copy.copy(batch)
        other.entropy, other.logprob = entropy, logprob
        return other

    batches = [small_batch(SAMPLES, seed) for seed in range(4)]
    return any(not torch.allclose(advantages(one), advantages(mixed(one)), atol=1e-6) for one in batches)


def arms(idea: Idea) -> tuple[Arm, ...]:
    """The four arms, or three where the control would be the same run as the idea."""
    flags = dict(FLAGS)
    flags[idea.key] = (*FLAGS[GRPO], "--algo.advantage.estimator", idea.place)
    if idea.is_shuffled_by:
        flags[idea.key + SHUFFLED] = (*FLAGS[GRPO], "--algo.advantage.estimator", write_control(idea.place))
    return tuple(Arm(key, title(key), mine) for key, mine in flags.items())


def title(key: str) -> str:
    """Of an arm."""
    name = key.removesuffix(SHUFFLED).rpartition("-")[0]
    return TITLES.get(key) or (f"{name}, shuffled" if key.endswith(SHUFFLED) else name)


def study(idea: Idea, task: str, base: Path, steps: int | None, policies: tuple[int, ...], jobs: int) -> Study:
    """An idea's runs on a task, in a folder that it shares with all ideas of the same commit and settings.

    Args:
        idea: whose arms.
        task: a key of `BENCHES`.
        base: the commit's folder.
        steps: of each run; None for the task's own number.
        policies: the initial ones.
        jobs: runs at a time.
    """
    design = dataclasses.replace(BENCHES[task].design, arms=arms(idea))
    steps = design.steps if steps is None else steps
    out = base / f"{task}-{steps}-steps"
    keys = tuple(arm.key for arm in design.arms)
    rest = (jobs, out / "warm_start", None, design.final_prompts)
    return Study(design, out, keys, 1, steps, *rest, policies=policies)
