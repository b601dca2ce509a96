"""Runs the real loop (Ray, DeepSpeed, vLLM, the reward service) in a process of its own and reads what it left
behind."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from identical import compare
from openrlhf_gtpo.cpu.platform import WORKERS, has_native_bf16

from .. import preloaded
from ..metrics_page import is_described

PROMPTS, SAMPLES = 16, 8

GAP = {"fp32": 5e-6, "bf16": 5e-3}
"""The most by which log-probabilities of rollout and policy may differ on average where both have the same weights:
what is left to rounding in either precision (5e-7 and 1e-3 are seen)."""

OTHER_PRECISION = "--ds.param_dtype=fp32"
"""For some of the runs: where a CPU has bfloat16 both precisions are tested, and elsewhere the one that there is."""


def own_gap() -> float:
    """The bound of `GAP` for the precision that a run takes on this machine by itself."""
    return GAP["bf16" if has_native_bf16() else "fp32"]


EXTRA_LOGS = {"turns", "brevity"}
"""What the agent and the reward function of docs/examples log."""


@dataclass
class Run:
    """A training run that ended."""

    status: int
    log: str
    metrics: list[dict[str, Any]]
    folder: Path

    @property
    def settings(self) -> dict[str, Any]:
        """The flags as they were resolved."""
        return json.loads((self.folder / "run.json").read_text())["settings"]

    @property
    def gap(self) -> float:
        """The bound of ``GAP`` for the precision that this run was in."""
        return GAP[self.settings["ds.param_dtype"]]

    @staticmethod
    def rollouts_in(folder: Path) -> list[dict[str, Any]]:
        """The responses that a run has saved."""
        return [json.loads(line) for line in (folder / "rollouts.jsonl").read_text().splitlines()]

    def rollouts(self) -> list[dict[str, Any]]:
        return self.rollouts_in(self.folder)

    def check(self) -> "Run":
        """Fail with the end of the log unless training ended well and logged what docs/metrics.md describes."""
        assert self.status == 0, self.log[-4000:]
        names = {name for line in self.metrics for name in line} - {"step", "time"} - EXTRA_LOGS
        assert [name for name in sorted(names) if not is_described(name)] == [], "without a row in docs/metrics.md"
        return self


def shared_cluster() -> dict[str, str]:
    """Environment of a run whose subject is not the Ray cluster."""
    return {"RAY_ADDRESS": preloaded.ray_address()}


def command(
    policy: Path, folder: Path, estimator: str, steps: int, *flags: str, program: tuple[str, ...]
) -> list[str]:
    return [
        *program,
        "--device=cpu",
        f"--actor.model_name_or_path={policy / 'model'}",
        f"--data.prompt_dataset={policy / 'train.jsonl'}",
        "--data.input_key=input",
        "--data.label_key=label",
        "--data.apply_chat_template",
        f"--data.max_samples={steps * PROMPTS}",
        "--data.max_len=96",
        f"--algo.advantage.estimator={estimator}",
        "--algo.kl.init_coef=0",
        f"--rollout.batch_size={PROMPTS}",
        f"--rollout.n_samples_per_prompt={SAMPLES}",
        "--rollout.micro_batch_size=16",
        "--rollout.max_new_tokens=40",
        "--train.batch_size=64",
        "--train.micro_batch_size=16",
        "--actor.num_gpus_per_node=1",
        "--actor.adam.lr=1.5e-4",
        "--vllm.num_engines=1",
        f"--ckpt.output_dir={folder / 'model'}",
        f"--logger.metrics_path={folder / 'metrics.jsonl'}",
        *flags,
    ]


class Training:
    """A run that goes on. Its processes are found again by a mark in their environment, also when they lost their
    parent; a preloaded run's, whose environment is that of the process they are forks of, by their ancestor.

    Args:
        is_preloaded: start as a fork. A driver that is sent a signal is a process of its own.
        own_cluster: start Ray as a run does by itself; else use the preloaded cluster.
    """

    def __init__(
        self,
        policy: Path,
        folder: Path,
        estimator: str,
        steps: int,
        *flags: str,
        is_preloaded: bool = False,
        own_cluster: bool = True,
        program: tuple[str, ...] = ("-m", "openrlhf_gtpo.train"),
        **environment: str,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.log = (folder / "log").open("w+")
        python = preloaded.python() if is_preloaded else sys.executable
        cluster = {} if own_cluster else shared_cluster()
        workers = {WORKERS: preloaded.python()} if is_preloaded else {}
        self.descendants = preloaded.descendants if is_preloaded else list
        self.older = set(self.descendants())
        self.process = subprocess.Popen(
            [python, *command(policy, folder, estimator, steps, *flags, program=program)],
            stdout=self.log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OPENRLHF_GTPO_TEST_RUN": str(folder), **cluster, **workers, **environment},
            start_new_session=True,
        )

    def text(self) -> str:
        """What it wrote to the terminal, then what it wrote to train.log."""
        logs = (self.folder / "log", self.folder / "train.log")
        return "".join(log.read_text(errors="replace") for log in logs if log.is_file())

    def metrics(self) -> list[dict[str, Any]]:
        """Of the lines that are whole: a reader can see the first page of a line that is being written."""
        path = self.folder / "metrics.jsonl"
        whole = path.read_text().rpartition("\n")[0] if path.exists() else ""
        return [json.loads(line) for line in whole.splitlines()]

    def wait_for_steps(self, steps: int, seconds: float = 600) -> None:
        deadline = time.monotonic() + seconds
        while len(self.metrics()) < steps:
            assert self.process.poll() is None, self.text()[-4000:]
            assert time.monotonic() < deadline, self.text()[-4000:]
            time.sleep(0.2)

    def processes(self) -> list[psutil.Process]:
        """Every process of this run, whoever its parent is by now."""
        found = [process for process in self.descendants() if process not in self.older]
        for process in psutil.process_iter():
            try:
                if process.environ().get("OPENRLHF_GTPO_TEST_RUN") == str(self.folder):
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
                continue
        return found

    def end(self, seconds: float = 700) -> Run:
        """Wait until it ends by itself; a run that does not fails with the end of its log and what it left running."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            alive = "\n".join(self.survivors(0))
            raise AssertionError(
                f"It did not end within {seconds:g} s.\n{self.text()[-8000:]}\nAlive:\n{alive}"
            ) from None
        finally:
            self.kill()
        self.log.close()
        return Run(status, self.text(), self.metrics(), self.folder)

    def survivors(self, seconds: float = 120) -> list[str]:
        """Names of the processes that are still there after a time to say goodbye."""
        deadline = time.monotonic() + seconds
        while (alive := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.5)
        names = []
        for process in alive:
            try:
                names.append(" ".join(process.cmdline())[:120])
            except psutil.NoSuchProcess:
                continue
        return names

    def kill(self) -> None:
        """Leave nothing behind, whatever happened."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        for process in self.processes():
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue


@dataclass
class Ended:
    """A run that was ended from outside."""

    metrics: list[dict[str, Any]]
    """Of the steps before."""
    processes: int
    """How many it had."""
    status: int
    survivors: list[str]
    """Command lines of what was still there a minute later."""
    log: str
    """The end of what it wrote."""


def ended_by(number: int, training: Training, steps: int) -> Ended:
    """Wait for some steps of a run, then send its driver a signal; what a terminal sends goes to its whole group."""
    try:
        training.wait_for_steps(steps)
        metrics, processes = training.metrics(), len(training.processes())
        if number == signal.SIGINT:
            os.killpg(training.process.pid, number)
        else:
            training.process.send_signal(number)
        status, survivors = training.process.wait(60), training.survivors(60)
        return Ended(metrics, processes, status, survivors, training.text()[-4000:])
    finally:
        training.kill()


def stopped_with(training: Training) -> str:
    """The last line of a run that had to stop."""
    run = training.end()
    assert run.status == 1, run.log[-3000:]
    return (run.folder / "log").read_text().strip().splitlines()[-1]


def check_prompts(lines: list[dict[str, Any]], steps: int) -> None:
    """Every step has its groups, and no prompt was answered twice."""
    for step in range(1, steps + 1):
        prompts = [line["prompt"] for line in lines if line["step"] == step]
        assert len(prompts) == PROMPTS * SAMPLES, f"step {step}"
    groups = {(line["step"], line["group"]) for line in lines}
    assert len({line["prompt"] for line in lines}) == len(groups) == steps * PROMPTS


def is_right(line: dict[str, Any]) -> bool:
    """Whether a line of rollouts.jsonl ends in the right box, as a reader of its tokens would say; a verdict that
    agrees belongs to this response and no other. The policy puts a line feed into a box now and then."""
    return re.search(rf"\\boxed\{{\s*{re.escape(line['label'])}\s*\}}", "".join(line["tokens"])) is not None


def apart(one: Run, other: Run) -> list[str]:
    """Where two runs part; nothing where their metrics (but for times and counts of requests), saved responses and
    final weights are the same to the last bit."""
    assert [line["step"] for line in one.metrics] == [line["step"] for line in other.metrics]
    weights, others = ([file.read_bytes() for file in weight_files(run)] for run in (one, other))
    assert weights, "a run saves its policy"
    return compare(one.folder, other.folder).faults + ["final weights"] * (weights != others)


def weight_files(run: Run) -> list[Path]:
    return sorted(file for kind in ("safetensors", "bin") for file in (run.folder / "model").glob(f"*.{kind}"))


def train(policy: Path, folder: Path, estimator: str, steps: int, *flags: str, **kwargs: Any) -> Run:
    """Run to the end, on the preloaded cluster unless told otherwise."""
    kwargs = {"is_preloaded": True, "own_cluster": False} | kwargs
    return Training(policy, folder, estimator, steps, *flags, **kwargs).end()
