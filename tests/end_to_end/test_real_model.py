"""A real language model in the places where the small ones stand.

    bash launch/test.sh tests/end_to_end/test_real_model.py

It downloads 93 MB and takes seven minutes on two cores: nightly.
"""

import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

import start
from openrlhf_gtpo.cpu.platform import has_native_bf16

pytestmark = [pytest.mark.engine, pytest.mark.nightly]
ROOT = Path(__file__).resolve().parents[2]
TOKENS = 500

PROGRAM = """
import json, sys
from openrlhf_gtpo.cpu.platform import engine_on_a_cpu
arguments = {**engine_on_a_cpu(sys.argv[1]), "dtype": sys.argv[2]}
import vllm
from openrlhf_gtpo.engine.offline import offline_engine
from openrlhf_gtpo.vllm_entropy import entropies, sampling_kwargs
prompts = [json.loads(line)["input"] for line in open(sys.argv[3])][:24]
with offline_engine(model=sys.argv[1], max_model_len=512, **arguments) as llm:
    answers = [llm.chat(prompts, vllm.SamplingParams(max_tokens=48, seed=1, temperature=t, **sampling_kwargs()))
               for t in (1.0, 0.0)]
print("RESULT" + json.dumps([[[o.prompt_token_ids, list(o.outputs[0].token_ids), o.outputs[0].text,
                                entropies(o.outputs[0])] for o in of] for of in answers]))
"""


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with model/, train.jsonl and heldout.jsonl, as the quickstart makes them."""
    folder = tmp_path_factory.mktemp("real")
    subprocess.run([sys.executable, start.__file__, "--out", folder, "--prompts", "64"], check=True)
    return folder


@pytest.mark.parametrize(
    ("dtype", "mean", "most"), [("float32", 1e-5, 1e-3), ("bfloat16", 0.06, 0.6)], ids=["float32", "bfloat16"]
)
def test_entropies_are_those_of_a_forward_pass_in_float64_and_what_is_said_is_text(
    task: Path, dtype: str, mean: float, most: float
) -> None:
    if dtype == "bfloat16" and not has_native_bf16():
        pytest.skip("This CPU has no bfloat16 instructions.")
    command = [sys.executable, "-c", PROGRAM, task / "model", dtype, task / "heldout.jsonl"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    sampled, greedy = json.loads(done.stdout.rpartition("RESULT")[2])

    policy = AutoModelForCausalLM.from_pretrained(task / "model", dtype=torch.float64)
    gaps: list[float] = []
    for prompt, tokens, _, found in sampled:
        with torch.no_grad():
            logits = policy(torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1 : -1]
        expected = torch.distributions.Categorical(logits=logits).entropy()
        gaps += (torch.tensor(found, dtype=torch.float64) - expected).abs().tolist()
    print(f"{dtype}: {len(gaps)} tokens, {statistics.fmean(gaps):.2e} nats apart on average, {max(gaps):.2e} at most")
    assert len(gaps) > TOKENS
    assert statistics.fmean(gaps) < mean
    assert max(gaps) < most
    for _, _, text, _ in sampled + greedy:
        assert text.isprintable() or "\n" in text
    assert sum("\\boxed{" in text for _, _, text, _ in greedy) > len(greedy) / 2, "the prompt's examples are followed"


@pytest.fixture(scope="module")
def train(task: Path) -> Callable[..., list[dict[str, Any]]]:
    """Train in a folder with more flags, and give the metrics."""
    limit = json.loads((task / "task.json").read_text())["max_length"]

    def trained(folder: Path, steps: int, *more: str) -> list[dict[str, Any]]:
        command = [
            *[sys.executable, "-m", "openrlhf_gtpo.train", "--device=cpu", "--algo.advantage.estimator=gtpo"],
            *["--algo.kl.init_coef=0", f"--train.max_steps={steps}", f"--actor.model_name_or_path={task / 'model'}"],
            *[f"--data.prompt_dataset={task / 'train.jsonl'}", "--data.input_key=input", "--data.label_key=label"],
            *["--data.apply_chat_template", f"--data.max_len={limit}", "--rollout.max_new_tokens=48"],
            *["--rollout.batch_size=4", "--rollout.n_samples_per_prompt=8", "--rollout.micro_batch_size=16"],
            *["--train.batch_size=32", "--train.micro_batch_size=16", "--actor.adam.lr=2e-5"],
            *["--reward.mode=strict", f"--ckpt.output_dir={folder / 'model'}", f"--ckpt.path={folder / 'state'}"],
            *[f"--logger.metrics_path={folder / 'metrics.jsonl'}", "--shaping.save_rollouts=4", *more],
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
        assert "warning: mismatch" not in done.stdout + done.stderr
        return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]

    return trained


def same(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Names of the metrics that differ, but for those of time."""
    of_time = ("timing/", "seconds", "time", "wait", "reward/")
    return [name for name in one if not any(part in name for part in of_time) and one[name] != other[name]]


def test_a_resumed_run_is_the_run_that_was_not_interrupted_to_the_last_bit_and_can_be_evaluated(
    task: Path, train: Any, tmp_path: Path
) -> None:
    whole = train(tmp_path / "whole", 3, "--ckpt.save_steps=1")
    shutil.copytree(tmp_path / "whole", tmp_path / "parts")
    (tmp_path / "parts" / "state" / "_actor" / "latest").write_text("global_step2")  # as if it had ended there
    parts = train(tmp_path / "parts", 3, "--ckpt.save_steps=1", "--ckpt.load_enable")
    assert [line["step"] for line in parts] == [1, 2, 3]
    assert same(whole[2], parts[2]) == []
    rollouts, weights = (
        [(tmp_path / run / name).read_bytes() for run in ("whole", "parts")]
        for name in ("rollouts.jsonl", "model/model.safetensors")
    )
    assert rollouts[0] == rollouts[1]
    assert weights[0] == weights[1]

    command = [sys.executable, "-m", "openrlhf_gtpo", "eval", "--device=cpu", "--model", tmp_path / "whole" / "model"]
    command += [
        "--data",
        task / "heldout.jsonl",
        "--max_prompts",
        "4",
        "--n",
        "2",
        "--k",
        "1",
        "--max_new_tokens",
        "48",
    ]
    done = subprocess.run([*command, "--out", tmp_path / "eval"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "pass@1" in done.stdout


def test_lora_trains_it_and_the_engine_has_the_merged_weights(train: Any, tmp_path: Path) -> None:
    lines = train(tmp_path, 3, "--ds.lora.rank=8", "--ds.lora.alpha=16", "--actor.adam.lr=1e-3")
    assert all(line["actor_grad_norm"] > 0 for line in lines)
    assert max(line["mismatch/logprob_gap"] for line in lines) < 0.05
