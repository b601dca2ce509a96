"""The fourth call: methods are compared on SmolLM2-135M, which learns word problems by launch/train_one_gpu.sh with
ZeRO-3: with DAPO's filter, with LoRA, and with GTPO, which stops, goes on and is evaluated.

    python3 tests/gpu/loop.py --out FOLDER [--only compare,dapo,lora,train,resume,eval] [--device cpu]

On a CPU a small policy with random weights makes the same steps without the script.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RAY_LOGS = Path("/tmp/ray/session_latest/logs")
SITE = Path(os.environ.get("SITE", "/tmp/openrlhf_gtpo_site"))
STEPS = {"gpu": (8, 20), "cpu": (2, 3)}
FILTER = ("--algo.dynamic_filtering_enable", "--algo.dynamic_filtering_range", "0", "1")
AT_ONCE = {"gpu": 128, "cpu": 16}
LORA = ("--ds.lora.rank=8", "--ds.lora.alpha=16", "--actor.adam.lr=2e-4")  # 2e-5 taught an adapter nothing
PARTS = {"compare": (0, ()), "dapo": (0, FILTER), "lora": (0, LORA), "train": (0, ())}
PARTS |= {"resume": (1, ("--ckpt.load_enable",)), "eval": (0, ())}
"""Name -> which of `STEPS` to train up to, and flags of its own. First what no GPU has seen."""
SHOWN = ("rollout/pass_rate", "entropy/token_mean", "mismatch/logprob_gap", "actor_grad_norm", "timing/step_total")


def make_task(work: Path, device: str) -> None:
    """A model and prompts: SmolLM2 out of the wheel that was packed, or the doctor's."""
    from openrlhf_gtpo import doctor

    if device == "cpu":
        doctor.make_task(work, device)
        return
    sys.path.insert(0, str(ROOT / "launch" / "smollm2"))
    import start

    start._convert(SITE / "smollm2", work / "made")
    command = [sys.executable, ROOT / "launch/smollm2/start.py", "--out", work, "--prompts", "2000"]
    subprocess.run([*command, "--model", work / "made"], check=True)


def folder(part: str, work: Path) -> Path:
    """Of what a part writes."""
    return work / (part if part in ("compare", "dapo", "lora") else "trained")


def command(part: str, work: Path, device: str) -> list[str]:
    which, flags = PARTS[part]
    steps, out = STEPS[device][which], folder(part, work)
    if part == "compare":
        given = [f"--device={device}", f"--model={work / 'model'}", f"--data={work / 'train.jsonl'}", f"--out={out}"]
        return [sys.executable, "-m", "openrlhf_gtpo", "compare", *given, "--max_new_tokens=48"]
    if part == "eval":
        heldout = work / ("heldout.jsonl" if device == "gpu" else "prompts.jsonl")
        found = ["-m", "openrlhf_gtpo", "eval", f"--device={device}", f"--model={out / 'model'}", f"--data={heldout}"]
        return [sys.executable, *found, f"--out={work / 'eval'}", "--n=4", "--k=1,4", "--max_new_tokens=48"]
    common = [f"--train.max_steps={steps}", "--ckpt.save_steps=4", "--train.num_episodes=9", *flags]
    common += [f"--rollout.over_sampling_batch_size={AT_ONCE[device]}"] if part == "dapo" else []
    if device == "gpu":
        ours = ["--ds.zero_stage=3", "--rollout.max_new_tokens=48", "--data.max_len=320", "--actor.adam.lr=2e-5"]
        return ["bash", str(ROOT / "launch/train_one_gpu.sh"), *ours, *common]
    script = [
        *[sys.executable, "-m", "openrlhf_gtpo.train", "--device=cpu", "--algo.advantage.estimator=gtpo"],
        *[f"--actor.model_name_or_path={work / 'model'}", f"--data.prompt_dataset={work / 'prompts.jsonl'}"],
        *["--data.input_key=input", "--data.label_key=label", "--data.apply_chat_template", "--data.max_len=128"],
        *["--algo.kl.init_coef=0", "--rollout.batch_size=8", "--rollout.n_samples_per_prompt=8"],
        *["--rollout.max_new_tokens=32", "--train.batch_size=32", "--ds.zero_stage=3", "--ds.packing_samples"],
        *[f"--reward.remote_url={work / 'reward.py'}", f"--ckpt.output_dir={out / 'model'}"],
        *[f"--ckpt.path={out / 'state'}", f"--logger.metrics_path={out / 'metrics.jsonl'}"],
    ]
    return [*script, *common, "--ckpt.save_steps=1"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--only", help="parts (on a CPU all but compare, to which random weights give no right answer)"
    )
    parser.add_argument("--device", choices=["cpu", "gpu"], default="gpu")
    args = parser.parse_args()
    parts = args.only.split(",") if args.only else [*PARTS][args.device == "cpu" :]
    work = Path("/tmp/openrlhf-gtpo-loop") if args.device == "gpu" else args.out / "work"
    if not (work / "model").exists():
        work.mkdir(parents=True, exist_ok=True)
        make_task(work, args.device)
    failed = 0
    for part in parts:
        out = folder(part, work)
        environment = {**os.environ, "MODEL": str(work / "model"), "DATA": str(work / "train.jsonl"), "OUT": str(out)}
        begin = time.monotonic()
        with (args.out / f"loop-{part}.log").open("w") as log:
            try:
                status = subprocess.run(
                    command(part, work, args.device),
                    env={**environment, "PYTHON": sys.executable},
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    timeout=420,
                ).returncode
            except subprocess.TimeoutExpired:
                status = -1
        failed |= status != 0
        print(f"== {part}: exit status {status} after {time.monotonic() - begin:.0f} s", flush=True)
        print(*(args.out / f"loop-{part}.log").read_text().splitlines()[-6:], sep="\n", flush=True)
        for name in ("metrics.jsonl", "train.log", "run.json", "rollouts.jsonl"):
            if (out / name).is_file():
                shutil.copy(out / name, args.out / f"loop-{part}-{name}")
    metrics = work / "trained" / "metrics.jsonl"
    for line in map(json.loads, metrics.read_text().splitlines() if metrics.is_file() else ()):
        print(line["step"], *(f"{name} {line[name]:.4g}" for name in SHOWN if name in line), flush=True)
    if RAY_LOGS.is_dir() and failed:
        with tarfile.open(args.out / "ray_logs.tar.gz", "w:gz") as file:
            file.add(RAY_LOGS.resolve(), "ray_logs")
    return failed


if __name__ == "__main__":
    sys.exit(main())
