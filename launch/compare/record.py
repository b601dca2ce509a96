"""One finished run as one small file: what a study's analysis needs, in a few KiB, so that the runs of several days
can be committed and analysed together."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from openrlhf_gtpo.report.run import Run, read

ROOT = Path(__file__).resolve().parents[2]


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
    """Of held-out prompts, by step, from step 0: `step`, `pass@k` for every k, `entropy` (nats a token)."""
    training: dict[str, tuple[float, ...]]
    """By step, from step 1: `entropy` (nats a token), `length` (tokens), `reward` (share of correct responses) and
    `responses` (how many were generated so far)."""

    @property
    def last(self) -> Mapping[str, float]:
        return self.evaluations[-1]


def of(run: Run, start: Mapping[str, float], **about: Any) -> Record:
    """A record of a run's files.

    Args:
        run: with metrics and evaluations.
        start: the figures of the policy that it began with, as `openrlhf-gtpo eval` names them.
        about: the record's other fields.
    """
    names = {f"pass{key.removeprefix('pass@')}": key for key in start if key.startswith("pass@")}
    first = {"step": 0, **{key: start[key] for key in names.values()}, "entropy": start["entropy_token_mean"]}
    evaluations = [first]
    for row in run.evaluations:
        found: dict[str, float] = {"step": row["step"]}
        for key, value in row.items():
            match = re.fullmatch(r"eval_.+_(pass\d+|entropy_token_mean)", key)
            if match:
                found[names.get(match[1], "entropy" if match[1].startswith("entropy") else match[1])] = value
        evaluations.append(found)
    keys = {
        "entropy": "entropy/token_mean",
        "length": "rollout/response_length_mean",
        "reward": "rollout/pass_rate",
        "responses": "reward/items_total",
    }
    training = {name: tuple(round(value, 5) for _, value in run.points(key)) for name, key in keys.items()}
    rounded = tuple({key: round(value, 5) for key, value in row.items()} for row in evaluations)
    return Record(evaluations=rounded, training=training, **about)


def write(study: Any, job: Any, seconds: float) -> dict[str, float]:
    """Write a finished run's record; returns its last evaluation for people.

    Args:
        study: a `runs.Study`.
        job: a `runs.Job`, whose run has ended.
        seconds: wall time of the run.
    """
    figures = json.loads((study.out / "start" / "eval.json").read_text(encoding="utf-8"))["benchmarks"]
    (measured,) = figures.values()
    start = {key: value["mean"] for key, value in measured.items() if isinstance(value, dict)}
    run = read(job.folder(study))
    about = {"arm": job.arm.key, "seed": job.seed, "flags": job.arm.flags, "steps": study.steps}
    made = of(run, start, **about, commit=commit(), seconds=round(seconds, 1))
    study.records.mkdir(exist_ok=True)
    part = study.records / f"{job.name}.part"
    part.write_text(json.dumps(asdict(made)) + "\n", encoding="utf-8")
    part.rename(part.with_suffix(".json"))  # at once: a record that is there is whole
    return {**made.last, "entropy_response_mean": made.last["entropy"]}


def load(folder: Path) -> list[Record]:
    """All records of a folder, by arm and seed."""
    found = []
    for path in sorted(folder.glob("*.json")):
        fields = json.loads(path.read_text(encoding="utf-8"))
        fields |= {"flags": tuple(fields["flags"]), "evaluations": tuple(fields["evaluations"])}
        found.append(Record(**{**fields, "training": {k: tuple(v) for k, v in fields["training"].items()}}))
    return sorted(found, key=lambda record: (record.arm, record.seed))


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
