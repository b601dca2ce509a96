"""What a study is, as data, and the command lines of its runs.

Runs of the same policy and seed begin with the same weights, see the same prompts in the same order, draw their tokens
with the same noise, and differ only in their arm's flags.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import record
from results import Layout

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


@dataclass(frozen=True)
class Arm:
    """One way to train."""

    key: str
    """Prefix of its runs' folders."""
    title: str
    flags: tuple[str, ...]
    """Flags that distinguish it from the other arms."""


@dataclass(frozen=True)
class Design:
    """A study as data."""

    name: str
    """Of its folder under runs/."""
    title: str
    """Of its report."""
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
    layout: Layout | None = None
    """None where whoever performs the study makes its tables."""
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
    more: tuple[str, ...] = ()
    """Flags of all arms."""
    strict: bool = False
    """Whether an answer counts in its box alone, in the evaluation too."""
    has_guide: bool = False
    """Whether there is a second policy, with the task's strong skill."""

    @property
    def measured(self) -> tuple[str, ...]:
        """Names of the policies from before the runs that are evaluated, which are those of their folders."""
        return ("start", "guide") if self.has_guide else ("start",)

    def arm(self, key: str) -> Arm:
        return next(arm for arm in self.arms if arm.key == key)


@dataclass(frozen=True)
class Study:
    """The runs of a study, and their folder."""

    design: Design
    out: Path
    arms: tuple[str, ...]
    """Keys of the design's arms that are run."""
    seeds: int
    """Of each arm and policy."""
    steps: int
    jobs: int
    start: Path
    """Folder of policy 0 with model/, train.jsonl and heldout.jsonl; those of the others are beside it."""
    guide: Path | None
    """Folder with the guiding policy's model/."""
    final_prompts: int
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
        """Folder of the records of finished runs."""
        return self.out / "records"

    def jobs_in_order(self) -> list[Job]:
        """Every run: all arms of a policy and seed before the next, so that an interrupted study has whole
        comparisons."""
        arms = [self.design.arm(key) for key in self.arms]
        return [Job(arm, seed, policy) for seed in range(self.seeds) for policy in self.policies for arm in arms]

    def settings(self) -> dict[str, Any]:
        """The settings that determine a run's outcome; all runs in a folder have the same."""
        found = {
            "steps": self.steps,
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
        "actor.adam.lr": design.learning_rate,
        "actor.num_gpus_per_node": 1,
        "vllm.num_engines": 1,
        "eval.dataset": study.out / "heldout.jsonl",
        "eval.steps": max(1, study.steps // design.evaluations),
        "eval.n_samples_per_prompt": design.evaluation_samples,
        "eval.temperature": 1.0,
        "ckpt.output_dir": folder / "model",
        "ckpt.path": folder / "state",
        "logger.metrics_path": folder / "metrics.jsonl",
        "shaping.save_rollouts": 1,
    }
    command = [sys.executable, "-m", "openrlhf_gtpo", "train", "--data.apply_chat_template"]
    guide = "" if study.guide is None else str(study.guide / "model")
    command += [flag.replace(GUIDE, guide) for flag in (*design.more, *job.arm.flags)]
    command += ["--reward.mode", "strict"] if design.strict else []
    # By default OpenRLHF would keep a checkpoint of each best evaluation.
    command += ["--ckpt.best_metric_key", "none"]
    # An engine takes a step's responses at once; an evaluation has more, and is quicker in fewer waves.
    command += ["--vllm.max_num_seqs", str(max(design.prompts * design.samples, EVALUATED_AT_ONCE))]
    return command + [part for name, value in flags.items() for part in (f"--{name}", str(value))]


def evaluation(study: Study, model: Path, out: Path, seed: int) -> list[str]:
    """The command line of an evaluation at a run's end or, where runs have none, of one like those in training."""
    design = study.design
    data, samples, prompts = study.prompts / "heldout.jsonl", design.final_samples, study.final_prompts
    if samples is None:
        data, samples, prompts = study.out / "heldout.jsonl", design.evaluation_samples, design.evaluation_prompts
    command = [sys.executable, "-m", "openrlhf_gtpo", "eval", "--device", "cpu", "--model", str(model)]
    command += ["--data", str(data), "--out", str(out), "--seed", str(seed)]
    powers = ",".join(str(2**power) for power in range(samples.bit_length()))
    command += ["--n", str(samples), "--k", powers, "--max_prompts", str(prompts)]
    command += ["--reward_mode", "strict"] if design.strict else []
    return [*command, "--max_new_tokens", str(design.max_new_tokens)]
