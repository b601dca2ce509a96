"""One finished run as one small file: what a study's analysis needs, in a few KiB, so that the runs of several days
can be committed and analysed together."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

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
}
"""Of a record's training -> the metric, which the glossary describes."""


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

    @property
    def last(self) -> Mapping[str, float]:
        return self.evaluations[-1]

    def series(self, name: str) -> list[float]:
        """A figure of training by step, without the steps that have none."""
        return [value for value in self.training[name] if value is not None]

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
        return Run(f"{self.arm}-seed-{self.seed}", metrics, evaluations=evaluations)


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
    return Record(evaluations=rounded, training=training, **about)


def final(folder: Path) -> dict[str, float]:
    """The means of an evaluation's only benchmark."""
    (figures,) = json.loads((folder / "eval.json").read_text(encoding="utf-8"))["benchmarks"].values()
    return {key: value["mean"] for key, value in figures.items() if isinstance(value, dict)}


def write(study: Any, job: Any, seconds: float) -> dict[str, float]:
    """Write a finished run's record; returns its result for people.

    Args:
        study: a `runs.Study`.
        job: a `runs.Job`, whose run has ended.
        seconds: wall time of the run.
    """
    start: dict[str, float] | None = final(study.out / "start")
    about: dict[str, Any] = {"arm": job.arm.key, "seed": job.seed, "flags": job.arm.flags, "steps": study.steps}
    if study.design.layout is not None:
        start = None
        about["before"] = {name: final(study.out / name) for name in study.design.layout.measured}
        about["final"] = final(job.folder(study) / "final")
    made = of(read(job.folder(study)), start, **about, commit=commit(), seconds=round(seconds, 1))
    study.records.mkdir(parents=True, exist_ok=True)
    part = study.records / f"{job.name}.part"
    part.write_text(json.dumps(asdict(made)) + "\n", encoding="utf-8")
    part.rename(part.with_suffix(".json"))  # at once: a record that is there is whole
    return made.final or {**made.last, "entropy_response_mean": made.last["entropy"]}


def load(folder: Path) -> list[Record]:
    """All records of a folder, by arm and seed."""
    found = []
    for path in sorted(folder.glob("*.json")):
        fields = json.loads(path.read_text(encoding="utf-8"))
        fields |= {"flags": tuple(fields["flags"]), "evaluations": tuple(fields["evaluations"])}
        found.append(Record(**{**fields, "training": {k: tuple(v) for k, v in fields["training"].items()}}))
    return sorted(found, key=lambda record: (record.arm, record.seed))


def check(records: Sequence[Record]) -> None:
    """Refuse records that cannot be compared.

    Raises:
        ValueError: there are none, or they differ in their steps, or runs of one arm differ in their flags.
    """
    if not records:
        raise ValueError("there are no records of runs: run the study first")
    steps = sorted({run.steps for run in records})
    if len(steps) > 1:
        raise ValueError(f"the records are of runs of {' and '.join(map(str, steps))} steps: keep those of one length")
    flags: dict[str, tuple[str, ...]] = {}
    for run in records:
        if flags.setdefault(run.arm, run.flags) != run.flags:
            raise ValueError(f"the records of {run.arm} have two sets of flags: keep those of one")


def commit() -> str:
    """The commit of this checkout, or `unknown` outside of git."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip() or "unknown"


def curve(record: Record, key: str) -> Sequence[tuple[float, float]]:
    """(step, value) of an evaluation's figure."""
    return [(row["step"], row[key]) for row in record.evaluations]
