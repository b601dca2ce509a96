"""A real language model in the places where the small ones stand.

    bash launch/test.sh tests/end_to_end/test_real_model.py

It downloads 93 MB: nightly.
"""

import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

import start
from openrlhf_gtpo.cpu.platform import has_native_bf16

pytestmark = [pytest.mark.engine, pytest.mark.nightly]
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
