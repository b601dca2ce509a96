"""Makes the initial policies of studies and runs what has not run yet, some runs at a time.

Each run is evaluated during training and, on more prompts, at its end, and leaves one small record. Finished runs are
kept, so an interrupted study continues where it stopped.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

import record
from designs import ROOT, Job, Study, evaluation, training
from openrlhf_gtpo.cpu.platform import prepare_process

SCRIPT = Path(sys.argv[0]).name


class Runner:
    """Runs commands, each with its log, and stops all of them when it stops."""

    def __init__(self) -> None:
        self.running: dict[subprocess.Popen[bytes], str] = {}

    def start(self, command: list[str], log: Path) -> subprocess.Popen[bytes]:
        with log.open("ab") as file:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        self.running[process] = str(log)
        return process

    def finish(self, process: subprocess.Popen[bytes]) -> None:
        """Remove a process that has ended. If it failed, stop the study and print the end of its log."""
        log = self.running.pop(process)
        if process.returncode:
            lines = re.split(r"[\r\n]+", Path(log).read_text(errors="replace"))
            end = "\n".join(f"    {line[:300]}" for line in lines[-20:] if line.strip())
            raise SystemExit(f"{SCRIPT}: a run ended with status {process.returncode}; the end of {log}:\n{end}")

    def call(self, command: list[str], log: Path) -> None:
        """Run one command to its end."""
        process = self.start(command, log)
        process.wait()
        self.finish(process)

    def stop(self) -> None:
        """Stop all commands: terminate them, and kill them after 20 s."""
        for process in self.running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in self.running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def perform(studies: Sequence[Study]) -> None:
    """Run what has not run yet of some studies, one after the other."""
    for study in studies:
        check_folder(study)
    exit_on_signals()
    threads = os.environ.get("OMP_NUM_THREADS")
    with contextlib.ExitStack() as cleanup:
        prepare_process()
        if threads is None:  # each run chooses by its model
            del os.environ["OMP_NUM_THREADS"]
        runner = Runner()
        cleanup.callback(runner.stop)
        for study in studies:
            prepare(study, runner)
            run(study, study.jobs_in_order(), runner)


def check_folder(study: Study) -> None:
    """Refuse a folder with runs of other settings or of another commit."""
    study.out.mkdir(parents=True, exist_ok=True)
    path, settings = study.out / "study.json", {**study.settings(), "commit": study.commit}
    known = json.loads(path.read_text()) if path.is_file() else settings
    if known != settings:
        names = sorted(name for name in {**known, **settings} if known.get(name) != settings.get(name))
        other = [f"{name} {known.get(name)} instead of {settings.get(name)}" for name in names]
        raise SystemExit(
            f"{SCRIPT}: {study.out} holds runs of other settings ({', '.join(other)}): name another folder by --out."
        )
    path.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def exit_on_signals() -> None:
    """Turn what ends this process into SystemExit, so that its runs are stopped."""

    def interrupted(number: int, _: Any) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)


def prepare(study: Study, runner: Runner) -> None:
    """Make the initial policies, the guide and the prompts, and evaluate all policies."""
    prompts = study.steps * study.design.prompts * study.design.prompts_for_filtering
    if study.start == study.out / "warm_start":
        for policy in study.policies:
            print(f"== warm start, policy {policy}", flush=True)
            warm_start(study, study.start_of(policy), "weak", prompts, policy)
    if study.guide == study.out / "guide_warm_start":
        print("== warm start of the guide", flush=True)
        warm_start(study, study.guide, "strong", 1)
    held_out = (study.prompts / "heldout.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    # Other prompts than those of the final evaluation, so that no choice can depend on its results.
    small = held_out[study.final_prompts : study.final_prompts + study.design.evaluation_prompts]
    (study.out / "heldout.jsonl").write_text("".join(small), encoding="utf-8")
    for policy in study.policies:
        measure(study, runner, study.start_of(policy), policy, "start", f"the initial policy {policy}")
    if study.guide is not None:
        measure(study, runner, study.guide, 0, "guide", "the guide")


def warm_start(study: Study, out: Path, skill: str, prompts: int, seed: int = 0) -> None:
    command = [sys.executable, str(ROOT / "launch" / "laptop" / "warm_start.py"), "--task", study.design.task]
    command += ["--skill", skill, "--out", str(out), "--prompts", str(prompts), "--seed", str(seed)]
    subprocess.run(command, cwd=ROOT, check=True)


def measure(study: Study, runner: Runner, folder: Path, policy: int, name: str, what: str) -> None:
    """Evaluate a policy from before the runs, once."""
    out = record.measured(study.out, name, policy)
    print(f"== {what}, on held-out prompts", flush=True)
    if not (out / "eval.json").is_file():
        runner.call(evaluation(study, folder / "model", out, 0), out.with_name(f"{out.name}.log"))
    print(f"  {summary(record.final(out))}", flush=True)


def summary(figures: dict[str, float]) -> str:
    most = max(int(key.removeprefix("pass@")) for key in figures if key.startswith("pass@"))
    return ", ".join(f"{key} {figures[key]:.3f}" for key in ("pass@1", f"pass@{most}", "entropy_response_mean"))


def run(study: Study, jobs: list[Job], runner: Runner) -> None:
    """Train and then evaluate every run, some at a time."""
    waiting = [job for job in jobs if not job.is_done(study)]
    done = len(jobs) - len(waiting)
    print(f"== {len(jobs)} runs of {study.steps} steps, {study.jobs} at a time; {done} are done already", flush=True)
    active: dict[subprocess.Popen[bytes], tuple[Job, str]] = {}
    began: dict[Job, float] = {}
    finished = done * study.steps
    often = 2 if sys.stderr.isatty() else 60  # seconds between two lines of progress; a log needs fewer
    with tqdm(total=len(jobs) * study.steps, initial=finished, unit="step", mininterval=often, smoothing=0.05) as bar:
        while waiting or active:
            while waiting and len(active) < study.jobs:
                job = waiting.pop(0)
                shutil.rmtree(job.folder(study), ignore_errors=True)  # left by an interrupted run
                job.folder(study).mkdir(parents=True)
                began[job] = time.monotonic()
                active[runner.start(training(study, job), job.folder(study) / "log")] = (job, "training")
                time.sleep(5)  # two Ray clusters that start at the same time could choose the same ports
            time.sleep(1)
            for process, (job, phase) in list(active.items()):
                if process.poll() is None:
                    continue
                del active[process]
                runner.finish(process)
                folder = job.folder(study)
                if study.design.final_samples is not None and phase == "training":
                    command = evaluation(study, folder / "model", folder / "final", job.train_seed)
                    active[runner.start(command, folder / "final.log")] = (job, "measuring")
                    continue
                figures = record.write(study, job, time.monotonic() - began[job])
                finished += study.steps
                shutil.rmtree(folder / "state", ignore_errors=True)
                took = f"{time.monotonic() - began[job]:.0f} s"
                bar.write(f"  {job.arm.title}, policy {job.policy}, seed {job.seed}: {summary(figures)}; {took}")
            now = finished + sum(min(steps_done(job.folder(study)), study.steps) for job, _ in active.values())
            doing = ", ".join(f"{job.name} {phase}" for job, phase in active.values())
            bar.set_postfix_str(doing, refresh=False)
            bar.update(now - bar.n)


def steps_done(folder: Path) -> int:
    path = folder / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.is_file() else 0
