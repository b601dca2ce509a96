"""One finished run as one small file: what a study's analysis needs, in a few KiB, so that the runs of several days
can be committed and analysed together."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from inference import Replicate
from openrlhf_gtpo.controller.run_record import ORDER, PACKAGES
from openrlhf_gtpo.report.run import Run, read

ROOT = Path(__file__).resolve().parents[2]

SERIES = {
    "entropy": "entropy/token_mean",
    "length": "rollout/response_length_mean",
    "reward": "rollout/pass_rate",
    "responses": "reward/items_total",
    "prompts": "rollout/prompts_consumed",
    "seconds": "timing/step_total",
    "rescued": "guide/rescued_share",
    "unsolved": "guide/zero_reward_groups",
    "guide_right": "guide/pass_rate",
    "guide_responses": "guide/responses",
    "updates": "policy/updates",
    "gradient_norm": "actor_grad_norm",
    "weight_entropy_correlation": "shaping/weight_entropy_correlation",
}
"""Of a record's training -> the metric, which the glossary describes."""

SETTINGS = (
    "actor.adam.lr",
    "train.batch_size",
    "train.micro_batch_size",
    "rollout.batch_size",
    "rollout.n_samples_per_prompt",
)
"""Flags whose values a record has, whether its arm or the study set them."""

CONTENTS = {
    "data.prompt_dataset": "files of training prompts",
    "eval.dataset": "files of held-out prompts",
    "guide.model": "guides",
}
"""What is the same for all runs of a study, by its name in run.json's `sha256`."""


@dataclass(frozen=True)
class Record:
    """One arm with one seed."""

    arm: str
    seed: int
    flags: tuple[str, ...]
    """Those of the arm alone."""
    steps: int
    commit: str
    """Of the code that made it, with `-dirty` where files differed from it."""
    seconds: float
    """Wall time of the whole run, start and evaluations included."""
    evaluations: tuple[dict[str, float], ...]
    """Of held-out prompts, by step, from step 0 or, where there is `final`, from the first one in training: `step`,
    `pass@k` for every k, `entropy` (nats a token), `samples` (responses)."""
    training: dict[str, tuple[float | None, ...]]
    """By step, from step 1: those of `SERIES` that the run has, None in steps without a value."""
    final: dict[str, float] = field(default_factory=dict)
    """Figures of an evaluation of its own at the run's end, as `openrlhf-gtpo eval` names them; empty where the last
    one in training is the result."""
    before: dict[str, dict[str, float]] = field(default_factory=dict)
    """The same of the policies from before the runs, by name: `start`, `guide`; empty where `final` is empty."""
    solved: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Correct responses to each prompt of these evaluations, in their order, by name: `final` and those of `before`;
    empty where `final` is empty, and in records of before 2026-11-24."""
    operations: tuple[float | None, ...] = ()
    """Mean entropy of the design's operation tokens, nats, by step, over the groups that were kept; None where none of
    them has one; empty where the design names none."""
    policy: int = 0
    """Seed of the warm start that made the initial policy."""
    started: str = ""
    """When the run began, UTC; this and what follows are empty in records of before 2026-11-24."""
    versions: dict[str, str] = field(default_factory=dict)
    """Of Python and of the packages."""
    sha256: dict[str, str | None] = field(default_factory=dict)
    """Of initial policy, data, order of prompts and final weights, as run.json has them; None where one is missing."""
    settings: dict[str, float] = field(default_factory=dict)
    """Those of `SETTINGS`."""

    @property
    def replicate(self) -> Replicate:
        return self.policy, self.seed

    @property
    def name(self) -> str:
        return name_of(self.arm, self.policy, self.seed)

    @property
    def last(self) -> Mapping[str, float]:
        return self.evaluations[-1]

    def series(self, name: str) -> list[float]:
        """A figure of training by step, without the steps that have none; empty for a run without it."""
        return [value for value in self.training.get(name, ()) if value is not None]

    @property
    def run(self) -> Run:
        """The run, as far as the record has it, under the names that its files have."""
        names = [SERIES[key] for key in self.training]
        metrics = [
            {"step": step, **dict(zip(names, values, strict=True))}
            for step, values in enumerate(zip(*self.training.values(), strict=True), 1)
        ]
        ours = {"entropy": "eval_heldout_entropy_token_mean", "samples": "eval_num_samples"}
        evaluations = [
            {ours.get(key, key.replace("pass@", "eval_heldout_pass")): value for key, value in row.items()}
            for row in self.evaluations
        ]
        return Run(self.name, metrics, evaluations=evaluations)


def name_of(arm: str, policy: int, seed: int) -> str:
    """A run's name, of which its files have theirs."""
    return f"{arm}{of_policy(policy)}-seed-{seed}"


def of_policy(policy: int) -> str:
    """What the names of a policy's files have before their ends; policy 0 is that of studies with a single one."""
    return f"-policy-{policy}" if policy else ""


def measured(out: Path, name: str, policy: int) -> Path:
    """A study's folder with the evaluation of `start`, an initial policy, or of `guide`, which all runs share."""
    return out / (name + of_policy(policy) if name == "start" else name)


def of(run: Run, start: Mapping[str, float] | None, **about: Any) -> Record:
    """A record of a run's files.

    Args:
        run: with metrics and evaluations.
        start: the figures of the policy that it began with on the same prompts, as `openrlhf-gtpo eval` names them;
            None where it was measured on others.
        about: the record's other fields.
    """
    evaluations: list[dict[str, float]] = []
    if start is not None:
        passes = {key: value for key, value in start.items() if key.startswith("pass@")}
        evaluations.append({"step": 0, **passes, "entropy": start["entropy_token_mean"]})
    for row in run.evaluations:
        found: dict[str, float] = {"step": row["step"]}
        for key, value in row.items():
            if match := re.fullmatch(r"eval_.+_pass(\d+)", key):
                found[f"pass@{match[1]}"] = value
            elif re.fullmatch(r"eval_.+_entropy_token_mean", key):
                found["entropy"] = value
            elif key == "eval_num_samples":
                found["samples"] = value
        evaluations.append(found)
    training = {
        name: tuple(None if row.get(key) is None else round(row[key], 5) for row in run.metrics)
        for name, key in SERIES.items()
        if run.points(key)
    }
    rounded = tuple({key: round(value, 5) for key, value in row.items()} for row in evaluations)
    return Record(
        evaluations=rounded,
        training=training,
        versions={name: run.environment[name] for name in ("python", *PACKAGES) if name in run.environment},
        sha256=run.sha256,
        settings={name: run.settings[name] for name in SETTINGS if name in run.settings},
        **about,
    )


def final(folder: Path) -> dict[str, float]:
    """The means of an evaluation's only benchmark."""
    (figures,) = json.loads((folder / "eval.json").read_text(encoding="utf-8"))["benchmarks"].values()
    return {key: value["mean"] for key, value in figures.items() if isinstance(value, dict)}


def solved(folder: Path) -> tuple[int, ...]:
    """An evaluation's correct responses to each prompt of its only benchmark."""
    counts: Counter[int] = Counter()
    with (folder / "eval.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            response = json.loads(line)
            counts[response["prompt"]] += response["correct"]
    return tuple(counts[prompt] for prompt in range(len(counts)))


def entropy_of(tokens: Collection[str], folder: Path, steps: int) -> tuple[float | None, ...]:
    """The mean entropy of some tokens, nats, in each step's groups that a run kept; None where none has one."""
    found: list[list[float]] = [[] for _ in range(steps)]
    with (folder / "rollouts.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            response = json.loads(line)
            pairs = zip(response["tokens"], response["entropy"], strict=True)
            found[response["step"] - 1] += [entropy for token, entropy in pairs if token in tokens]
    return tuple(round(statistics.fmean(values), 5) if values else None for values in found)


def write(study: Any, job: Any, seconds: float) -> dict[str, float]:
    """Write a finished run's record; returns its result for people.

    Args:
        study: a `designs.Study`.
        job: a `designs.Job`, whose run has ended.
        seconds: wall time of the run.
    """
    began = datetime.now(timezone.utc) - timedelta(seconds=seconds)
    about: dict[str, Any] = {
        "arm": job.arm.key,
        "policy": job.policy,
        "seed": job.seed,
        "flags": job.arm.flags,
        "steps": study.steps,
        "commit": study.commit,
        "started": began.isoformat(timespec="seconds"),
        "seconds": round(seconds, 1),
    }
    start: dict[str, float] | None = None
    if study.design.final_samples is None:
        start = final(measured(study.out, "start", job.policy))
    else:
        layout = study.design.layout
        names = layout.measured if layout is not None else ("start",)
        before = {name: measured(study.out, name, job.policy) for name in names}
        after = job.folder(study) / "final"
        about["before"] = {name: final(folder) for name, folder in before.items()}
        about["final"] = final(after)
        about["solved"] = {name: solved(folder) for name, folder in {**before, "final": after}.items()}
    run = read(job.folder(study))
    if study.design.operations:
        about["operations"] = entropy_of(study.design.operations, job.folder(study), len(run.metrics))
    made = of(run, start, **about)
    study.records.mkdir(parents=True, exist_ok=True)
    part = study.records / f"{job.name}.part"
    part.write_text(json.dumps(asdict(made)) + "\n", encoding="utf-8")
    part.rename(part.with_suffix(".json"))  # at once: a record that is there is whole
    return made.final or {**made.last, "entropy_response_mean": made.last["entropy"]}


def load(folder: Path) -> list[Record]:
    """All records of a folder, by arm, policy and seed."""
    found = []
    for path in sorted(folder.glob("*.json")):
        fields = json.loads(path.read_text(encoding="utf-8"))
        fields |= {name: tuple(fields.get(name, ())) for name in ("flags", "evaluations", "operations")}
        for name in ("training", "solved"):
            fields[name] = {key: tuple(values) for key, values in fields.get(name, {}).items()}
        found.append(Record(**fields))
    return sorted(found, key=lambda record: (record.arm, record.policy, record.seed))


def check(records: Sequence[Record]) -> None:
    """Refuse records that cannot be compared.

    Raises:
        ValueError: there are none, or two of them differ in what all runs of a study have in common.
    """
    if not records:
        raise ValueError("there are no records of runs: run the study first")
    seen: dict[str, tuple[str, str]] = {}
    for run in records:
        for what, value in _shared(run):
            before, where = seen.setdefault(what, (value, run.name))
            if before != value:
                raise ValueError(
                    f"the records have two {what}: {before} in {where} and {value} in {run.name}; keep those of one"
                )


def _shared(run: Record) -> Iterator[tuple[str, str]]:
    """What all runs of a study have in common, those of an arm or those of a replicate, with its value in this one."""
    yield "numbers of steps", str(run.steps)
    yield "commits", run.commit
    yield f"sets of flags of {run.arm}", " ".join(run.flags)
    for package, version in run.versions.items():
        yield f"versions of {package}", version
    for flag, value in run.settings.items():
        if f"--{flag}" not in run.flags:
            yield f"values of --{flag}", f"{value:g}"
    contents = {
        **CONTENTS,
        "actor.model_name_or_path": f"initial policies {run.policy}",
        ORDER: f"orders of prompts for policy {run.policy} and seed {run.seed}",
    }
    for key, what in contents.items():
        if digest := run.sha256.get(key):
            yield what, digest[:12]


def commit() -> str:
    """The commit of this checkout, or `unknown` without git."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def curve(record: Record, key: str) -> Sequence[tuple[float, float]]:
    """(step, value) of an evaluation's figure."""
    return [(row["step"], row[key]) for row in record.evaluations]
