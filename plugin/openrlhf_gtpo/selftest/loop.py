"""Runs a few training steps with the flags of a GPU's command line, and checks their metrics."""

import json
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from openrlhf_gtpo.checks.isolated import last_line
from openrlhf_gtpo.selftest.policy import Task
from openrlhf_gtpo.selftest.result import Result, failed, passed

SHARED = ("--ds.packing_samples", "--train.colocate_all", "--vllm.enable_sleep", "--ds.enable_sleep")
LORA = ("--ds.lora.rank=8", "--ds.lora.alpha=16")
SECONDS = 600
FREE_SECONDS = 60
"""How long a GPU may be held by processes that are ending."""
GAP = {"cpu": 5e-3, "gpu": 2e-2}
"""Largest mean difference between log-probabilities of rollout and policy, nats per token: both compute with the same
weights in bfloat16, with different code."""


def train(task: Task, folder: Path, device: str, steps: int, log: Path, *flags: str) -> Result:
    """Run training up to step ``steps``; with --ckpt.load_enable it continues from the checkpoints in ``folder``.

    Args:
        task: policy, prompts and reward.
        folder: for checkpoints and metrics.
        device: ``cpu`` or ``gpu``.
        steps: the last step.
        log: file for what the run prints, Ray's workers included.
        flags: besides those that every run here has.
    """
    if device == "gpu" and (held := _gpu_is_held()):
        return failed(held)
    command = [
        *[sys.executable, "-m", "openrlhf_gtpo.train", f"--device={device}", "--algo.advantage.estimator=gtpo"],
        *[f"--actor.model_name_or_path={task.model}", f"--data.prompt_dataset={task.data}"],
        *["--data.input_key=input", "--data.label_key=label", "--data.apply_chat_template", "--data.max_len=128"],
        *["--algo.kl.init_coef=0", "--rollout.batch_size=8", "--rollout.n_samples_per_prompt=8"],
        *["--rollout.micro_batch_size=16", "--rollout.max_new_tokens=32", "--train.batch_size=32"],
        *["--train.micro_batch_size=8", f"--train.max_steps={steps}", "--actor.num_gpus_per_node=1"],
        *["--vllm.num_engines=1", f"--reward.remote_url={task.reward}", f"--ckpt.output_dir={folder / 'model'}"],
        *[f"--ckpt.path={folder / 'state'}", f"--logger.metrics_path={folder / 'metrics.jsonl'}"],
        *(["--vllm.sync_backend=nccl", "--vllm.gpu_memory_utilization=0.4"] if device == "gpu" else []),
        *flags,
    ]
    folder.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        try:
            status = subprocess.run(
                command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=SECONDS
            ).returncode
        except subprocess.TimeoutExpired:
            return failed(f"It did not end within {SECONDS} s; its log is {log}.")
    if status:
        return failed(f"It ended with exit code {status}: {last_line(log)} (its log is {log}).")
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return judged([json.loads(line) for line in lines], steps, device)


def _gpu_is_held() -> str | None:
    """Which processes still hold memory of a GPU after a while, as a sentence; None if it is free, or without
    nvidia-smi. The engines of an earlier part or of another run take seconds to end."""
    asked = ["nvidia-smi", "--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader"]
    for attempt in range(FREE_SECONDS):
        try:
            said = subprocess.run(asked, capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired):
            return None
        holders = [line.strip() for line in said.stdout.splitlines() if line.strip()]
        if said.returncode or not holders:
            return None
        if attempt + 1 < FREE_SECONDS:
            time.sleep(1)
    return f"Other processes hold memory of this machine's GPUs ({'; '.join(holders)}): end them, then run this again."


def judged(metrics: list[dict[str, Any]], steps: int, device: str) -> Result:
    """Check every step's metrics: the number of steps, entropies above 0, agreeing log-probabilities, a gradient."""
    recorded = [line["step"] for line in metrics]
    if recorded != list(range(1, steps + 1)):
        return failed(f"Its steps are {recorded}, not those from 1 to {steps}.")
    gap = max(line["mismatch/logprob_gap"] for line in metrics)
    entropy = [line["entropy/token_mean"] for line in metrics]
    figures = {"logprob_gap": gap, "entropy": entropy[-1], "step_seconds": metrics[-1]["timing/step_total"]}
    if not all(math.isfinite(value) and value > 0 for value in entropy):
        return failed(f"Its entropies are {entropy}: the hook's are above 0.", **figures)
    if not gap <= GAP[device]:
        return failed(
            f"Log-probabilities of rollout and policy differ by {gap:.1e} nats, more than {GAP[device]:g}: vLLM does "
            "not have the policy's weights.",
            **figures,
        )
    if not all(line["actor_grad_norm"] > 0 for line in metrics):
        return failed("A step had no gradient.", **figures)
    return passed(f"{steps} steps; rollout and policy differ by {gap:.1e} nats a token at most.", **figures)
