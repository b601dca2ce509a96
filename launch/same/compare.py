"""Shows whether a change changes any result. It trains three steps in several ways, at a commit and in this work tree
with all that is not committed, and compares every metric, every response and the final weights, to the last bit.

    bash launch/test.sh same COMMIT                 # such as HEAD or main: every configuration
    bash launch/test.sh same COMMIT gtpo lora       # only these

Runs repeat on a CPU, where their seed decides them, so a difference comes from the change. Commits of versions before
0.2.0 have runs that do not repeat: they part in step 1. Both sides use this tree's .venv and the same policy. Two runs
go on at a time, with one thread each. What a commit gave is kept under runs/cache/same, so that the next comparison
with it takes half the time. The last runs are in runs/same, with their logs.

Exit status: 0 if everything is the same; 1 if something differs or a run failed; 2 for a commit or a configuration
that is not there.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

import identical
from openrlhf_gtpo.controller.files import cpu, sha256_of

ROOT = Path(__file__).resolve().parents[2]
RUNS, KEPT = ROOT / "runs" / "same", ROOT / "runs" / "cache" / "same"
REQUIREMENTS = "launch/requirements-cpu.txt"
WITNESS = Path(__file__).parent / "witness"

STEPS, PROMPTS, SAMPLES, MAX_NEW_TOKENS = 3, 8, 8, 40
FILTERED = 8
"""Factor for the number of prompts, since dynamic filtering drops some."""
POLICY = "{policy}"
"""Placeholder for the policy's folder in flags."""

GTPO = ("--algo.advantage.estimator=gtpo", "--algo.kl.init_coef=0")
DAPO = ("--preset=dapo", f"--reward.overlong_buffer_len={MAX_NEW_TOKENS // 4}")
CONFIGURATIONS: dict[str, tuple[str, ...]] = {
    # The policy is its own guide, so that no second one is to be trained. In groups of four it is always wrong now and
    # then, and as its own guide then right, so that M2 has work.
    "m1_m2": (
        *DAPO,
        "--rollout.n_samples_per_prompt=4",
        f"--guide.model={POLICY}",
        "--guide.samples=4",
        "--guide.when",
        "all",
        "zero_reward",
    ),
    "dapo": DAPO,
    "dapo_forking": ("--preset=dapo_forking", *DAPO[1:]),
    "gtpo": GTPO,
    "grpo_s": ("--algo.advantage.estimator=grpo_s", "--algo.kl.init_coef=0"),
    "lora": (*GTPO, "--ds.lora.rank=8", "--ds.lora.alpha=16"),
}
"""Name -> flags; the longest first."""

SHARED = (
    "--device=cpu",
    "--data.input_key=input",
    "--data.label_key=label",
    "--data.apply_chat_template",
    "--data.max_len=96",
    f"--train.max_steps={STEPS}",
    "--train.num_episodes=1",
    "--train.batch_size=16",  # four updates a step
    "--train.micro_batch_size=16",
    f"--rollout.batch_size={PROMPTS}",
    f"--rollout.n_samples_per_prompt={SAMPLES}",
    "--rollout.micro_batch_size=16",
    f"--rollout.max_new_tokens={MAX_NEW_TOKENS}",
    "--actor.adam.lr=1e-4",
    f"--shaping.save_rollouts={PROMPTS}",
)
"""Flags of every configuration."""

AT_ONCE = 2
SECONDS_BETWEEN = 5
"""Two Ray clusters that start at the same time could choose the same ports."""
RUN_SECONDS = 600
"""A run that takes longer hangs."""


@dataclass(frozen=True)
class Side:
    """One of the two versions of the code."""

    name: str
    tree: Path
    results: Path
    """A folder for each configuration's files."""


@dataclass(frozen=True)
class Job:
    """One configuration's run on one side."""

    side: Side
    configuration: str

    @property
    def folder(self) -> Path:
        return self.side.results / self.configuration

    @property
    def part(self) -> Path:
        """Where it runs; a run that ended well is moved to `folder`."""
        return RUNS / f"{self.configuration}-{self.side.name}"

    @property
    def log(self) -> Path:
        return RUNS / f"{self.configuration}-{self.side.name}.log"

    @property
    def witness(self) -> Path:
        return RUNS / f"{self.configuration}-{self.side.name}.witness"


def commit_named(name: str) -> str | None:
    """The whole hash of a commit; None if there is none of that name."""
    found = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    return found.stdout.strip() if found.returncode == 0 else None


def checked_out(commit: str, cleanup: contextlib.ExitStack) -> Path:
    """A work tree of the commit, removed at the end."""
    tree = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="same-"))) / commit[:12]
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
    cleanup.callback(subprocess.run, [*git, "remove", "--force", str(tree)], check=True)
    return tree


def warm_start() -> Path:
    """Folder with model/ and train.jsonl, the same for both sides."""
    folder = RUNS / "warm_start"
    print("The policy is taken from runs/cache, or trained first, which takes two minutes", flush=True)
    command = [sys.executable, str(ROOT / "launch" / "laptop" / "warm_start.py"), "--out", str(folder)]
    command += ["--prompts", str(STEPS * PROMPTS * FILTERED)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return folder


def key(start: Path) -> str:
    """A hash of all but the code that decides results: the kind of CPU, policy, prompts, flags and packages."""
    contents = [weights_hash(start / "model"), sha256_of([start / "train.jsonl"])]
    parts = [cpu(), sys.version, sha256_of([ROOT / REQUIREMENTS]), contents, SHARED, CONFIGURATIONS]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


def weights_hash(model: Path) -> str:
    """One hash of the weights in a folder."""
    return sha256_of(sorted(model.glob("*.safetensors")))


def start_run(job: Job, start: Path) -> subprocess.Popen[bytes]:
    """Train one configuration with one side's code."""
    shutil.rmtree(job.part, ignore_errors=True)
    job.witness.unlink(missing_ok=True)
    job.part.mkdir(parents=True)
    policy = start / "model"
    flags = {
        "actor.model_name_or_path": policy,
        "data.prompt_dataset": start / "train.jsonl",
        "ckpt.output_dir": job.part / "model",
        "ckpt.path": job.part / "state",
        "logger.metrics_path": job.part / "metrics.jsonl",
    }
    own = [flag.replace(POLICY, str(policy)) for flag in CONFIGURATIONS[job.configuration]]
    places = [f"--{name}={value}" for name, value in flags.items()]
    path = [WITNESS, job.side.tree / "plugin", job.side.tree / "reward_server"]
    with job.log.open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "openrlhf_gtpo", "train", *SHARED, *own, *places],
            cwd=job.side.tree,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(map(str, path)),
                "OMP_NUM_THREADS": "1",
                "SAME_WITNESS": str(job.witness),
            },
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def finish(job: Job, status: int) -> str | None:
    """Keep the files of a run that ended well, with the hash of its weights in place of the weights.

    Returns:
        Why there is nothing to compare, as a sentence; None if there is.

    Raises:
        SystemExit: a process of the run imported other code than its side's.
    """
    if status:
        return f"{job.side.name} ended with status {status}: see {shown(job.log)}."
    imported = [line.split(maxsplit=2) for line in job.witness.read_text(encoding="utf-8").splitlines()]
    for _, package, origin in imported:
        if not Path(origin).is_relative_to(job.side.tree.resolve()):
            raise SystemExit(f"{job.side.name} imported {package} from {origin}, which is not in {job.side.tree}.")
    logs = [job.log, job.part / "train.log"]  # up to 0.2 all output was on the terminal
    said = "".join(log.read_text(encoding="utf-8", errors="replace") for log in logs if log.is_file())
    workers = set(re.findall(r"\(\w+ pid=(\d+)", said))
    if not workers or not workers <= {process for process, package, _ in imported if package == "openrlhf_gtpo"}:
        raise SystemExit(f"Ray's workers of {job.side.name} did not say what they imported: see {shown(job.witness)}.")
    (job.part / "weights.sha256").write_text(weights_hash(job.part / "model"), encoding="utf-8")
    shutil.rmtree(job.part / "model")
    shutil.rmtree(job.folder, ignore_errors=True)
    job.folder.parent.mkdir(parents=True, exist_ok=True)
    job.part.rename(job.folder)
    print(f"    {len(workers)} Ray workers and {job.side.name}'s driver imported {job.side.tree}", flush=True)
    return None


def run(jobs: Sequence[Job], start: Path, cleanup: contextlib.ExitStack) -> dict[Job, str]:
    """Run all jobs, some at a time; sentences for those that failed."""
    waiting, failed, again = list(jobs), dict[Job, str](), set[Job]()
    active: dict[subprocess.Popen[bytes], tuple[Job, float]] = {}
    cleanup.callback(stop, active)
    last = 0.0
    while waiting or active:
        if waiting and len(active) < AT_ONCE and time.monotonic() - last > SECONDS_BETWEEN:
            job, last = waiting.pop(0), time.monotonic()
            active[start_run(job, start)] = (job, last)
        for process, (job, begin) in list(active.items()):
            seconds = time.monotonic() - begin
            if process.poll() is None:
                if seconds > RUN_SECONDS:
                    os.killpg(process.pid, signal.SIGTERM)  # then it ends with a status
                continue
            del active[process]
            print(f"  {job.configuration} at {job.side.name}: {seconds:.0f} s", flush=True)
            fault = finish(job, process.returncode)
            if fault and job not in again and not (job.part / "metrics.jsonl").exists():
                print(
                    "    it ended before its first step: once more, since Ray may fail to start on a busy machine",
                    flush=True,
                )
                again.add(job)
                waiting.insert(0, job)
            elif fault:
                failed[job] = fault
        time.sleep(0.2)
    return failed


def stop(active: dict[subprocess.Popen[bytes], Any]) -> None:
    """End runs that are still going on: terminate them, and kill them after 20 s."""
    for process in active:
        os.killpg(process.pid, signal.SIGTERM)
    for process in active:
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def verdict(one: Job, other: Job) -> tuple[str, list[str]]:
    """A cell of the table, and sentences on where two runs part; none if they are the same."""
    found = identical.compare(one.folder, other.folder)
    lost, gained = found.only
    weights = [(job.folder / "weights.sha256").read_text(encoding="utf-8") for job in (one, other)]
    faults = list(found.faults)
    if not faults and (found.steps < STEPS or not found.responses):
        faults.append(f"Only {found.steps} of {STEPS} steps and {found.responses} responses can be compared.")
    elif not faults and weights[0] != weights[1]:
        faults.append("Every metric and response is the same, but the final weights differ.")
    told = [f"{said}: {', '.join(names)}" for said, names in (("gone", lost), ("new here", gained)) if names]
    return ("they part" if faults else "; ".join(["the same to the bit", *told])), faults


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="launch/test.sh same", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commit", metavar="COMMIT")
    parser.add_argument("configurations", nargs="*", metavar="CONFIGURATION", help=f"of {', '.join(CONFIGURATIONS)}")
    args = parser.parse_args(argv)
    names = args.configurations or list(CONFIGURATIONS)
    commit = commit_named(args.commit)
    faults = [
        f"there is no configuration {name}: choose from {', '.join(CONFIGURATIONS)}."
        for name in names
        if name not in CONFIGURATIONS
    ]
    if commit is None:
        faults.append(f"there is no commit {args.commit} in this repository: `git log` has their names.")
    if commit is None or faults:
        print(f"launch/test.sh same: {faults[0]}", file=sys.stderr)
        return 2
    begin = time.monotonic()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    RUNS.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as cleanup:
        try:
            cleanup.enter_context(FileLock(RUNS / "lock", timeout=0))
        except Timeout:
            print(f"launch/test.sh same: another comparison writes to {shown(RUNS)}: wait for it.", file=sys.stderr)
            return 2
        start = warm_start()
        kept = KEPT / f"{commit[:12]}-{key(start)}"
        there = Side(commit[:12], Path(), kept)
        waiting = [name for name in names if not (kept / name).is_dir()]
        if waiting:
            there = dataclasses.replace(there, tree=checked_out(commit, cleanup))
        here = Side("here", ROOT, RUNS / "here")
        if subprocess.run(["git", "diff", "--quiet", commit, "--", REQUIREMENTS], cwd=ROOT).returncode:
            print(f"{REQUIREMENTS} is another at {there.name}: both sides run with this tree's packages.")
        count = f"{len(names)} configuration{'s'[: len(names) > 1]}"
        print(
            f"{count}, {STEPS} steps of {PROMPTS} x {SAMPLES} responses, {AT_ONCE} runs at a "
            f"time; {len(names) - len(waiting)} of {there.name} are kept from before",
            flush=True,
        )
        pairs = {name: (Job(there, name), Job(here, name)) for name in names}
        jobs = [job for name, pair in pairs.items() for job in pair if job.side is here or name in waiting]
        failed = run(jobs, start, cleanup)
    results: dict[str, tuple[str, list[str]]] = {}
    for name, pair in pairs.items():
        broken = [failed[job] for job in pair if job in failed]
        results[name] = ("no result", broken) if broken else verdict(*pair)
    print(f"\n{there.name} and this work tree, after {time.monotonic() - begin:.0f} s:")
    print("\n".join(f"{name:<{max(map(len, results))}}  {cell}" for name, (cell, _) in results.items()))
    for name, (_, faults) in results.items():
        if faults:
            print("\n".join([f"\n{name}:", *(f"  {fault}" for fault in faults)]))
    return int(any(faults for _, faults in results.values()))


if __name__ == "__main__":
    sys.exit(main())
