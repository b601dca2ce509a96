"""Trains one policy in several ways with several seeds, evaluates the results, and compares them.

A study is data (`Design`); this is the code that all studies share. Runs of the same policy and seed begin with the
same weights, see the same prompts in the same order, draw their tokens with the same noise, and differ only in their
arm's flags. Each is evaluated during training and, on more prompts, at its end. Finished runs are kept, so an
interrupted study continues where it stopped.
Each leaves one small record: out of a folder of them `--analyse FOLDER` makes the tables again, and `--times FOLDER`
tells how long such runs take.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

import record
import results
from inference import Replicate
from openrlhf_gtpo.cpu.platform import prepare_process, worker_python
from openrlhf_gtpo.tables import markdown
from record import Record

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(sys.argv[0]).name

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


class Runner:
    """Runs Python's commands, each with its log, and stops all of them when it stops.

    Args:
        python: program that runs them in the place of the one that they name.
    """

    def __init__(self, python: str) -> None:
        self.python = python
        self.running: dict[subprocess.Popen[bytes], str] = {}

    def start(self, command: list[str], log: Path) -> subprocess.Popen[bytes]:
        with log.open("ab") as file:
            process = subprocess.Popen(
                [self.python, *command[1:]],
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
    print(f"  {summary(results.final(out))}", flush=True)


def summary(figures: dict[str, float]) -> str:
    most = max(int(key.removeprefix("pass@")) for key in figures if key.startswith("pass@"))
    return ", ".join(f"{key} {figures[key]:.3f}" for key in ("pass@1", f"pass@{most}", "entropy_response_mean"))


def steps_done(folder: Path) -> int:
    path = folder / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.is_file() else 0


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
            while len(active) < study.jobs and (job := next((job for job in waiting if job.may_begin(study)), None)):
                waiting.remove(job)
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


def parse(design: Design) -> Study:
    parser = argparse.ArgumentParser(
        description=design.description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / design.name, help=f"(runs/{design.name})")
    parser.add_argument(
        "--records",
        type=Path,
        help="folder for one small file a run, out of which --analyse makes the tables again (OUT/records)",
    )
    parser.add_argument("--long", action="store_true", help="defaults of 5 seeds and 400 steps")
    parser.add_argument(
        "--start",
        type=Path,
        help="folder with model/, train.jsonl and heldout.jsonl: the only initial policy, in the place of --policies",
    )
    usual_policies = ",".join(map(str, design.policies))
    parser.add_argument(
        "--policies", help=f"initial policies: seeds of warm starts, separated by commas ({usual_policies})"
    )
    if design.has_guide:
        parser.add_argument(
            "--guide", type=Path, help="folder with the guide's model/ (OUT/guide_warm_start, made when missing)"
        )
    usual = sorted({arm.seeds for arm in design.arms}, reverse=True)
    said = " or ".join(map(str, usual))
    parser.add_argument("--seeds", type=int, default=None, help=f"of each arm and policy, 1 to {MOST_SEEDS} ({said})")
    parser.add_argument("--steps", type=int, default=None, help=f"steps of each run ({design.steps})")
    everything = ",".join(arm.key for arm in design.arms)
    parser.add_argument(
        "--arms", "--algorithms", dest="arms", default=everything, help=f"separated by commas ({everything})"
    )
    rate = design.learning_rate
    parser.add_argument("--learning_rate", type=float, default=rate, help=f"of the policy ({rate:g})")
    final_prompts = design.final_prompts
    parser.add_argument(
        "--final_prompts", type=int, default=final_prompts, help=f"prompts of the final evaluation ({final_prompts})"
    )
    parser.add_argument("--jobs", type=int, default=JOBS, help="runs at a time (cores)")
    args = parser.parse_args()
    seeds = args.seeds if args.seeds is not None else 5 if args.long else None
    steps = args.steps if args.steps is not None else 400 if args.long else design.steps
    arms = tuple(args.arms.split(","))
    for key in arms:
        if key not in everything.split(","):
            parser.error(f"--arms has {key!r}: choose from {everything.replace(',', ', ')}")
        followed = design.arm(key).follows
        if followed is not None and followed not in arms:
            parser.error(f"--arms has {key}, whose runs need those of {followed}: add {followed}")
    bounds = (("seeds", seeds or 1, MOST_SEEDS), ("steps", steps, 600), ("jobs", args.jobs, 64))
    most_prompts = HELD_OUT_PROMPTS - design.evaluation_prompts
    for flag, value, most in (*bounds, ("final_prompts", args.final_prompts, most_prompts)):
        if not 1 <= value <= most:
            parser.error(f"--{flag} is {value}, but has to be from 1 to {most}")
    if design.final_samples is None and steps % min(steps, design.evaluations):
        parser.error(
            f"--steps is {steps}, but has to be a multiple of {design.evaluations}: each run has so many evaluations, "
            "and the last one is its result"
        )
    if args.start and args.policies:
        parser.error("--start is one initial policy and --policies names warm starts: give one of the two")
    policies = policies_of(parser, args.policies) if args.policies else design.policies
    if args.start:
        policies = (0,)
    if args.learning_rate <= 0:
        parser.error(f"--learning_rate is {args.learning_rate}, but has to be above 0")
    out = args.out.resolve()
    start = (args.start or out / "warm_start").resolve()
    guide = (args.guide or out / "guide_warm_start").resolve() if design.has_guide else None
    for flag, folder in (("start", start), ("guide", guide)):
        if getattr(args, flag, None) and not (folder / "model" / "config.json").is_file():
            parser.error(f"--{flag}: there is no model in {folder / 'model'}")
    records = args.records and args.records.resolve()
    rest = (args.jobs, args.learning_rate, start, guide, args.final_prompts)
    return Study(design, out, arms, seeds, steps, *rest, records_at=records, policies=policies)


def policies_of(parser: argparse.ArgumentParser, text: str) -> tuple[int, ...]:
    """The value of --policies; ends the program with a sentence where it is none."""
    fits = re.fullmatch(r"\d{1,6}(,\d{1,6})*", text)
    policies = tuple(map(int, text.split(","))) if fits else ()
    if len(policies) == 0 or len(set(policies)) < len(policies):
        parser.error(f"--policies is {text}, but has to be different whole numbers such as 0,1,2")
    return policies


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


def main(design: Design) -> None:
    if sys.argv[1:2] in (["--analyse"], ["--times"]) and len(sys.argv) == 3:
        folder = Path(sys.argv[2])
        try:
            print(times(design, record.load(folder)) if sys.argv[1] == "--times" else analysed(design, folder, folder))
        except ValueError as error:
            print(f"{SCRIPT}: {error}", file=sys.stderr)
            raise SystemExit(2) from None
        return
    study = parse(design)
    begin = time.monotonic()
    perform([study])
    print("== report", flush=True)
    text = compared(study) if design.layout else ""
    print(analysed(design, study.records, study.out) if design.analyse else text)
    print(f"\nTook {(time.monotonic() - begin) / 60:.0f} minutes. The results are in {study.out}")
    print(f"One record a run, small enough to be committed, is in {study.records}")


def perform(studies: Sequence[Study]) -> None:
    """Run what has not run yet of some studies, one after the other."""
    for study in studies:
        check_folder(study)
    exit_on_signals()
    with contextlib.ExitStack() as cleanup:
        # Every command is a fork of one process that has imported torch, vLLM and the rest: see cpu/zygote.py.
        prepare_process()
        runner = Runner(worker_python(cleanup) or sys.executable)
        cleanup.callback(runner.stop)
        for study in studies:
            prepare(study, runner)
            run(study, study.jobs_in_order(), runner)


def analysed(design: Design, records: Path, out: Path) -> str:
    """Write the tables of a study out of its records; returns them.

    Raises:
        ValueError: the records cannot be compared.
    """
    if design.analyse is not None:
        return design.analyse(records, out)
    assert design.layout is not None, "a design has a layout or analyses its records itself"
    return results.analyse(records, out, {arm.key: arm.title for arm in design.arms}, design.layout)


def times(design: Design, records: list[Record]) -> str:
    """How long recorded runs took, and what all runs of the design would take at that pace.

    Raises:
        ValueError: there are no records, or they cannot be compared.
    """
    record.check(records)
    rows, medians = [], {}
    for key in dict.fromkeys(one.arm for one in records):
        mine = [one for one in records if one.arm == key]
        seconds = [one.seconds for one in mine]
        medians[key] = statistics.median(seconds)
        steps = statistics.median(sum(one.series("seconds")) for one in mine)  # 0 where old records do not tell
        parts = [f"{steps / mine[0].steps:.2f}", f"{medians[key] - steps:.0f}"] if steps else ["", ""]
        rows.append(
            [key, len(mine), *(f"{value:.0f}" for value in (medians[key], min(seconds), max(seconds))), *parts]
        )
    usual = statistics.median(medians.values())
    counts = [(arm.seeds * len(design.policies), medians.get(arm.key, usual)) for arm in design.arms]
    hours = sum(runs * seconds for runs, seconds in counts) / JOBS / 3600
    head = ["", "runs", "seconds a run, median", "least", "most", "seconds a step", "start and evaluations"]
    return (
        f"{markdown(head, rows)}\n\n{sum(runs for runs, _ in counts)} runs of {records[0].steps} steps, as many as "
        f"this study has by default, take {hours:.1f} hours at this pace, {JOBS} at a time."
    )


def exit_on_signals() -> None:
    """Turn what ends this process into SystemExit, so that its runs are stopped."""

    def interrupted(number: int, _: Any) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)


def compared(study: Study) -> str:
    """Write tables, curves and report.html by the design's layout; returns the tables."""
    design, layout = study.design, study.design.layout
    assert layout is not None, "only a design with a layout has a report"
    names = {key: design.arm(key).title for key in study.arms}
    folders: dict[str, dict[Replicate, Path]] = {key: {} for key in names}
    for job in study.jobs_in_order():
        folders[job.arm.key][job.policy, job.seed] = job.folder(study)
    runs = {len(mine) for mine in folders.values()}
    is_whole = len(names) == len(design.arms) and len(runs) == 1
    title = f"{design.title}, {runs.pop()} runs each" if is_whole else "Comparison"
    return results.write(study.out, names, folders, layout, title)
