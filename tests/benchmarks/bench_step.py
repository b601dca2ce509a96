"""What a step of training costs beside the model: the whole loop, in which generation, forward passes, the optimiser
and the weight sync take no time, or a given one.

    python tests/benchmarks/bench_step.py [--arms gtpo openrlhf_sent_once] [--prompts 16 --n 8 --longest 512]

The command line, Ray, OpenRLHF's controller, our generator and experience maker, the rollout actor with its reward
client, the reward service, the replay buffer and the loss are real. Each arm is a run of its own:

    gtpo, grpo_s, group_norm  our module
    openrlhf                  OpenRLHF's own classes and group_norm, with its own way to send the tokenizer
    openrlhf_sent_once        the same, with the tokenizer sent once to each process

For every phase of a step it prints seconds and, of each process, CPU seconds and peak memory in MB (and that without
mapped files and shared memory), and what went through Ray's object store. The default is the paper's size: 128 prompts
with 16 responses of up to 4,096 tokens, in ten minutes on two cores and 10 GB. `--plugin` measures another checkout.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

from null_step import material  # noqa: E402
from null_step.figures import Watch, by_phase, figures, summary  # noqa: E402

PHASES = (
    "dispatch",
    "generate",
    "collect",
    "put together",
    "forward",
    "advantages",
    "metrics",
    "save rollouts",
    "balance",
    "to the policy",
    "train",
    "weights",
    "logs",
)
"""In the order of a step. `generate` is the wait for the rollout actors, `collect` what the controller does with their
responses."""
OURS = ("gtpo", "grpo_s", "group_norm")
ARMS = (*OURS, "openrlhf_sent_once", "openrlhf")
WORK = ("generate", "forward", "train", "weights")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=ARMS[:4])
    parser.add_argument("--prompts", type=int, default=128, help="of a step")
    parser.add_argument("--n", type=int, default=16, help="responses to each prompt")
    parser.add_argument("--shortest", type=int, default=1000, help="tokens of a response")
    parser.add_argument("--longest", type=int, default=4096, help="tokens of a response")
    parser.add_argument("--steps", type=int, default=2, help="the first is not counted if there are more")
    parser.add_argument("--engines", type=int, default=1)
    parser.add_argument("--vocabulary", type=int, default=151_646, help="tokens of the tokenizer")
    for work in WORK:
        parser.add_argument(f"--{work}", type=float, default=0.0, help="seconds that a step's would take")
    parser.add_argument("--plugin", type=Path, default=ROOT / "plugin", help="folder of the plugin that is measured")
    parser.add_argument("--limit", type=float, default=600, help="seconds for one arm")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "null_step", help="folder for logs and figures")
    parser.add_argument("flags", nargs="*", metavar="-- FLAG", help="further flags of the training command")
    args = parser.parse_args(arguments)
    model = ROOT / "runs" / "cache" / f"null_step_{args.vocabulary}"
    material.make_model(model, args.vocabulary)
    print(f"tokenizer of {args.vocabulary:,} tokens, {material.pickled_bytes(model) / 1e6:.1f} MB pickled", flush=True)
    results = {}
    for arm in args.arms:
        results[arm] = run(arm, args, model)
        print(f"\n### {arm}\n\n{by_phase(results[arm])}\n", flush=True)
    print(summary(results))
    (args.out / "figures.json").write_text(json.dumps(results, indent=1))
    return 0


def run(arm: str, args: argparse.Namespace, model: Path) -> dict[str, Any]:
    """Run one arm in processes of its own and measure it."""
    args.out.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{arm}.", dir=args.out))
    material.write_prompts(model, folder, args.prompts * args.steps)
    settings = {
        "folder": str(folder),
        "model": str(model),
        "ours": arm in OURS,
        "tokenizer": "once" if arm == "openrlhf_sent_once" else "as is",
        "shortest": args.shortest,
        "longest": args.longest,
        "responses": args.prompts * args.n,
        "seconds": {work: getattr(args, work) for work in WORK},
        "seed": 0,
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("MATH_REWARD_")},
        "NULL_STEP": str(folder / "settings.json"),
        "PYTHONPATH": os.pathsep.join(
            map(str, [args.plugin.resolve(), args.plugin.resolve().parent / "reward_server", HERE])
        ),
    }
    with reward_service(arm, folder) as (service, flags), (folder / "log").open("w") as log:
        command = [sys.executable, "-m", "null_step.train", *training_flags(arm, args, model, folder), *flags]
        driver = subprocess.Popen(
            [*command, *args.flags], env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            with Watch([driver.pid, *service]) as watch:
                status = driver.wait(args.limit)
        except BaseException:
            driver.terminate()  # it ends Ray and the reward service
            try:
                driver.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(driver.pid, signal.SIGKILL)
            raise
    if status:
        raise SystemExit(f"The run of {arm} failed:\n{(folder / 'log').read_text()[-4000:]}")
    found = figures(folder, watch, PHASES)
    path = folder / "metrics.jsonl"
    if path.exists():
        line = json.loads(path.read_text().splitlines()[-1])
        found["rewards"] = {name: value for name, value in line.items() if name.startswith("reward/")}
    return found


def training_flags(arm: str, args: argparse.Namespace, model: Path, folder: Path) -> list[str]:
    """Of the training command."""
    responses = args.prompts * args.n
    return [
        "--device=cpu",
        f"--algo.advantage.estimator={arm if arm in OURS else 'group_norm'}",
        "--algo.kl.init_coef=0",
        f"--actor.model_name_or_path={model}",
        "--actor.adam.lr=1e-6",
        f"--data.prompt_dataset={folder / 'prompts.jsonl'}",
        "--data.input_key=input",
        "--data.label_key=label",
        "--data.apply_chat_template",
        f"--data.max_len={args.longest + 1024}",
        f"--rollout.max_new_tokens={args.longest}",
        f"--rollout.batch_size={args.prompts}",
        f"--rollout.n_samples_per_prompt={args.n}",
        f"--rollout.micro_batch_size={min(8, responses)}",
        f"--train.batch_size={responses}",
        f"--train.micro_batch_size={min(8, responses)}",
        f"--vllm.num_engines={args.engines}",
        f"--ckpt.output_dir={folder / 'model'}",
        f"--logger.metrics_path={folder / 'metrics.jsonl'}",
    ]


@contextmanager
def reward_service(arm: str, folder: Path) -> Iterator[tuple[list[int], list[str]]]:
    """Process ids and flags of a reward service for OpenRLHF's own client, which sends no token; our driver starts one
    by itself."""
    if arm in OURS:
        yield [], []
        return
    with subprocess.Popen(
        [sys.executable, "-m", "math_reward", "serve", "--port=0", "--exit-on-stdin-close"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=(folder / "reward_service.log").open("w"),
        text=True,
    ) as service:
        assert service.stdout is not None
        assert service.stdin is not None
        url = next(found[1] for line in service.stdout if (found := re.search(r"listening on (http://\S+)", line)))
        try:
            yield [service.pid], [f"--reward.remote_url={url}/get_reward"]
        finally:
            service.stdin.close()


if __name__ == "__main__":
    sys.exit(main())
