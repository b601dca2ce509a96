"""Programs with an engine of their own, and what transformers gives for the same tokens."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import torch

from ... import preloaded

RUNS = Path(__file__).with_name("engine_runs.py")


def run(*command: object, **environment: str) -> Any:
    """The result of a program with an engine, in a process of its own."""
    done = subprocess.run(
        [preloaded.python(), *map(str, command)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.rpartition("RESULT")[2].splitlines()[0])


def expected(
    model: Path,
    prompt: list[int],
    tokens: list[int],
    temperature: float = 1.0,
    top_k: int = 512,
    end_is_masked: bool = True,
) -> dict[str, Any]:
    """What transformers' forward pass and float64 give for the tokens behind a prompt: the distributions, (T, V), and
    log-probabilities and entropies, (T,)."""
    from transformers import AutoModelForCausalLM

    policy = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, attn_implementation="eager")
    with torch.no_grad():
        logits = policy(torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1 : -1].double() / temperature
    if end_is_masked:  # min_tokens forbids the end of the sequence
        logits[:, 1] = float("-inf")
    logits[logits < logits.topk(top_k, dim=-1).values[:, -1:]] = float("-inf")
    logp = logits.log_softmax(dim=-1)
    entropy = -(logp.exp() * logp).nan_to_num(0.0).sum(dim=-1)
    assert len(tokens) == 1 or entropy.std() > 0.01, "the test's model must have entropies worth telling apart"
    return {"logp": logp, "logprob": logp[range(len(tokens)), tokens].tolist(), "entropy": entropy.tolist()}
