"""Trains one policy with each of the paper's five algorithms and several seeds, and compares them.

    python launch/compare/study.py [--long] [--seeds 3] [--steps N] [--out runs/compare]

All runs begin with the same warm-started policy, see the same prompts in the same order where their seeds are the
same, and differ in their preset alone. Each is measured during training and, more closely, at its end. What is
finished is kept, so an interrupted study goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

import results

ROOT = Path(__file__).resolve().parents[2]

ALGORITHMS = {
    "grpo": "GRPO",
    "dapo": "DAPO",
    "dapo_forking": "DAPO w/ forking tokens",
    "gtpo": "GTPO",
    "grpo_s": "GRPO-S",
}
"""Preset -> name, in the order of the paper's table."""

PROMPTS, SAMPLES = 16, 8  # a step
MAX_NEW_TOKENS = 64
EVALUATIONS = 5  # during training
EVALUATION_PROMPTS, EVALUATION_SAMPLES = 64, 16  # during training
FINAL_SAMPLES = 32
PROMPTS_FOR_FILTERING = 4  # times as many prompts as steps need: dynamic filtering throws some away


@dataclass(frozen=True)
class Study:
    """What is run, and where."""

    out: Path
    algorithms: tuple[str, ...]
    seeds: int
    steps: int
    jobs: int
    learning_rate: float
    start: Path
    """Folder with model/, train.jsonl and heldout.jsonl."""
    final_prompts: int

    def settings(self) -> dict[str, Any]:
        """What decides a run's outcome; a folder holds runs of one study only."""
        return {
            "steps": self.steps,
            "learning_rate": self.learning_rate,
            "start": "warm_start" if self.start == self.out / "warm_start" else str(self.start),
            "final_prompts": self.final_prompts,
        }


@dataclass(frozen=True)
class Job:
    """One algorithm with one seed."""

    algorithm: str
    seed: int

    def folder(self, study: Study) -> Path:
        return study.out / f"{self.algorithm}-seed-{self.seed}"

    def is_done(self, study: Study) -> bool:
        return (self.folder(study) / "final" / "eval.json").is_file()


def training(study: Study, job: Job) -> list[str]:
    """The command line: a preset, and what is the same for all."""
    folder = job.folder(study)
    flags: dict[str, Any] = {
        "preset": job.algorithm,
        "device": "cpu",
        "actor.model_name_or_path": study.start / "model",
        "data.prompt_dataset": study.start / "train.jsonl",
        "data.input_key": "input",
        "data.label_key": "label",
        "data.max_len": 96,
        "train.max_steps": study.steps,
        "train.seed": job.seed,
        "train.batch_size": 64,
        "train.micro_batch_size": 32,
        "rollout.batch_size": PROMPTS,
        "rollout.n_samples_per_prompt": SAMPLES,
        "rollout.micro_batch_size": 32,
        "rollout.max_new_tokens": MAX_NEW_TOKENS,
        "actor.adam.lr": study.learning_rate,
        "actor.num_gpus_per_node": 1,
        "vllm.num_engines": 1,
        "eval.dataset": study.out / "heldout.jsonl",
        "eval.steps": max(1, study.steps // EVALUATIONS),
        "eval.n_samples_per_prompt": EVALUATION_SAMPLES,
        "eval.temperature": 1.0,
        "ckpt.output_dir": folder / "model",
        "ckpt.path": folder / "state",
        "logger.metrics_path": folder / "metrics.jsonl",
        "shaping.save_rollouts": 1,
    }
    if job.algorithm.startswith("dapo"):
        flags["reward.overlong_buffer_len"] = MAX_NEW_TOKENS // 4  # a quarter of the limit, as in its paper
    command = [sys.executable, "-m", "openrlhf_gtpo", "train", "--data.apply_chat_template"]
    # OpenRLHF keeps a checkpoint of each best evaluation unless it is told not to.
    command += ["--ckpt.best_metric_key", "none"]
    return command + [part for name, value in flags.items() for part in (f"--{name}", str(value))]


def evaluation(study: Study, model: Path, out: Path, seed: int) -> list[str]:
    command = [sys.executable, "-m", "openrlhf_gtpo", "eval", "--device", "cpu", "--model", str(model)]
    command += ["--data", str(study.start / "heldout.jsonl"), "--out", str(out), "--seed", str(seed)]
    command += ["--n", str(FINAL_SAMPLES), "--max_prompts", str(study.final_prompts)]
    return [*command, "--max_new_tokens", str(MAX_NEW_TOKENS)]


class Runner:
    """Runs commands, each with its log, and takes all of them down with itself."""

    def __init__(self) -> None:
        self.running: dict[subprocess.Popen[bytes], str] = {}

    def start(self, command: list[str], log: Path) -> subprocess.Popen[bytes]:
        with log.open("ab") as file:
            process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
            )
        self.running[process] = str(log)
        return process

    def finish(self, process: subprocess.Popen[bytes]) -> None:
        """Forget a process that has ended; one that failed ends the study with the end of its log."""
        log = self.running.pop(process)
        if process.returncode:
            lines = re.split(r"[\r\n]+", Path(log).read_text(errors="replace"))
            end = "\n".join(f"    {line[:300]}" for line in lines[-20:] if line.strip())
            raise SystemExit(f"study.py: a run ended with status {process.returncode}; the end of {log}:\n{end}")

    def call(self, command: list[str], log: Path) -> None:
        """Run one command to its end."""
        process = self.start(command, log)
        process.wait()
        self.finish(process)

    def stop(self) -> None:
        """End what is running: asked first, killed after 20 s."""
        for process in self.running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in self.running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def prepare(study: Study, runner: Runner) -> None:
    """The shared policy, the prompts, and how good the policy is to begin with."""
    if study.start == study.out / "warm_start":
        print("== warm start", flush=True)
        command = [sys.executable, str(ROOT / "launch" / "laptop" / "warm_start.py"), "--task", "gates"]
        prompts = study.steps * PROMPTS * PROMPTS_FOR_FILTERING
        subprocess.run([*command, "--out", str(study.start), "--prompts", str(prompts)], cwd=ROOT, check=True)
    held_out = (study.start / "heldout.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    # Other prompts than those of the final measurement, so that nothing is chosen by what is measured at the end.
    small = held_out[study.final_prompts : study.final_prompts + EVALUATION_PROMPTS]
    (study.out / "heldout.jsonl").write_text("".join(small), encoding="utf-8")
    print(f"== the policy that all begin with, on {study.final_prompts} held-out prompts", flush=True)
    if not (study.out / "start" / "eval.json").is_file():
        runner.call(evaluation(study, study.start / "model", study.out / "start", 0), study.out / "start.log")
    print(f"  {summary(results.final(study.out / 'start'))}", flush=True)


def summary(figures: dict[str, float]) -> str:
    return ", ".join(f"{key} {figures[key]:.3f}" for key in ("pass@1", f"pass@{FINAL_SAMPLES}", "entropy"))


def steps_done(folder: Path) -> int:
    path = folder / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def run(study: Study, jobs: list[Job], runner: Runner) -> None:
    """All runs, some at a time; each trains and is then measured."""
    waiting = [job for job in jobs if not job.is_done(study)]
    done = len(jobs) - len(waiting)
    print(f"== {len(jobs)} runs of {study.steps} steps, {study.jobs} at a time; {done} are done already", flush=True)
    active: dict[subprocess.Popen[bytes], tuple[Job, str]] = {}
    finished = done * study.steps
    often = 2 if sys.stderr.isatty() else 60  # seconds between two lines of progress; a log needs fewer
    with tqdm(total=len(jobs) * study.steps, initial=finished, unit="step", mininterval=often, smoothing=0.05) as bar:
        while waiting or active:
            while waiting and len(active) < study.jobs:
                job = waiting.pop(0)
                shutil.rmtree(job.folder(study), ignore_errors=True)  # of a run that was broken off
                job.folder(study).mkdir(parents=True)
                active[runner.start(training(study, job), job.folder(study) / "log")] = (job, "training")
                time.sleep(5)  # two Ray clusters that start at once would look for ports at once
            time.sleep(1)
            for process, (job, phase) in list(active.items()):
                if process.poll() is None:
                    continue
                del active[process]
                runner.finish(process)
                folder = job.folder(study)
                if phase == "training":
                    command = evaluation(study, folder / "model", folder / "final", job.seed)
                    active[runner.start(command, folder / "final.log")] = (job, "measuring")
                else:
                    finished += study.steps
                    shutil.rmtree(folder / "state", ignore_errors=True)
                    figures = results.final(folder / "final")
                    bar.write(f"  {ALGORITHMS[job.algorithm]}, seed {job.seed}: {summary(figures)}")
            now = finished + sum(min(steps_done(job.folder(study)), study.steps) for job, _ in active.values())
            doing = ", ".join(f"{job.algorithm} {job.seed} {phase}" for job, phase in active.values())
            bar.set_postfix_str(doing, refresh=False)
            bar.update(now - bar.n)


def parse() -> tuple[Study, list[Job]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "compare", help="(runs/compare)")
    parser.add_argument("--long", action="store_true", help="5 seeds and 400 steps where nothing else is said")
    parser.add_argument(
        "--start",
        type=Path,
        help="folder with model/, train.jsonl and heldout.jsonl (OUT/warm_start, made when missing)",
    )
    parser.add_argument("--seeds", type=int, default=None, help="seeds of each algorithm, 1 to 10 (3)")
    parser.add_argument("--steps", type=int, default=None, help="steps of each run (120)")
    parser.add_argument("--algorithms", default=",".join(ALGORITHMS), help=f"({','.join(ALGORITHMS)})")
    parser.add_argument("--learning_rate", type=float, default=1e-4, help="(1e-4)")
    parser.add_argument(
        "--final_prompts", type=int, default=200, help="held-out prompts of the last measurement (200)"
    )
    parser.add_argument(
        "--jobs", type=int, default=max(1, min(8, (os.cpu_count() or 1))), help="runs at a time (cores)"
    )
    args = parser.parse_args()
    seeds = args.seeds if args.seeds is not None else 5 if args.long else 3
    steps = args.steps if args.steps is not None else 400 if args.long else 120
    algorithms = tuple(args.algorithms.split(","))
    for name in algorithms:
        if name not in ALGORITHMS:
            parser.error(f"--algorithms has {name!r}: choose among {', '.join(ALGORITHMS)}")
    bounds = (("seeds", seeds, 10), ("steps", steps, 600), ("jobs", args.jobs, 64))
    for flag, value, most in (*bounds, ("final_prompts", args.final_prompts, 400 - EVALUATION_PROMPTS)):
        if not 1 <= value <= most:
            parser.error(f"--{flag} is {value}, but has to be from 1 to {most}")
    if args.learning_rate <= 0:
        parser.error(f"--learning_rate is {args.learning_rate}, but has to be above 0")
    out = args.out.resolve()
    start = (args.start or out / "warm_start").resolve()
    if args.start and not (start / "model" / "config.json").is_file():
        parser.error(f"--start: there is no model in {start / 'model'}")
    study = Study(out, algorithms, seeds, steps, args.jobs, args.learning_rate, start, args.final_prompts)
    # All algorithms of a seed before the next seed: an interrupted study has whole comparisons.
    return study, [Job(algorithm, seed) for seed in range(seeds) for algorithm in algorithms]


def check_folder(study: Study) -> None:
    """Refuse a folder with runs of other settings."""
    study.out.mkdir(parents=True, exist_ok=True)
    path = study.out / "study.json"
    if path.is_file() and json.loads(path.read_text()) != study.settings():
        raise SystemExit(f"study.py: {study.out} holds runs of other settings ({path}): name another folder by --out.")
    path.write_text(json.dumps(study.settings(), indent=2) + "\n", encoding="utf-8")


def main() -> None:
    study, jobs = parse()
    check_folder(study)
    runner = Runner()

    def interrupted(number: int, _: Any) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    begin = time.monotonic()
    try:
        prepare(study, runner)
        run(study, jobs, runner)
    finally:
        runner.stop()
    print("== report", flush=True)
    names = {algorithm: ALGORITHMS[algorithm] for algorithm in study.algorithms}
    folders = {name: [Job(name, seed).folder(study) for seed in range(study.seeds)] for name in names}
    print(results.write(study.out, names, folders))
    print(f"\nTook {(time.monotonic() - begin) / 60:.0f} minutes. {study.out / 'report.html'}")


if __name__ == "__main__":
    main()
