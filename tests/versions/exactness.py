"""Entropies and log-probabilities out of a real vLLM engine against float64, in one environment with one vLLM.

`run.sh` starts it there: ``python exactness.py ANSWER``, with the plugin on PYTHONPATH. Nothing of OpenRLHF is needed.
A random Qwen2 is asked in every way that changes the distribution a token is sampled from. The reference is a forward
pass of transformers in float32; all that vLLM does to its logits is done again in float64, by its definition.
"""

import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from reference import answer, expected

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

VOCABULARY = 512
END = 1  # its token; forbidden throughout by min_tokens
TOKENS = 48

PROMPTS = [[5, 17, 300], [9], [100, 200, 300, 400, 11, 12, 13], [42, 42], [7, 8, 9, 10], [77] * 5, [6], [250, 3]]
ASKED: list[dict[str, Any]] = [
    {"temperature": 1.0},
    {"temperature": 0.7},
    {"temperature": 1.3},
    {"temperature": 0.4},
    {"temperature": 1.0, "top_k": 5},
    {"temperature": 0.9, "top_p": 0.8},
    {"temperature": 1.1, "min_p": 0.02},
    {"temperature": 1.2, "presence_penalty": 0.5, "frequency_penalty": 0.25},
]


def make_model(folder: str) -> None:
    """A random Qwen2 in float32 whose entropies differ from one position to the next."""
    from small_models import small_qwen2

    small_qwen2(vocab_size=VOCABULARY, eos_token_id=END, bos_token_id=None).save_pretrained(folder)


def sample(folder: str) -> tuple[list[Any], str]:
    """What an engine with the hook returns for all requests at once, and the name of its worker's sampler."""
    import vllm

    from openrlhf_gtpo.vllm_entropy import check_hook, engine_kwargs, sampling_kwargs

    engine = vllm.LLM(
        model=folder,
        skip_tokenizer_init=True,
        enforce_eager=True,
        dtype="float32",
        max_model_len=128,
        gpu_memory_utilization=0.1,
        **engine_kwargs(),
    )
    (report,) = engine.collective_rpc("entropy_hook_report")
    check_hook([report])
    requests = [
        vllm.SamplingParams(
            max_tokens=TOKENS,
            min_tokens=TOKENS,
            stop_token_ids=[END],
            seed=number,
            detokenize=False,
            **asked,
            **sampling_kwargs(),
        )
        for number, asked in enumerate(ASKED)
    ]
    outputs = engine.generate([{"prompt_token_ids": prompt} for prompt in PROMPTS], requests)
    return [output.outputs[0] for output in outputs], report["sampler"]


def forward(policy: Any, prompt: list[int], tokens: list[int]) -> torch.Tensor:
    """(len(tokens), V): the logits at each token's position, computed in float32, as float64."""
    with torch.no_grad():
        return policy(torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1 : -1].double()


def distribution(logits: torch.Tensor, tokens: list[int], asked: dict[str, Any]) -> torch.Tensor:
    """(len(tokens), V) float64 logits of what each token was sampled from.

    Args:
        logits: (len(tokens), V), the model's own.
        tokens: what was sampled, since penalties count what came before.
        asked: of `ASKED`.
    """
    logits = logits.clone()
    logits[:, END] = float("-inf")
    for position in range(1, len(tokens)):
        counts = torch.bincount(torch.tensor(tokens[:position]), minlength=VOCABULARY)
        logits[position] -= asked.get("frequency_penalty", 0.0) * counts
        logits[position] -= asked.get("presence_penalty", 0.0) * (counts > 0)
    logits /= asked["temperature"]
    if "min_p" in asked:
        p = logits.softmax(dim=-1)
        logits[p < asked["min_p"] * p.amax(dim=-1, keepdim=True)] = float("-inf")
    if "top_k" in asked:
        logits[logits < logits.topk(asked["top_k"], dim=-1).values[:, -1:]] = float("-inf")
    if "top_p" in asked:
        # A token stays where what is likelier than it does not reach top_p by itself.
        p, order = logits.softmax(dim=-1).sort(dim=-1, descending=True)
        kept = (p.cumsum(dim=-1) - p < asked["top_p"]).gather(1, order.argsort(dim=-1))
        logits[~kept] = float("-inf")
    return logits


def compare(folder: str) -> dict[str, Any]:
    """The row of the installed vLLM, without its date."""
    from transformers import AutoModelForCausalLM

    from openrlhf_gtpo.engine.one_message import vllm_internals
    from openrlhf_gtpo.vllm_entropy import entropies, logprobs

    completions, sampler = sample(folder)
    policy = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    entropy_apart, logprob_apart, seen = [], [], []
    for prompt, asked, completion in zip(PROMPTS, ASKED, completions, strict=True):
        tokens = list(completion.token_ids)
        assert len(tokens) == TOKENS, f"{len(tokens)} tokens came back for {asked}, not {TOKENS}"
        logits = distribution(forward(policy, prompt, tokens), tokens, asked)
        of_tokens, entropy = expected(logits, torch.tensor(tokens)).T
        entropy_apart.append((torch.tensor(entropies(completion)).double() - entropy).abs().max().item())
        logprob_apart.append((torch.tensor(logprobs(completion)).double() - of_tokens).abs().max().item())
        seen.append(entropy)
    spread = torch.cat(seen).std().item()
    assert spread > 0.1, f"the model's entropies do not differ enough to be told apart: {spread:.2g}"
    return {
        "packages": f"torch {torch.__version__}, transformers {version('transformers')}",
        "sampler": sampler,
        "tokens": sum(map(len, seen)),
        "entropy_apart": max(entropy_apart),
        "logprob_apart": max(logprob_apart),
        "one_message": vllm_internals.misfit() or "fits",
    }


if __name__ == "__main__":  # vLLM's own processes import this file
    with tempfile.TemporaryDirectory() as model:
        make_model(model)
        answer(**compare(model))
