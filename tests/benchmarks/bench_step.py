"""What a step of training costs beside the model: the whole loop, in which generation, forward passes, the optimiser
and the weight sync take no time.

    python tests/benchmarks/bench_step.py [--arms gtpo openrlhf_sent_once] [--prompts 16 --n 8 --longest 512]

The command line, Ray, OpenRLHF's controller, our generator and experience maker, the rollout actor with its reward
client, the reward service, the replay buffer and the loss are real (`null_actors.py` has what is not). Each arm is a
run of its own:

    gtpo, grpo_s, group_norm  our module
    openrlhf                  OpenRLHF's own classes and group_norm, with its own way to send the tokenizer
    openrlhf_sent_once        the same, with the tokenizer sent once to each process

Printed are the means of the steps after the first: seconds; when requests reach the engine; of each process CPU
seconds and the most memory in MB; MB through Ray's object store. The default is the paper's size: 128 prompts with 16
responses of up to 4,096 tokens, in ten minutes on two cores and 10 GB.
"""

import argparse
import contextlib
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tables import markdown

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TOKENIZER = ROOT / "tests" / "plugin" / "rollout"
OURS = ("gtpo", "grpo_s", "group_norm")
ARMS = (*OURS, "openrlhf_sent_once", "openrlhf")
ROLES = ("controller", "rollout actor", "policy")
TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %}{% if add_generation_prompt %} Answer: {% endif %}"
FILLER = "Consider a large garden with several rows of trees planted by farmers. "


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=ARMS[:4])
    parser.add_argument("--prompts", type=int, default=128, help="of a step")
    parser.add_argument("--n", type=int, default=16, help="responses to each prompt")
    parser.add_argument("--shortest", type=int, default=1000, help="tokens of a response")
    parser.add_argument("--longest", type=int, default=4096, help="tokens of a response")
    parser.add_argument("--steps", type=int, default=2, help="the first is not counted (2)")
    parser.add_argument("--vocabulary", type=int, default=151_646, help="tokens of the tokenizer")
    parser.add_argument("--limit", type=float, default=600, help="seconds for one arm")
    args = parser.parse_args(arguments)
    rows = []
    with tempfile.TemporaryDirectory(prefix="null_step.") as folder:
        model = Path(folder) / "model"
        make_model(model, args.vocabulary)
        for arm in args.arms:
            out = Path(folder) / arm
            out.mkdir()
            run(arm, args, model, out)
            rows.append([f"`{arm}`", *figures(out)])
    head = ["", "step, s", "requests at the engine, median and last, s"]
    print(markdown([*head, *(f"{role}: CPU s, MB" for role in ROLES), "through Ray, MB (spilled)"], rows))


def make_model(folder: Path, tokens: int) -> None:
    """Save a tokenizer of this many tokens, a Qwen2 of one small layer, and the tokens of responses."""
    sys.path.insert(0, str(TOKENIZER))
    from large_tokenizer import byte_level_bpe
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    ends = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=byte_level_bpe(tokens - 2), model_max_length=131072, **ends)
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    sizes = dict.fromkeys(["num_hidden_layers", "num_attention_heads", "num_key_value_heads"], 1)
    sizes |= {"vocab_size": len(tokenizer), "hidden_size": 16, "intermediate_size": 32}
    config = Qwen2Config(**sizes, max_position_embeddings=131072, eos_token_id=tokenizer.eos_token_id)
    Qwen2ForCausalLM(config).save_pretrained(folder)
    texts = {"text": FILLER * 600, "right": r"So it is \boxed{7}.", "wrong": r"So it is \boxed{8}."}
    ids = {name: tokenizer(text, add_special_tokens=False)["input_ids"] for name, text in texts.items()}
    (folder / "responses.json").write_text(json.dumps(ids))


def run(arm: str, args: argparse.Namespace, model: Path, folder: Path) -> None:
    """Run one arm in processes of its own, which write into the folder."""
    questions = [
        {"input": f"Problem {i}. {FILLER * 8}What is 3 + 4?", "label": "7"} for i in range(args.prompts * args.steps)
    ]
    (folder / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in questions))
    settings = {
        "folder": str(folder),
        "model": str(model),
        "arm": arm,
        "shortest": args.shortest,
        "longest": args.longest,
    }
    (folder / "settings.json").write_text(json.dumps(settings | {"ours": arm in OURS}))
    path = [ROOT / "plugin", ROOT / "reward_server", HERE]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MATH_REWARD_")}
    environment |= {"NULL_STEP": str(folder / "settings.json"), "PYTHONPATH": os.pathsep.join(map(str, path))}
    with reward_service(arm) as reward, (folder / "log").open("w") as log:
        command = [
            sys.executable,
            "-c",
            "import bench_step; bench_step.drive()",
            *training_flags(arm, args, model, folder),
        ]
        output: dict[str, Any] = {"stdout": log, "stderr": subprocess.STDOUT, "start_new_session": True}
        with subprocess.Popen([*command, *reward], env=environment, **output) as driver:
            try:
                status = driver.wait(args.limit)
            except BaseException:
                driver.terminate()  # it ends Ray and the reward service
                raise
    if status:
        raise SystemExit(f"The run of {arm} failed:\n{(folder / 'log').read_text()[-4000:]}")


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
        "--vllm.num_engines=1",
        f"--ckpt.output_dir={folder / 'model'}",
    ]


@contextlib.contextmanager
def reward_service(arm: str) -> Iterator[list[str]]:
    """The flag of a reward service for OpenRLHF's own client, which sends no token; our driver starts one itself."""
    if arm in OURS:
        yield []
        return
    command = [sys.executable, "-m", "math_reward", "serve", "--port=0", "--exit-on-stdin-close"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        assert service.stdin is not None
        url = next(found[1] for line in service.stdout if (found := re.search(r"listening on (http://\S+)", line)))
        try:
            yield [f"--reward.remote_url={url}/get_reward"]
        finally:
            service.stdin.close()


def figures(folder: Path) -> list[str]:
    """An arm's cells: of what `null_actors.write` left, the means over the steps after the first."""
    entries = [json.loads(line) for file in folder.glob("trace.*") for line in file.read_text().splitlines()]
    steps = sorted((entry for entry in entries if "processes" in entry), key=lambda entry: entry["ended"])
    pairs = list(itertools.pairwise(steps))
    begin, end = (one["ended"] for one in pairs[-1])
    arrivals = sorted(entry["arrived"] - begin for entry in entries if begin <= entry.get("arrived", 0) <= end)
    mean = statistics.mean
    cells = [f"{mean(after['ended'] - before['ended'] for before, after in pairs):.1f}"]
    cells.append(f"{statistics.median(arrivals):.1f}, {arrivals[-1]:.1f}")
    for role in ROLES:
        cpu = mean(after["processes"][role][0] - before["processes"][role][0] for before, after in pairs)
        cells.append(f"{cpu:.1f}, {max(after['processes'][role][1] for _, after in pairs):,.0f}")
    stored, spilled = (mean(after["store"][i] - before["store"][i] for before, after in pairs) for i in (0, 1))
    return [*cells, f"{stored:,.0f} ({spilled:,.0f})"]


def drive() -> None:
    """The product's driver with actors without a model."""
    from openrlhf_gtpo import bindings, train

    def bind(device: str, rollout: Any, guide: Any) -> None:
        import null_actors
        import openrlhf.trainer.ppo_trainer as ppo_trainer
        import openrlhf.trainer.ray.ppo_actor as ppo_actor
        import openrlhf.trainer.ray.vllm_engine as vllm_engine
        import ray

        ppo_actor.PolicyModelActor = ray.remote(num_gpus=1)(null_actors.PolicyActor)
        ppo_trainer.PPOTrainer = ray.remote(null_actors.Trainer)
        actor = ray.remote(null_actors.RolloutActor)
        if null_actors.SETTINGS["ours"]:
            from openrlhf_gtpo.rollout.actor import ConfiguredRolloutActor

            actor = ConfiguredRolloutActor(actor, rollout)
        vllm_engine.RolloutRayActor = actor

    bindings.bind = bind
    sys.exit(train.main())


if __name__ == "__main__":
    main()
