"""The fourth call: entropies of responses that vLLM interrupted and computed again, against a forward pass.

    TRITON_F32_DEFAULT=ieee python3 tests/gpu/preemption.py --out FOLDER [--device cpu]

An engine whose cache holds a few of the responses at once; a random model in float32. The reference is that of
`tests/versions/exactness.py`.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "versions"))

TOKENS, RESPONSES = 96, 48
BLOCKS = {"gpu": (40, 16), "cpu": (20, 32)}
"""The cache: blocks, and tokens of each, the fewest that an engine takes. It holds five or six whole responses."""
TOLERANCE = 1e-4


def sample(folder: str, device: str) -> tuple[list[Any], float]:
    """Completions of prompts of one token each, and how often a request was interrupted."""
    import vllm

    from openrlhf_gtpo.vllm_entropy import engine_kwargs, sampling_kwargs

    blocks, size = BLOCKS[device]
    engine = vllm.LLM(
        model=folder,
        skip_tokenizer_init=True,
        enforce_eager=device == "cpu",
        dtype="float32",
        max_model_len=128,
        gpu_memory_utilization=0.2,
        num_gpu_blocks_override=blocks,
        block_size=size,
        enable_prefix_caching=False,
        disable_log_stats=False,
        **engine_kwargs(),
    )
    asked = vllm.SamplingParams(max_tokens=TOKENS, ignore_eos=True, detokenize=False, **sampling_kwargs())
    prompts = [{"prompt_token_ids": [5 + number]} for number in range(RESPONSES)]
    outputs = engine.generate(prompts, asked, use_tqdm=False)
    counted = [one.value for one in engine.get_metrics() if one.name == "vllm:num_preemptions"]
    return [output.outputs[0] for output in outputs], sum(counted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=["cpu", "gpu"], default="gpu")
    args = parser.parse_args()
    if args.device == "cpu":
        from openrlhf_gtpo.cpu.platform import environment

        os.environ.update(environment())
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    import torch
    from exactness import forward, make_model
    from transformers import AutoModelForCausalLM

    from openrlhf_gtpo.vllm_entropy import entropies, logprobs

    with tempfile.TemporaryDirectory() as folder:
        make_model(folder)
        completions, preemptions = sample(folder, args.device)
        policy = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    apart = {"entropy": 0.0, "logprob": 0.0}
    for number, completion in enumerate(completions):
        tokens = list(completion.token_ids)
        logp = forward(policy, [5 + number], tokens).log_softmax(dim=-1)
        entropy = -(logp.exp() * logp).sum(dim=-1)
        of_tokens = logp.gather(1, torch.tensor(tokens)[:, None]).squeeze(1)
        for name, found, expected in (
            ("entropy", entropies(completion), entropy),
            ("logprob", logprobs(completion), of_tokens),
        ):
            apart[name] = max(apart[name], (torch.tensor(found).double() - expected).abs().max().item())
    passed = preemptions > 0 and max(apart.values()) <= TOLERANCE
    print(
        f"{RESPONSES} responses of {TOKENS} tokens with {preemptions:.0f} interruptions: entropies at most "
        f"{apart['entropy']:.1e} nats from float32's forward pass, log-probabilities {apart['logprob']:.1e}: "
        f"{'passed' if passed else 'FAILED'}"
    )
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "preemption.json").write_text(json.dumps({"preemptions": preemptions, **apart}))
    sys.exit(not passed)


if __name__ == "__main__":
    main()
