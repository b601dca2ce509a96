"""Times a step of GRPO here beside TRL's, in turns, on this machine's CPU: the same model, prompts and sizes.

    bash launch/adapters.sh trl     # makes TRL's environment, once
    python tests/benchmarks/bench_trl.py --model M --data D [--rounds 3] [--steps 4]

M is a policy and D its prompts, as `launch/quickstart.sh` leaves them in runs/quickstart/warm_start, or for SmolLM2 in
runs/smollm2/warm_start. A step has 8 prompts with 8 responses of at most 48 tokens, strict rewards for a box, and one
update, in bfloat16 where the CPU has it. TRL samples with transformers, since its vLLM needs a GPU. Medians over the
rounds of the median of all steps but the first; seconds of the wall, and the largest memory of all processes.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil
from tables import markdown

ROOT = Path(__file__).resolve().parents[2]
TRL = ROOT / "runs" / "cache" / "adapters" / "trl" / "bin" / "python"
PROMPTS, RESPONSES, TOKENS, MICRO = 8, 8, 48, 16
PARTS = {
    "generation": "timing/generation",
    "log-probabilities": "timing/make_experience",
    "update": "timing/ppo_train",
}
"""What a step spends its time on -> our metric."""


def peak(process: subprocess.Popen[str]) -> float:
    """GiB of the process and all that it starts, once it has ended: the largest sum of unshared memory."""
    most = 0.0
    while process.poll() is None:
        total = 0
        with contextlib.suppress(psutil.Error):  # one that has just ended
            first = psutil.Process(process.pid)
            for one in [first, *first.children(recursive=True)]:
                with contextlib.suppress(psutil.Error):
                    total += one.memory_full_info().uss
        most = max(most, total / 2**30)
        time.sleep(1)
    return most


def run(command: list[str], **environment: str) -> float:
    """Run a program to its end; GiB at most.

    Raises:
        SystemExit: it failed; with the end of its log.
    """
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, text=True, env={**os.environ, **environment}
        )
        found: list[float] = []
        watch = threading.Thread(target=lambda: found.append(peak(process)))
        watch.start()
        process.wait()
        watch.join()
        if process.returncode:
            log.seek(0)
            sys.exit(f"{' '.join(command[:4])} ... ended with {process.returncode}:\n{log.read()[-3000:]}")
    return found[0]


def ours(args: argparse.Namespace, folder: Path) -> dict[str, float]:
    flags = ["--actor.model_name_or_path", args.model, "--data.prompt_dataset", args.data, "--device", "cpu"]
    flags += ["--data.input_key", "input", "--data.label_key", "label", "--data.apply_chat_template"]
    flags += ["--algo.advantage.estimator", "grpo", "--algo.kl.init_coef", "0", "--reward.mode", "strict"]
    flags += ["--data.max_samples", str(PROMPTS * args.steps), "--vllm.enable_prefix_caching"]
    flags += ["--rollout.batch_size", str(PROMPTS), "--rollout.n_samples_per_prompt", str(RESPONSES)]
    flags += ["--rollout.max_new_tokens", str(TOKENS), "--rollout.micro_batch_size", str(MICRO)]
    flags += ["--train.batch_size", str(PROMPTS * RESPONSES), "--train.micro_batch_size", str(MICRO)]
    flags += [
        "--data.max_len",
        str(args.max_len),
        "--actor.adam.lr",
        "1e-6",
        "--ckpt.output_dir",
        str(folder / "model"),
    ]
    flags += ["--logger.metrics_path", str(folder / "metrics.jsonl")]
    memory = run([sys.executable, "-m", "openrlhf_gtpo.train", *flags])
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()][1:]
    found = {name: statistics.median(line[key] for line in lines) for name, key in PARTS.items()}
    return {"step": statistics.median(line["timing/step_total"] for line in lines), **found, "memory": memory}


def trls(args: argparse.Namespace, folder: Path) -> dict[str, float]:
    out = folder / "trl.json"
    program = [
        str(TRL),
        str(Path(__file__).with_name("trl_step.py")),
        args.model,
        args.data,
        str(out),
        str(args.steps),
    ]
    memory = run(program, PYTHONPATH=str(ROOT / "reward_server"), OMP_NUM_THREADS=str(os.cpu_count()))
    lines: list[dict[str, Any]] = json.loads(out.read_text())[1:]
    return {**{key: statistics.median(line[key] for line in lines) for key in lines[0]}, "memory": memory}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--max_len", type=int, default=512, help="tokens of a prompt with its response (512)")
    parser.add_argument("--rounds", type=int, default=3, help="(3)")
    parser.add_argument("--steps", type=int, default=4, help="of each round; the first is not counted (4)")
    args = parser.parse_args()
    if not TRL.is_file():
        sys.exit("TRL is not installed: bash launch/adapters.sh trl")
    seen: dict[str, list[dict[str, float]]] = {"this project": [], "TRL": []}
    for number in range(args.rounds):
        for name, measure in [("this project", ours), ("TRL", trls)][:: -1 if number % 2 else 1]:
            with tempfile.TemporaryDirectory() as folder:
                seen[name].append(measure(args, Path(folder)))
            print(f"round {number + 1}, {name}: {seen[name][-1]['step']:.1f} s a step", file=sys.stderr, flush=True)
    keys = ["step", *PARTS, "memory"]
    rows = []
    for name, rounds in seen.items():
        pairs = [one["step"] / other["step"] for one, other in zip(rounds, seen["this project"], strict=True)]
        cells = [f"{statistics.median(one.get(key, float('nan')) for one in rounds):.2f}" for key in keys]
        rows.append([name, *cells, f"{statistics.median(pairs):.2f}"])
    print(markdown(["", "a step, s", *(f"{part}, s" for part in PARTS), "GiB", "step, in pairs"], rows))


if __name__ == "__main__":
    main()
