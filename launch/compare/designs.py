"""What a study is, as data, and the command lines of its runs.

Runs of the same policy and seed begin with the same weights, see the same prompts in the same order, draw their tokens
with the same noise, and differ only in their arm's flags.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import record
import results

ROOT = Path(__file__).resolve().parents[2]

PROMPTS, SAMPLES = 16, 8  # a step
MAX_NEW_TOKENS, MAX_LENGTH = 64, 96
FINAL_SAMPLES = 32
MOST_SEEDS = 64
EVALUATED_AT_ONCE = 512  # responses
HELD_OUT_PROMPTS = 400  # what the warm start writes
JOBS = max(1, min(8, (os.cpu_count() or 1)))
"""Runs at a time where --jobs does not say so."""
GUIDE = "{guide}"
"""Placeholder for the guide's model in an arm's flags."""
FOLLOWED = "{followed}"
"""Placeholder, in the flags of an arm that follows another, for the folder of that arm's run with the same policy and
seed."""


@dataclass(frozen=True)
class Arm:
    """One way to train."""

    key: str
    """Prefix of its runs' folders."""
    title: str
    flags: tuple[str, ...]
    """Flags that distinguish it from the other arms."""
    seeds: int = 3
    """How many runs it has with each policy where --seeds does not say so."""
    rank: int = 0
    """Arms of a lower rank are run first, with all their seeds."""
    follows: str | None = None
    """Key of the arm whose run with the same policy and seed has to end before this one's begins."""


@dataclass(frozen=True)
class Design:
    """A study as data."""

    name: str
    """Of its folder under runs/."""
    title: str
    """Of its report."""
    description: str
    task: str
    """A module of launch/laptop."""
    arms: tuple[Arm, ...]
    batch_size: int
    """Responses of an optimiser update. The same for all arms, so it divides the responses of each arm's step."""
    prompts_for_filtering: int
    """Factor for the number of prompts: dynamic filtering drops some, and a run ends when its prompts are used up."""
    evaluations: int
    """During training."""
    evaluation_prompts: int
    evaluation_samples: int
    layout: results.Layout | None
    """None: `analyse` makes the results, and the last evaluation in training is a run's result."""
    steps: int = 120
    """Default number of steps of each run."""
    prompts: int = PROMPTS
    """Of a step."""
    samples: int = SAMPLES
    """Responses to each prompt."""
    max_new_tokens: int = MAX_NEW_TOKENS
    max_length: int = MAX_LENGTH
    """Of prompt and response together, in tokens."""
    learning_rate: float = 1e-4
    final_samples: int | None = FINAL_SAMPLES
    """Responses to each prompt of the evaluation at a run's end, by an engine of its own. None: there is none, since
    the last evaluation in training is at the last step; a finished run is then its record alone."""
    final_prompts: int = 200
    """Of that evaluation, where --final_prompts does not say so."""
    saved_groups: int = 1
    """Groups of responses that every step keeps, token by token."""
    operations: tuple[str, ...] = ()
    """Tokens on which everything depends: a record has the mean entropy of those in the groups that were kept."""
    analyse: Callable[[Path, Path], str] | None = None
    """Writes table.md out of a folder of records to another folder, and returns its text; None where the layout says
    what the tables are."""
    has_guide: bool = False
    """Whether there is a second policy, with the task's strong skill."""
    policies: tuple[int, ...] = (0,)
    """Initial policies: seeds of warm starts. With several of them, differences are averaged for each, and intervals
    are over policies."""

    def arm(self, key: str) -> Arm:
        return next(arm for arm in self.arms if arm.key == key)


@dataclass(frozen=True)
class Study:
    """The runs of a study, and their folder."""

    design: Design
    out: Path
    arms: tuple[str, ...]
    """Keys of the design's arms that are run."""
    seeds: int | None
    """Of each arm; None: as many as the design has."""
    steps: int
    jobs: int
    learning_rate: float
    start: Path
    """Folder of policy 0 with model/, train.jsonl and heldout.jsonl; those of the others are beside it."""
    guide: Path | None
    """Folder with the guiding policy's model/."""
    final_prompts: int
    records_at: Path | None = field(default=None, kw_only=True)
    """Folder of the records of finished runs; None for one below `out`."""
    policies: tuple[int, ...] = field(default=(0,), kw_only=True)
    commit: str = field(default_factory=record.commit, kw_only=True)
    """Of the code when the study began: its processes are forks of one that has imported it."""

    @property
    def prompts(self) -> Path:
        """Folder with train.jsonl and heldout.jsonl, which are the same for all policies."""
        return self.start_of(self.policies[0])

    def start_of(self, policy: int) -> Path:
        return self.start.with_name(self.start.name + record.of_policy(policy))

    @property
    def records(self) -> Path:
        return self.records_at or self.out / "records"

    def seeds_of(self, arm: Arm) -> int:
        return arm.seeds if self.seeds is None else self.seeds

    def jobs_in_order(self) -> list[Job]:
        """Every run: arms of a lower rank first, and all arms of a policy and seed before the next, so that an
        interrupted study has whole comparisons."""
        arms = [self.design.arm(key) for key in self.arms]
        runs = [Job(arm, seed, p) for arm in arms for seed in range(self.seeds_of(arm)) for p in self.policies]
        # Stable: arms stay in the design's order.
        return sorted(runs, key=lambda job: (job.arm.rank, job.seed, job.policy))

    def settings(self) -> dict[str, Any]:
        """The settings that determine a run's outcome; all runs in a folder have the same."""
        found = {
            "steps": self.steps,
            "learning_rate": self.learning_rate,
            "start": self._place(self.start),
            "final_prompts": self.final_prompts,
        }
        return found if self.guide is None else {**found, "guide": self._place(self.guide)}

    def _place(self, folder: Path) -> str:
        return folder.name if folder.parent == self.out else str(folder)


@dataclass(frozen=True)
class Job:
    """One arm with one seed and one initial policy."""

    arm: Arm
    seed: int
    policy: int = 0

    @property
    def name(self) -> str:
        return record.name_of(self.arm.key, self.policy, self.seed)

    @property
    def train_seed(self) -> int:
        """Decides the order of prompts and all noise: the same for all arms, another for every policy and seed, so
        that policies share nothing by chance."""
        return self.policy * MOST_SEEDS + self.seed

    def folder(self, study: Study) -> Path:
        return study.out / self.name

    def followed(self, study: Study) -> Job | None:
        """The run that has to end before this one begins."""
        key = self.arm.follows
        return None if key is None else Job(study.design.arm(key), self.seed, self.policy)

    def may_begin(self, study: Study) -> bool:
        followed = self.followed(study)
        return followed is None or followed.is_done(study)

    def is_done(self, study: Study) -> bool:
        recorded = (study.records / f"{self.name}.json").is_file()
        if study.design.final_samples is None:
            return recorded
        return recorded and (self.folder(study) / "final" / "eval.json").is_file()  # the report shows its responses


def training(study: Study, job: Job) -> list[str]:
    """The command line: the arm's flags, and those of all arms."""
    folder, design = job.folder(study), study.design
    flags: dict[str, Any] = {
        "device": "cpu",
        "actor.model_name_or_path": study.start_of(job.policy) / "model",
        "data.prompt_dataset": study.prompts / "train.jsonl",
        "data.input_key": "input",
        "data.label_key": "label",
        "data.max_len": design.max_length,
        "train.max_steps": study.steps,
        "train.num_episodes": 1,
        "train.seed": job.train_seed,
        "train.batch_size": design.batch_size,
        "train.micro_batch_size": 32,
        "rollout.batch_size": design.prompts,
        "rollout.n_samples_per_prompt": design.samples,
        "rollout.micro_batch_size": 32,
        "rollout.max_new_tokens": design.max_new_tokens,
        "actor.adam.lr": study.learning_rate,
        "actor.num_gpus_per_node": 1,
        "vllm.num_engines": 1,
        "eval.dataset": study.out / "heldout.jsonl",
        "eval.steps": max(1, study.steps // design.evaluations),
        "eval.n_samples_per_prompt": design.evaluation_samples,
        "eval.temperature": 1.0,
        "ckpt.output_dir": folder / "model",
        "ckpt.path": folder / "state",
        "logger.metrics_path": folder / "metrics.jsonl",
        "shaping.save_rollouts": design.saved_groups,
    }
    command = [sys.executable, "-m", "openrlhf_gtpo", "train", "--data.apply_chat_template"]
    guide = "" if study.guide is None else str(study.guide / "model")
    followed = job.followed(study)
    before = "" if followed is None else str(followed.folder(study))
    command += [flag.replace(GUIDE, guide).replace(FOLLOWED, before) for flag in job.arm.flags]
    # By default OpenRLHF would keep a checkpoint of each best evaluation.
    command += ["--ckpt.best_metric_key", "none"]
    # An engine takes a step's responses at once; an evaluation has more, and is quicker in fewer waves.
    command += ["--vllm.max_num_seqs", str(max(design.prompts * design.samples, EVALUATED_AT_ONCE))]
    return command + [part for name, value in flags.items() for part in (f"--{name}", str(value))]


def evaluation(study: Study, model: Path | str, out: Path, seed: int, device: str = "cpu") -> list[str]:
    """The command line of an evaluation at a run's end or, where runs have none, of one like those in training."""
    design = study.design
    data, samples, prompts = study.prompts / "heldout.jsonl", design.final_samples, study.final_prompts
    if samples is None:
        data, samples, prompts = study.out / "heldout.jsonl", design.evaluation_samples, design.evaluation_prompts
    command = [sys.executable, "-m", "openrlhf_gtpo", "eval", "--device", device, "--model", str(model)]
    command += ["--data", str(data), "--out", str(out), "--seed", str(seed)]
    powers = ",".join(str(2**power) for power in range(samples.bit_length()))
    command += ["--n", str(samples), "--k", powers, "--max_prompts", str(prompts)]
    return [*command, "--max_new_tokens", str(study.design.max_new_tokens)]
