"""openrlhf-gtpo doctor [FLAGS]: what to fix before training, one sentence each. FLAGS are those of the training
command, as it is; without any the machine alone is checked. The checks are those that training itself begins with.

--run also trains here, in some minutes: entropies of a real engine against a forward pass in float32, three steps
of a small policy with random weights, and two more, resumed from its checkpoint. Nothing is downloaded. --gpus N
trains with ZeRO-3 on N GPUs, on a CPU in N processes, and looks whether the checkpoint is refused on another number.

Exit status: 0 if nothing has to be fixed, 1 if something has to, 2 for a command line that is refused."""

import argparse
import importlib
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from openrlhf_gtpo import checks, flags
from openrlhf_gtpo.checks import Finding
from openrlhf_gtpo.errors import SettingsError, reason

TEMPERATURE, NEW_TOKENS = 0.7, 16
"""Not 1, so that entropies of the raw logits differ from those of the distribution that is sampled from."""
TOLERANCE = {"cpu": 1e-3, "gpu": 5e-2}
"""Nats, mean over the tokens: for float32 against float32 on a CPU, and bfloat16 against float32 on a GPU."""
SIZES = {
    "cpu": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2},
    "gpu": {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12},
}
"""On a GPU 0.1 billion parameters; on a CPU the smallest model that vLLM accepts."""
FLAGS = {
    "cpu": "--algo.advantage.estimator=gtpo --algo.kl.init_coef=0 --data.input_key=input --data.label_key=label "
    "--data.apply_chat_template --data.max_len=128 --rollout.n_samples_per_prompt=8 "
    "--rollout.micro_batch_size=8 --rollout.max_new_tokens=32 --train.micro_batch_size=8 --ckpt.save_steps=1 "
    "--ds.packing_samples"
}
FLAGS["gpu"] = (
    f"{FLAGS['cpu']} --train.colocate_all --vllm.enable_sleep --ds.enable_sleep --vllm.sync_backend=nccl "
    "--vllm.gpu_memory_utilization=0.4"
)
"""The command line of the training: a GPU's, and as far as a CPU knows it."""
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
REWARD = '''"""Rewards whatever has an odd number of characters: about half of what random weights write."""


def reward_func(queries, prompts, labels):
    reward = float(len(queries[0]) % 2)
    return {"rewards": reward, "scores": reward, "extra_logs": {}}
'''
WIDTH = 100
"""Characters of a line of the table."""


def main(argv: Sequence[str]) -> int:
    """Print the findings, each at once.

    Raises:
        SettingsError: the command line is refused.
    """
    parser = argparse.ArgumentParser(
        prog="openrlhf-gtpo doctor",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,  # else a misspelt flag of training would be one of these
    )
    parser.add_argument("--run", action="store_true", help="also train here, for some minutes")
    parser.add_argument("--model", help="what --run tries, a folder or a hub id (a small one with random weights)")
    parser.add_argument("--gpus", type=int, help="on how many --run trains, each with an engine (1)")
    own, words = parser.parse_known_args([word for word in argv if word != "--"])
    for name in ("model", "gpus"):
        if getattr(own, name) is not None and not own.run:
            raise SettingsError(f"--{name} is for --run: add --run, or leave it out.")
    if own.gpus is not None and own.gpus < 1:
        raise SettingsError(f"--gpus is {own.gpus}, but needs to be at least 1.")
    given = vars(flags.parse(words, ["--run", "--model", "--gpus"]))
    if given["device"] == "cpu":
        importlib.import_module("openrlhf_gtpo.cpu.platform").prepare(given)
    count = {"ok": 0, "warning": 0, "fault": 0}
    for finding in _findings(given, own.run, own.model, own.gpus or 1):
        count[finding.state] += 1
        begin = f"{finding.state:<7}  {finding.check}: "
        print(textwrap.fill(f"{begin}{finding.sentence}", WIDTH, subsequent_indent=" " * 9), flush=True)
    print(f"\n{count['fault']} to fix, {count['warning']} to look at, {count['ok']} as they should be.")
    return int(count["fault"] > 0)


def _findings(given: Mapping[str, Any], run: bool, model: str | None, gpus: int) -> Iterator[Finding]:
    """What training would find with these flags, then what it does here."""
    yield from checks.of_the_machine(given)
    if given["actor.model_name_or_path"] or given["data.prompt_dataset"]:
        yield from checks.of_the_command(given)
    if run:
        yield from _run(given["device"], model or given["actor.model_name_or_path"], gpus)


def _run(device: str, model: str | None, gpus: int) -> Iterator[Finding]:
    out = Path(tempfile.mkdtemp(prefix="openrlhf-gtpo-doctor-"))
    make_task(out, device, gpus)
    model = model or str(out / "model")
    parts: dict[str, Callable[[], str]] = {
        "reward service": lambda: reward_service(out),
        "entropies": lambda: _alone(out / "entropies.log", entropies, model, device),
        "training": lambda: train(out, model, device, gpus, 3),
        "resume": lambda: train(out, model, device, gpus, 5, "--ckpt.load_enable"),
    }
    if gpus > 1:
        parts["resume on fewer"] = lambda: refused(out, model, device, gpus - 1)
    for name, part in parts.items():
        begin = time.monotonic()
        try:
            sentence = part()
        except Exception as error:  # the other parts are still tried
            yield Finding(name, "fault", f"{reason(error)}: see the files in {out}.")
        else:
            yield Finding(name, "ok", f"{sentence} ({time.monotonic() - begin:.0f} s).")


def _alone(log: Path, function: Callable[..., str], *arguments: Any) -> str:
    """In a process of its own, which writes to a log, and whose memory on the GPU is free when it has ended."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=_write_to, initargs=(log,)) as process:
        return process.submit(function, *arguments).result()


def _write_to(log: Path) -> None:
    with log.open("w") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)


def reward_service(out: Path) -> str:
    """Start the built-in service, and have a right and a wrong answer graded."""
    from math_reward.client import Settings
    from openrlhf_gtpo.checks.services import ask
    from openrlhf_gtpo.rewards.embedded import start_embedded_service

    with start_embedded_service(out / "reward_service.log") as service:
        finding = ask(Settings((service.url,), token=service.token))
    if finding.state != "ok":
        raise RuntimeError(finding.sentence)
    return finding.sentence.rstrip(".")


def entropies(model: str, device: str) -> str:
    """Sample some tokens with vLLM and compute their entropies again, by transformers in float32."""
    import torch
    import vllm
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from openrlhf_gtpo import vllm_entropy
    from openrlhf_gtpo.engine.offline import offline_engine

    engine: dict[str, Any] = {"dtype": "bfloat16", "gpu_memory_utilization": 0.4}
    if device == "cpu":
        engine = importlib.import_module("openrlhf_gtpo.cpu.platform").engine_on_a_cpu(model) | {"dtype": "float32"}
    prompt = AutoTokenizer.from_pretrained(model)("What is 6 times 7?")["input_ids"]
    wanted = vllm.SamplingParams(
        temperature=TEMPERATURE, max_tokens=NEW_TOKENS, ignore_eos=True, **vllm_entropy.sampling_kwargs()
    )
    with offline_engine(model=model, max_model_len=len(prompt) + NEW_TOKENS, **engine) as llm:
        (output,) = llm.generate([{"prompt_token_ids": prompt}], wanted, use_tqdm=False)
    sampled = torch.tensor(vllm_entropy.entropies(output.outputs[0]))
    policy = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    with torch.no_grad():
        tokens = torch.tensor([[*prompt, *output.outputs[0].token_ids]])
        logits = policy(tokens).logits[0, len(prompt) - 1 : -1]
    apart = (torch.distributions.Categorical(logits=logits / TEMPERATURE).entropy() - sampled).abs().mean().item()
    if not apart <= TOLERANCE[device]:
        raise RuntimeError(f"entropies are {apart:.1e} nats from a float32 forward pass, above {TOLERANCE[device]}")
    return f"{apart:.1e} nats from a float32 forward pass on average"


def make_task(out: Path, device: str, gpus: int = 1) -> None:
    """A policy with random weights, prompts and a reward function."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    fast = Tokenizer(models.BPE(vocab={token: place for place, token in enumerate(alphabet)}, merges=[]))
    fast.pre_tokenizer, fast.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    fast.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=fast, pad_token="<|endoftext|>", eos_token="<|im_end|>", chat_template=TEMPLATE
    )
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        num_key_value_heads=SIZES[device]["num_attention_heads"],
        max_position_embeddings=512,
        tie_word_embeddings=False,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        **SIZES[device],
    )
    Qwen2ForCausalLM(config).to(torch.bfloat16).save_pretrained(out / "model")
    tokenizer.save_pretrained(out / "model")
    lines = [json.dumps({"input": f"What is {n} + {n}?", "label": str(2 * n)}) for n in range(64 * gpus)]
    (out / "prompts.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (out / "reward.py").write_text(REWARD, encoding="utf-8")


def _trained(
    out: Path, model: str, device: str, gpus: int, steps: int, *more: str
) -> subprocess.CompletedProcess[str]:
    """Training up to step ``steps`` with the flags of a GPU's command line, as many updates on any number of them."""
    named = {"device": device, "train.max_steps": steps, "actor.model_name_or_path": model}
    named |= {"data.prompt_dataset": out / "prompts.jsonl", "reward.remote_url": out / "reward.py"}
    named |= {"ckpt.output_dir": out / "trained", "ckpt.path": out / "state"}
    named |= {"actor.num_gpus_per_node": gpus, "vllm.num_engines": gpus, "ds.zero_stage": 2 if gpus == 1 else 3}
    named |= {"rollout.batch_size": 8 * gpus, "train.batch_size": 32 * gpus}
    words = [*FLAGS[device].split(), *(f"--{name}={value}" for name, value in named.items()), *more]
    command = [sys.executable, "-m", "openrlhf_gtpo.train", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=900)


def refused(out: Path, model: str, device: str, gpus: int) -> str:
    """Whether a resume on another number of GPUs than the checkpoint's is refused before anything starts."""
    done = _trained(out, model, device, gpus, 7, "--ckpt.load_enable")
    if done.returncode != 2 or "training process" not in done.stderr:
        raise RuntimeError(f"a resume on {gpus} was to be refused, and ended with exit status {done.returncode}")
    return f"refused on {gpus}"


def train(out: Path, model: str, device: str, gpus: int, steps: int, *more: str) -> str:
    """Train up to step ``steps``, and look at the metrics."""
    from openrlhf_gtpo.controller.metrics import weights_differ

    done = _trained(out, model, device, gpus, steps, *more)
    if done.returncode:
        raise RuntimeError(f"it ended with exit status {done.returncode}: {done.stderr.strip().splitlines()[-1]}")
    lines = [json.loads(line) for line in (out / "trained" / "metrics.jsonl").read_text().splitlines()]
    gaps = [line["mismatch/logprob_gap"] for line in lines]
    if warning := weights_differ(gaps.index(max(gaps)) + 1, max(gaps), gaps[0]):
        raise RuntimeError(warning.removeprefix("warning: "))
    good = [line["step"] for line in lines if line["entropy/token_mean"] > 0 and line["actor_grad_norm"] > 0]
    if good != [*range(1, steps + 1)]:
        raise RuntimeError(f"only steps {good} have entropies and gradients")
    seconds = lines[-1]["timing/step_total"]
    return f"{steps} steps of {seconds:.1f} s, rollout and policy at most {max(gaps):.1e} nats apart"
