"""The first call: the training half of a step alone, without vLLM and Ray: OpenRLHF's own strategy, actor and trainer.

    python3 tests/gpu/training.py --out FOLDER [--device cpu]

A random model of Qwen2.5-1.5B's shape with ZeRO-3 and checkpoints of activations, 128 responses of 1,000 tokens on
average, and a process for each part, which adds a line to FOLDER/training.jsonl as soon as it is known:

* save, load: an update, sleep and waking, a checkpoint, another update; and a new process that loads it and makes the
  same update, in deterministic arithmetic
* handles: every parameter, gathered, read by another process over a CUDA IPC handle
* speeds: seconds, share of the GPU's peak and memory for micro-batches of 2 to 8 responses and of 4,096 to 32,768
  tokens, and for torch's attention, which does not pack
"""

import argparse
import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

PEAK = 989e12
"""Dense bfloat16 operations a second of an H100."""
SHAPES = {
    "gpu": {
        "hidden_size": 1536,
        "intermediate_size": 8960,
        "num_hidden_layers": 28,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
        "vocab_size": 151_936,
    },
    "cpu": {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "vocab_size": 512,
    },
}
LENGTHS = {"gpu": (128, 150, 830, 4096), "cpu": (8, 10, 40, 120)}
"""Responses, tokens of a prompt, the median of a response's and the most."""
PACKED, TOKENS = ["--ds.packing_samples"], "--train.max_tokens_per_gpu"
DYNAMIC = [*PACKED, "--train.dynamic_batch_enable", TOKENS]
PARTS: dict[str, list[str]] = {
    "save": [*DYNAMIC, "16384", "--train.full_determinism_enable"],
    "load": [*DYNAMIC, "16384", "--train.full_determinism_enable"],
    "handles": [*DYNAMIC, "16384"],
    "16384 tokens": [*DYNAMIC, "16384"],
    "2 responses": [*PACKED, "--train.micro_batch_size", "2"],
    "8192 tokens": [*DYNAMIC, "8192"],
    "32768 tokens": [*DYNAMIC, "32768"],
    "4096 tokens": [*DYNAMIC, "4096"],
    "8 responses": [*PACKED, "--train.micro_batch_size", "8"],
    "16384 tokens, ZeRO-2": [*DYNAMIC, "16384", "--ds.zero_stage=2"],
    "2 responses, torch's attention": ["--ds.attn_implementation", "sdpa", "--train.micro_batch_size", "2"],
    "4 responses, torch's attention": ["--ds.attn_implementation", "sdpa", "--train.micro_batch_size", "4"],
}
"""Name -> flags of its own; in order of worth, since the call may end before the last."""


def flags_of(part: str, folder: Path, device: str) -> Any:
    """OpenRLHF's own ``args`` for a part."""
    from openrlhf_gtpo import flags

    responses = LENGTHS[device][0]
    words = [
        *[f"--device={device}", f"--actor.model_name_or_path={folder / 'model'}", "--data.prompt_dataset=none"],
        *["--algo.advantage.estimator=gtpo", "--algo.kl.init_coef=0", "--ds.zero_stage=3"],
        *["--actor.gradient_checkpointing_enable", "--actor.num_gpus_per_node=1", "--vllm.num_engines=1"],
        *[f"--train.batch_size={responses}", "--rollout.n_samples_per_prompt=8"],
        *[f"--rollout.batch_size={responses // 8}", "--reward.remote_url=none", "--actor.adam.lr=1e-6", *PARTS[part]],
    ]
    args = flags.parse([word for word in words if device == "gpu" or "determinism" not in word])
    given = vars(args)
    given["ds.param_dtype"] = "bf16"
    if device == "cpu":
        given["vllm.sync_backend"] = "gloo"
    args = flags.completed(args)
    args.local_rank = 0
    if device == "cpu":
        args.ds.attn_implementation = "eager"
    return args


def make_model(folder: Path, device: str) -> None:
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(**SHAPES[device], tie_word_embeddings=True, max_position_embeddings=8192)
    torch.manual_seed(0)
    with torch.device("cuda" if device == "gpu" else "cpu"):
        Qwen2ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder / "model")


class Trainer:
    """OpenRLHF's strategy, actor and trainer as its Ray actor makes them, in this process."""

    def __init__(self, part: str, folder: Path, device: str) -> None:
        import openrlhf.trainer.ray.ppo_actor as ppo_actor
        import torch
        from openrlhf.utils import get_strategy

        from openrlhf_gtpo.policy.rotary import PreciseActor

        self.args = args = flags_of(part, folder, device)
        self.device = device
        os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
        os.environ["MASTER_PORT"] = str(random.randint(20_000, 30_000))
        if device == "cpu":
            from openrlhf_gtpo.cpu import torch_cuda

            torch_cuda.install()
        self.strategy = strategy = get_strategy(args)
        strategy.setup_distributed()
        if args.train.full_determinism_enable:
            torch.use_deterministic_algorithms(True, warn_only=True)  # OpenRLHF's would end at the first that is not
        actor = PreciseActor(
            str(folder / "model"),
            attn_implementation=args.ds.attn_implementation,
            ds_config=strategy.get_ds_train_config(),
            packing_samples=args.ds.packing_samples,
        )
        actor.gradient_checkpointing_enable({"use_reentrant": False})
        self.parameters = sum(getattr(p, "ds_numel", p.numel()) for p in actor.parameters())
        adam = {"optim": "adam", "muon": vars(args.actor.muon), "adam": vars(args.actor.adam)}
        schedule = {"lr_scheduler": "constant", "lr_warmup_ratio": 0, "min_lr_ratio": 0.1, "scheduler_steps": 100}
        self.actor, optimizer, scheduler = strategy.prepare((actor, adam | schedule | {"max_norm": 1.0}))
        self.trainer = ppo_actor.ActorPPOTrainer(
            strategy,
            self.actor,
            ema_model=None,
            actor_optim=optimizer,
            actor_scheduler=scheduler,
            micro_train_batch_size=args.train.micro_batch_size,
            dataloader_pin_memory=device == "gpu",
        )
        self.fill()

    def fill(self) -> None:
        """The buffer: responses of lengths that are spread as those of a language model, with one seed."""
        import torch
        from openrlhf.trainer.ppo_utils.experience import Experience

        responses, prompt, median, most = LENGTHS[self.device]
        chance = random.Random(0)
        generator = torch.Generator().manual_seed(0)
        self.tokens = 0
        for number in range(responses):
            length = prompt + min(most, max(1, round(median * chance.lognormvariate(0, 0.6))))
            self.tokens += length
            of_response = torch.arange(1, length) >= prompt
            old = -torch.rand(1, length - 1, generator=generator)
            self.trainer.replay_buffer.append(
                Experience(
                    sequences=torch.randint(0, SHAPES[self.device]["vocab_size"], (1, length), generator=generator),
                    attention_mask=torch.ones(1, length, dtype=torch.long),
                    action_mask=of_response[None],
                    action_log_probs=old,
                    rollout_log_probs=old,
                    advantages=torch.full((1, length - 1), 1.0 if number % 2 else -1.0) * of_response,
                    rewards=torch.ones(1),
                    scores=torch.ones(1),
                    response_length=torch.tensor([length - prompt]),
                    total_length=torch.tensor([length]),
                    info={},
                )
            )

    def update(self) -> dict[str, float]:
        """Train on the buffer once: an update of all responses."""
        begin = time.perf_counter()
        status = self.trainer.ppo_train(0.0)
        self.wait()
        return {"seconds": time.perf_counter() - begin, "grad_norm": status["actor_grad_norm"]}

    def logprobs(self) -> float:
        """Seconds of log-probabilities before the update, with twice the micro-batch, as the scripts have it."""
        import torch

        items = self.trainer.replay_buffer.items
        if self.args.train.dynamic_batch_enable:
            from openrlhf.utils.seqlen_balancing import get_seqlen_balanced_partitions

            parts = max(1, -(-self.tokens // (2 * self.args.train.max_tokens_per_gpu)))
            batches = get_seqlen_balanced_partitions([int(item.total_length) for item in items], parts, False)
        else:
            size = 2 * self.args.train.micro_batch_size
            batches = [[*range(at, min(at + size, len(items)))] for at in range(0, len(items), size)]
        begin = time.perf_counter()
        self.actor.eval()
        from openrlhf.trainer.ppo_utils.experience import make_experience_batch

        with torch.no_grad():
            for batch in batches:
                experience = make_experience_batch([items[at] for at in batch], self.args.ds.packing_samples)
                experience.to_device(torch.cuda.current_device())
                self.actor(experience.sequences, experience.action_mask, experience.attention_mask)
        self.wait()
        self.actor.train()
        return time.perf_counter() - begin

    def sleep_and_wake(self) -> dict[str, Any]:
        import openrlhf.trainer.ray.ppo_actor as ppo_actor

        found: dict[str, Any] = {}
        for time_of in ("first", "second"):
            for name, do in (
                ("sleep", ppo_actor.offload_deepspeed_states),
                ("wake", ppo_actor.reload_deepspeed_states),
            ):
                before, begin = self.memory(), time.perf_counter()
                do(self.actor.model)
                self.wait()
                found[f"{time_of} {name}"] = [time.perf_counter() - begin, (self.memory() - before) / 2**30]
        return found

    def state(self) -> int:
        """The bits of all parameters, as one number."""
        import deepspeed
        import torch

        total = 0
        for parameter in self.actor.model.module.parameters():
            with deepspeed.zero.GatheredParameters([parameter]):
                total = (total * 31 + int(parameter.data.contiguous().view(torch.int16).long().sum())) % 2**61
        return total

    def wait(self) -> None:
        import torch

        torch.cuda.synchronize()

    def memory(self) -> int:
        import torch

        return int(torch.cuda.memory_allocated()) if self.device == "gpu" else 0

    def most_memory(self) -> float:
        import torch

        return torch.cuda.max_memory_allocated() / 2**30 if self.device == "gpu" else 0.0


def save(folder: Path, device: str) -> dict[str, Any]:
    trainer = Trainer("save", folder, device)
    found: dict[str, Any] = {"first": trainer.update(), "sleep": trainer.sleep_and_wake()}
    begin = time.perf_counter()
    trainer.strategy.save_ckpt(trainer.actor.model, str(folder / "state"), "step1", 1, 1000, {"step": 1})
    found["seconds"] = time.perf_counter() - begin
    found["gigabytes"] = sum(path.stat().st_size for path in (folder / "state").rglob("*") if path.is_file()) / 1e9
    found |= {"second": trainer.update(), "state": trainer.state()}
    (folder / "saved.json").write_text(json.dumps(found))
    return found


def load(folder: Path, device: str) -> dict[str, Any]:
    trainer = Trainer("load", folder, device)
    begin = time.perf_counter()
    trainer.strategy.load_ckpt(trainer.actor.model, str(folder / "state"))
    found: dict[str, Any] = {"seconds": time.perf_counter() - begin}
    found |= {"second": trainer.update(), "state": trainer.state()}
    saved = json.loads((folder / "saved.json").read_text())
    found["the same to the bit"] = found["state"] == saved["state"]
    found["grad_norm apart"] = abs(found["second"]["grad_norm"] - saved["second"]["grad_norm"])
    return found


def read_handles(pipe: Any) -> None:
    """The other process: opens each handle as vLLM's worker does, and sends the sum of its bits."""
    import torch

    while (handle := pipe.recv()) is not None:
        make, arguments = handle
        weight = make(*arguments[:6], 0, *arguments[7:])
        pipe.send(int(weight.view(torch.int16).long().sum()))
        del weight


def handles(folder: Path, device: str) -> dict[str, Any]:
    import deepspeed
    import torch
    from torch.multiprocessing.reductions import reduce_tensor

    if device == "cpu":
        return {"left out": "a CPU has no CUDA IPC"}
    trainer = Trainer("handles", folder, device)
    context = torch.multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    other = context.Process(target=read_handles, args=(theirs,))
    other.start()
    begin, count, wrong = time.perf_counter(), 0, 0
    for parameter in trainer.actor.model.module.parameters():
        with deepspeed.zero.GatheredParameters([parameter]):
            weight = parameter.data.clone()
        ours.send(reduce_tensor(weight))
        wrong += ours.recv() != int(weight.view(torch.int16).long().sum())
        count += 1
        if count == 1:
            begin = time.perf_counter()  # the other process has started CUDA
    ours.send(None)
    other.join(30)
    return {"parameters": count, "wrong": wrong, "seconds": time.perf_counter() - begin}


def speed(part: str, folder: Path, device: str) -> dict[str, Any]:
    trainer = Trainer(part, folder, device)
    warm = trainer.update()["seconds"]
    seconds = trainer.update()["seconds"]
    training = trainer.most_memory()
    before = trainer.logprobs()
    tokens, parameters = trainer.tokens, trainer.parameters
    return {
        "micro_batches": len(trainer.trainer.replay_buffer) if trainer.args.train.dynamic_batch_enable else None,
        "tokens": tokens,
        "parameters": parameters,
        "first_seconds": warm,
        "seconds": seconds,
        "share_of_peak": 6 * parameters * tokens / seconds / PEAK,
        "gib": training,
        "logprobs_seconds": before,
        "logprobs_share_of_peak": 2 * parameters * tokens / before / PEAK,
        "gib_of_both": trainer.most_memory(),
        "sleep": trainer.sleep_and_wake(),
    }


def of_a_part(part: str, folder: Path, device: str) -> dict[str, Any]:
    if device == "cpu":
        from openrlhf_gtpo.cpu.platform import prepare_process

        prepare_process()
    if importlib.util.find_spec("vllm") is None:
        # OpenRLHF's package of Ray actors imports vLLM, of which training needs nothing.
        for name in ("vllm", "vllm.inputs", "vllm.utils", "vllm.sampling_params"):
            sys.modules[name] = mock.MagicMock(__version__="0.29.0", __spec__=None)
    if part in ("save", "load", "handles"):
        return {"save": save, "load": load, "handles": handles}[part](folder, device)
    return speed(part, folder, device)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=["cpu", "gpu"], default="gpu")
    parser.add_argument("--seconds", type=float, default=450, help="after which no further part begins (450)")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--part", choices=list(PARTS), help="one, in this process")
    args = parser.parse_args()
    work = Path("/tmp/openrlhf-gtpo-training")
    if args.part:
        found = of_a_part(args.part, work, args.device)
        (work / "found.json").write_text(json.dumps(found))
        return 0
    began, failed = time.monotonic(), 0
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    args.out.mkdir(parents=True, exist_ok=True)
    make_model(work, args.device)
    for part in args.parts:
        if time.monotonic() - began > args.seconds:
            print(f"{part}: not begun after {args.seconds:.0f} s", flush=True)
            continue
        begin = time.monotonic()
        command = [sys.executable, __file__, "--out", str(args.out), "--device", args.device, "--part", part]
        with (args.out / "training.log").open("a") as log:
            print(f"==== {part}", file=log, flush=True)
            try:
                status = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, timeout=180).returncode
            except subprocess.TimeoutExpired:
                status = -1
        found: dict[str, Any] = {"status": status}
        if status == 0:
            found = json.loads((work / "found.json").read_text())
        failed |= status != 0
        line = {"part": part, "process_seconds": time.monotonic() - begin, **found}
        with (args.out / "training.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)
    shutil.rmtree(work, ignore_errors=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
