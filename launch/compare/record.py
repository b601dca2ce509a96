"""One finished run as one small file: what a study's tables need, in a few KiB, so that the runs of several days and
machines can be kept and analysed together."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from inference import Replicate
from openrlhf_gtpo.controller.files import PACKAGES
from openrlhf_gtpo.report.run import Run, read

ROOT = Path(__file__).resolve().parents[2]

SERIES = {
    "entropy": "entropy/token_mean",
    "length": "rollout/response_length_mean",
    "reward": "rollout/pass_rate",
    "responses": "reward/items_total",
    "prompts": "rollout/prompts_consumed",
    "seconds": "timing/step_total",
    "after_answer": "advantage/best_after_answer",
    "rescued": "guide/rescued_share",
    "unsolved": "guide/zero_reward_groups",
    "guide_right": "guide/pass_rate",
    "guide_responses": "guide/responses",
}
"""Of a record's training -> the metric, which docs/metrics.md describes."""


@dataclass(frozen=True)
class Record:
    """One arm with one initial policy and one seed."""

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
    policy: int = 0
    """Seed of the warm start that made the initial policy."""
    versions: dict[str, str] = field(default_factory=dict)
    """Of Python and of the packages."""

    @property
    def replicate(self) -> Replicate:
        """What it shares with the runs of other arms."""
        return self.policy, self.seed

    @property
    def name(self) -> str:
        """Of its file, without the end."""
        return name_of(self.arm, self.policy, self.seed)

    @property
    def last(self) -> Mapping[str, float]:
        """Figures of the last evaluation in training."""
        return self.evaluations[-1]

    def points(self, name: str) -> list[tuple[int, float]]:
        """(step, value) of a figure of training, without the steps that have none; empty for a run without it."""
        values = enumerate(self.training.get(name, ()), 1)
        return [(step, value) for step, value in values if value is not None]


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
    return Record(
        evaluations=tuple({key: round(value, 5) for key, value in row.items()} for row in evaluations),
        training=training,
        versions={name: run.environment[name] for name in ("python", *PACKAGES) if name in run.environment},
        **about,
    )


def final(folder: Path) -> dict[str, float]:
    """The means of an evaluation's only benchmark."""
    (figures,) = json.loads((folder / "eval.json").read_text(encoding="utf-8"))["benchmarks"].values()
    return {key: value["mean"] for key, value in figures.items() if isinstance(value, dict)}


def write(study: Any, job: Any, seconds: float) -> dict[str, float]:
    """Write a finished run's record; returns its result for people.

    Args:
        study: a `designs.Study`.
        job: a `designs.Job`, whose run has ended.
        seconds: wall time of the run.
    """
    about: dict[str, Any] = {
        "arm": job.arm.key,
        "policy": job.policy,
        "seed": job.seed,
        "flags": job.arm.flags,
        "steps": study.steps,
        "commit": study.commit,
        "seconds": round(seconds, 1),
    }
    start: dict[str, float] | None = None
    if study.design.final_samples is None:
        start = final(measured(study.out, "start", job.policy))
    else:
        about["before"] = {name: final(measured(study.out, name, job.policy)) for name in study.design.measured}
        about["final"] = final(job.folder(study) / "final")
    made = of(read(job.folder(study)), start, **about)
    study.records.mkdir(parents=True, exist_ok=True)
    part = study.records / f"{job.name}.part"
    part.write_text(json.dumps(asdict(made)) + "\n", encoding="utf-8")
    part.rename(part.with_suffix(".json"))  # at once: a record that is there is whole
    return made.final or {**made.last, "entropy_response_mean": made.last["entropy"]}


def load(folder: Path) -> list[Record]:
    """All records of a folder, by arm, policy and seed."""
    known = {one.name for one in fields(Record)}  # records of earlier versions have more
    found = []
    for path in sorted(folder.glob("*.json")):
        values = {name: value for name, value in json.loads(path.read_text(encoding="utf-8")).items() if name in known}
        values |= {name: tuple(values[name]) for name in ("flags", "evaluations")}
        values["training"] = {key: tuple(series) for key, series in values["training"].items()}
        found.append(Record(**values))
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
