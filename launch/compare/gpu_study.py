"""The entropy study on GPUs: the same arms, seeds, outcomes and tests, with a published policy and real problems.

    STUDY=gpu bash launch/study.sh [--dry-run | --hours | --analyse FOLDER]

--dry-run  check the command of every arm and print it, with its memory; starts nothing and needs no GPU
--hours    what the study costs in GPU-hours, computed; without SIZE, of every size (docs/studies/entropy_gpu.md)
--analyse FOLDER  tables and picture out of the records of finished runs, as on a laptop

Variables:
SIZE   1.5b (Qwen2.5-1.5B-Instruct on one GPU, launch/train_one_gpu.sh; default) or 7b (Qwen2.5-7B with the paper's
       settings, launch/train_cluster.sh)
TASK   of 1.5b: math (default) or gsm8k; of 7b: dapo17k
MODEL  the policy, a folder or a hub id (that of SIZE)
DATA   prompts and references, as `openrlhf-gtpo data prepare` writes them (data/other.jsonl, data/gsm8k.jsonl or
       data/dapo17k.jsonl)
EVAL   held-out prompts; the first 256 are used (data/heldout/math500.jsonl, for gsm8k data/heldout/gsm8k.jsonl)
GPUS   of one run: 1 for 1.5b; 8 (default) or another number for 7b
GPU_GB memory of a GPU in GiB (this machine's; 80 for --dry-run)
ARMS   separated by commas (all; the primary ones run first)
SEEDS  of each arm (8 of the primary ones, 4 of the others)
STEPS  of each run, a multiple of 4 (100; 7b: the paper's 210, rounded to 208)
OUT    runs/entropy-SIZE-TASK; finished runs are kept there, and the same command goes on after them
PYTHON interpreter with openrlhf-gtpo (that of .venv here, else python3)
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import entropy_study
import gpu_hours
import record
from designs import MOST_SEEDS, ROOT, Job, Study, evaluation
from openrlhf_gtpo.driver.hours import INPUTS, PARAMETERS, Shape
from runner import Runner, check_folder, exit_on_signals, summary

PROGRAM = "launch/study.sh"
EVALUATIONS = 4  # in training
HELD_OUT_PROMPTS = 256
SAMPLES = 16


class Refused(Exception):
    """A setting that cannot be; one sentence."""


@dataclass(frozen=True)
class Size:
    """A policy and the script that trains it."""

    script: str
    prompts: int
    """Of a step, with `SAMPLES` responses each."""
    batch_size: int
    """Responses of an update: four updates a step, as in both scripts."""
    steps: int
    gpus: int
    """Of a run, where GPUS does not say so."""
    tasks: Mapping[str, tuple[int, str, str]]
    """Task -> most tokens of a response in that script, and where DATA and EVAL are by default."""


SIZES = {
    "1.5b": Size(
        script="train_one_gpu.sh",
        prompts=32,
        batch_size=128,
        steps=100,
        gpus=1,
        tasks={
            "math": (2048, "data/other.jsonl", "data/heldout/math500.jsonl"),
            "gsm8k": (1024, "data/gsm8k.jsonl", "data/heldout/gsm8k.jsonl"),
        },
    ),
    "7b": Size(
        script="train_cluster.sh",
        prompts=128,
        batch_size=512,
        steps=208,
        gpus=8,
        tasks={"dapo17k": (4096, "data/dapo17k.jsonl", "data/heldout/math500.jsonl")},
    ),
}


@dataclass(frozen=True)
class GpuStudy(Study):
    """The runs of a study on GPUs."""

    size: str
    task: str
    model: str
    """A folder or a hub id; empty for that of the size's script."""
    data: Path
    held_out: Path
    gpus: int

    def settings(self) -> dict[str, Any]:
        """The settings that determine a run's outcome, apart from the number of GPUs."""
        places = {"data": str(self.data), "held_out": str(self.held_out)}
        return {"size": self.size, "model": self.model, "task": self.task, "steps": self.steps, **places}

    def shape(self, parameters: int) -> Shape:
        design = self.design
        return Shape(
            parameters=parameters,
            gpus=self.gpus,
            steps=self.steps,
            responses=design.prompts * design.samples,
            longest=design.max_new_tokens,
            evaluations=design.evaluations,
            evaluated=design.evaluation_prompts * design.evaluation_samples,
        )


def study_of(environment: Mapping[str, str]) -> GpuStudy:
    """The study that the variables describe.

    Raises:
        Refused: a variable has a value that cannot be.
    """
    name = environment.get("SIZE") or "1.5b"
    if name not in SIZES:
        raise Refused(f"SIZE is {name}, but needs to be {_or(SIZES)}.")
    size = SIZES[name]
    task = environment.get("TASK") or next(iter(size.tasks))
    if task not in size.tasks:
        raise Refused(f"TASK is {task}, but with SIZE={name} it needs to be {_or(size.tasks)}.")
    longest, data, held_out = size.tasks[task]
    gpus = _whole(environment, "GPUS", size.gpus, 1024)
    if name == "1.5b" and gpus != 1:
        raise Refused(
            f"GPUS is {gpus}, but a run of the 1.5b policy takes one GPU: leave it out, and start one study for each "
            "GPU, with its own ARMS, OUT and CUDA_VISIBLE_DEVICES; their records can be put into one folder."
        )
    steps = _whole(environment, "STEPS", size.steps, 100_000)
    if steps % EVALUATIONS:
        raise Refused(f"STEPS is {steps}, but needs to be a multiple of 4: a run is evaluated after every quarter.")
    arms = entropy_study.arms(longest)
    keys = tuple(environment["ARMS"].split(",")) if environment.get("ARMS") else tuple(arm.key for arm in arms)
    for key in keys:
        if key not in {arm.key for arm in arms}:
            raise Refused(f"ARMS has {key!r}: choose from {', '.join(arm.key for arm in arms)}.")
    design = dataclasses.replace(
        entropy_study.DESIGN,
        arms=arms,
        batch_size=size.batch_size,
        prompts=size.prompts,
        samples=SAMPLES,
        steps=size.steps,
        max_new_tokens=longest,
        evaluations=EVALUATIONS,
        evaluation_prompts=HELD_OUT_PROMPTS,
        evaluation_samples=SAMPLES,
    )
    out = Path(environment.get("OUT") or ROOT / "runs" / f"entropy-{name}-{task}").resolve()
    return GpuStudy(
        design=design,
        out=out,
        arms=keys,
        seeds=_whole(environment, "SEEDS", 0, MOST_SEEDS) if environment.get("SEEDS") else None,
        steps=steps,
        jobs=1,
        learning_rate=0.0,  # the script's
        start=out / "start",
        guide=None,
        final_prompts=0,
        size=name,
        task=task,
        model=environment.get("MODEL", ""),
        data=Path(environment.get("DATA") or data).resolve(),
        held_out=Path(environment.get("EVAL") or held_out).resolve(),
        gpus=gpus,
    )


def _or(names: Mapping[str, Any]) -> str:
    return " or ".join(names)


def _whole(environment: Mapping[str, str], name: str, default: int, most: int) -> int:
    given = environment.get(name)
    if not given:
        return default
    if not given.isascii() or not given.isdigit() or not 1 <= int(given) <= most:
        raise Refused(f"{name} is {given}, but needs to be a whole number from 1 to {most}.")
    return int(given)


def training(study: GpuStudy, job: Job, environment: Mapping[str, str]) -> list[str]:
    """The command line of a run: what the script of that size would start, with the arm's flags and the study's.

    Raises:
        Refused: the script refuses it; its sentence.
    """
    folder, design, size = job.folder(study), study.design, SIZES[study.size]
    first, preset, *own = job.arm.flags
    assert first == "--preset", "every arm begins with its preset, which the scripts take as a variable"
    flags = {
        "train.seed": job.seed,
        "train.max_steps": study.steps,
        "train.batch_size": design.batch_size,
        "rollout.batch_size": design.prompts,
        "rollout.n_samples_per_prompt": design.samples,
        "eval.dataset": study.out / "heldout.jsonl",
        "eval.steps": study.steps // design.evaluations,
        "eval.n_samples_per_prompt": design.evaluation_samples,
        "eval.temperature": 1.0,
        # A run that is interrupted begins again; by default OpenRLHF would also keep the best evaluation's.
        "ckpt.save_steps": -1,
        "ckpt.best_metric_key": "none",
        "logger.metrics_path": folder / "metrics.jsonl",
    }
    own += [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    variables = {
        "PRESET": preset,
        "SIZE": study.size,
        "TASK": study.task,
        "MODEL": study.model,
        "DATA": str(study.data),
        "STEPS": str(study.steps),
        "NODES": "1",
        "GPUS": str(study.gpus),
        "OUT": str(folder),
    }
    with tempfile.TemporaryDirectory() as scratch:
        # In the place of Python: it writes down what the script would have started.
        teller = Path(scratch) / "teller"
        teller.write_text('#!/bin/sh\nprintf \'%s\\0\' "$@" > "$0.said"\n')
        teller.chmod(0o755)
        done = subprocess.run(
            ["bash", str(ROOT / "launch" / size.script), *own],
            env={**environment, **variables, "PYTHON": str(teller)},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise Refused(done.stderr.strip().splitlines()[-1].partition(": ")[2])
        words = Path(f"{teller}.said").read_text(encoding="utf-8").split("\0")[:-1]
    return [sys.executable, *words]


def value_of(command: Sequence[str], flag: str) -> str:
    """A flag's value in a command line; the last one counts."""
    return command[len(command) - 1 - command[::-1].index(flag) + 1]


def check(study: GpuStudy, environment: Mapping[str, str]) -> bool:
    """Check and print the command of every arm; returns whether all are accepted."""
    from openrlhf_gtpo import train
    from openrlhf_gtpo.errors import SettingsError

    good = True
    for key in study.arms:
        arm = study.design.arm(key)
        command = training(study, Job(arm, 0), environment)
        print(f"== {arm.title}: seeds 0 to {study.seeds_of(arm) - 1}, which differ in --train.seed alone")
        print(f"{shlex.join(command)}", flush=True)
        said = io.StringIO()
        try:
            # The held-out prompts are written when the study starts.
            held_out = ["--eval.dataset", str(study.held_out)]
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                train.prepare([*command[3:], *held_out, "--dry-run"])
        except SettingsError as error:
            good = False
            print(f"REFUSED: {error}")
            continue
        told = said.getvalue().splitlines()
        for line in told:
            if line.startswith(("memory", "warning")) or ": warning: " in line:
                print(f"   {line}")
    return good


def held_out_rows(study: GpuStudy) -> list[str]:
    """The rows that all runs are evaluated on.

    Raises:
        Refused: a file is missing or no prepared data, or the two share prompts.
    """
    rows = {}
    for name, path in (("DATA", study.data), ("EVAL", study.held_out)):
        try:
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            rows[name] = {json.dumps(json.loads(line)["input"]): line for line in lines if line.strip()}
        except OSError:
            raise Refused(f"{name}: there is no file {path}: `openrlhf-gtpo data prepare` writes it.") from None
        except (ValueError, KeyError, TypeError):
            raise Refused(
                f"{name}: {path} has a line without an `input`: take a file that `openrlhf-gtpo data prepare` wrote."
            ) from None
    kept = list(rows["EVAL"].items())[: study.design.evaluation_prompts]
    shared = sum(prompt in rows["DATA"] for prompt, _ in kept)
    if shared:
        raise Refused(f"EVAL: {shared} of its prompts are in DATA too: hold out others, or take them out of DATA.")
    return [line for _, line in kept]


def run(study: GpuStudy, environment: Mapping[str, str]) -> None:
    """Train every run that is not finished, one after another, and write its record."""
    exit_on_signals()
    rows = held_out_rows(study)
    commands = {job: training(study, job, environment) for job in study.jobs_in_order()}
    check_folder(study)
    (study.out / "heldout.jsonl").write_text("".join(rows), encoding="utf-8")
    waiting = [job for job in commands if not job.is_done(study)]
    print(
        f"== {len(commands)} runs of {study.steps} steps; {len(commands) - len(waiting)} are done already", flush=True
    )
    with contextlib.ExitStack() as cleanup:
        runner = Runner(sys.executable)
        cleanup.callback(runner.stop)
        if not (study.start / "eval.json").is_file():
            model = value_of(next(iter(commands.values())), "--actor.model_name_or_path")
            runner.call(evaluation(study, model, study.start, 0, device="gpu"), study.out / "start.log")
        for job in waiting:
            folder = job.folder(study)
            shutil.rmtree(folder, ignore_errors=True)  # left by an interrupted run
            folder.mkdir(parents=True)
            began = time.monotonic()
            runner.call(commands[job], folder / "log")
            seconds = time.monotonic() - began
            figures = record.write(study, job, seconds)
            for weights in (folder / "model").rglob("*.safetensors"):
                weights.unlink()  # the record has what the analysis needs; 92 policies would fill a disk
            print(f"  {job.arm.title}, seed {job.seed}: {summary(figures)}; {seconds / 3600:.2f} h", flush=True)
    print(entropy_study.analyse(study.records, study.out))


def costs(environment: Mapping[str, str]) -> str:
    """Tables of what the study of these variables costs or, without SIZE, of every size and task.

    Raises:
        Refused: as `study_of`.
    """
    primary = ",".join(arm.key for arm in entropy_study.DESIGN.arms if arm.rank == 0)
    if environment.get("SIZE"):
        studies = [study_of(environment)]
    else:
        chosen = [{"SIZE": size, "TASK": task} for size, task in INPUTS]
        variables = [one | arms for one in chosen for arms in ({}, {"ARMS": primary})]
        studies = [study_of({**environment, **one}) for one in variables]
    rows, sources = [], {}
    for study in studies:
        arms = [study.design.arm(key) for key in study.arms]
        named = {",".join(arm.key for arm in study.design.arms): "all", primary: "the primary"}
        which = named.get(",".join(study.arms), str(len(arms)))
        title = f"{study.size}, {study.task}, {study.steps} steps; {which} arms"
        filtering = [arm for arm in arms if arm.flags[1] in ("dapo", "dapo_forking")]
        inputs = INPUTS[study.size, study.task]
        runs, filtered = (sum(map(study.seeds_of, some)) for some in (arms, filtering))
        rows.append((title, study.shape(PARAMETERS[study.size]), inputs, runs, filtered))
        sources[f"{study.size}, {study.task}"] = inputs
    each = rows if environment.get("SIZE") else rows[::2]
    told = [gpu_hours.table(rows), "Parts of a run's likely wall time, without filtering:", gpu_hours.parts(each)]
    told += ["GPU-hours with one input at its low and high end:", gpu_hours.one_at_a_time(each)]
    for name, inputs in sources.items():
        told += [f"Inputs of {name}:", gpu_hours.inputs_table(inputs)]
    return "\n\n".join(told)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--dry-run", action="store_true", help="check and print the command of every arm")
    what.add_argument("--hours", action="store_true", help="print what the study costs")
    what.add_argument("--analyse", type=Path, metavar="FOLDER", help="tables out of finished runs' records")
    args = parser.parse_args()
    environment = dict(os.environ)
    try:
        if args.analyse:
            print(entropy_study.analyse(args.analyse, args.analyse))
            return 0
        if args.hours:
            print(costs(environment))
            return 0
        study = study_of(environment)
        if args.dry_run:
            held_out_rows(study)
            return 0 if check(study, {"GPU_GB": "80", **environment}) else 2
        else:
            run(study, environment)
    except (Refused, ValueError) as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
