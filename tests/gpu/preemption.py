"""The fourth call: entropies of responses that vLLM interrupted and computed again, against a forward pass; with
--drafts those of speculative decoding, whose drafts are n-grams that a response has had.

    TRITON_F32_DEFAULT=ieee python3 tests/gpu/preemption.py --out FOLDER [--device cpu] [--drafts]

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
DRAFTS = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
COUNTED = {False: "vllm:num_preemptions", True: "vllm:spec_decode_num_accepted_tokens"}
COLD = {"gpu": 0.1, "cpu": 0.0}
"""The temperature with which a random model repeats itself, so that drafts are accepted. On a CPU vLLM 0.29 verifies
drafts of greedy responses alone: above 0 its tokens are not from the model."""


def sample(folder: str, device: str, drafts: bool) -> tuple[list[Any], float]:
    """Completions of prompts of one token each, and how often a request was interrupted or a draft accepted."""
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
        block_size=size,
        **({"speculative_config": DRAFTS} if drafts else {"num_gpu_blocks_override": blocks}),
        enable_prefix_caching=False,
        disable_log_stats=False,
        **engine_kwargs(),
    )
    asked = vllm.SamplingParams(
        temperature=COLD[device] if drafts else 1.0,
        max_tokens=TOKENS,
        ignore_eos=True,
        detokenize=False,
        **sampling_kwargs(),
    )
    prompts = [{"prompt_token_ids": [5 + number]} for number in range(RESPONSES)]
    outputs = engine.generate(prompts, asked, use_tqdm=False)
    counted = [one.value for one in engine.get_metrics() if one.name == COUNTED[drafts]]
    return [output.outputs[0] for output in outputs], sum(counted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=["cpu", "gpu"], default="gpu")
    parser.add_argument("--drafts", action="store_true")
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
        completions, counted = sample(folder, args.device, args.drafts)
        policy = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    apart, temperature = {"entropy": 0.0, "logprob": 0.0}, (args.drafts and COLD[args.device]) or 1.0
    for number, completion in enumerate(completions):
        tokens = list(completion.token_ids)
        logp = (forward(policy, [5 + number], tokens) / temperature).log_softmax(dim=-1)
        entropy = -(logp.exp() * logp).sum(dim=-1)
        of_tokens = logp.gather(1, torch.tensor(tokens)[:, None]).squeeze(1)
        for name, found, expected in (
            ("entropy", entropies(completion), entropy),
            ("logprob", logprobs(completion), of_tokens),
        ):
            apart[name] = max(apart[name], (torch.tensor(found).double() - expected).abs().max().item())
    passed = counted > 0 and max(apart.values()) <= TOLERANCE / temperature
    what = "accepted drafts" if args.drafts else "interruptions"
    print(
        f"{RESPONSES} responses of {TOKENS} tokens with {counted:.0f} {what}: entropies at most "
        f"{apart['entropy']:.1e} nats from float32's forward pass, log-probabilities {apart['logprob']:.1e}: "
        f"{'passed' if passed else 'FAILED'}"
    )
    args.out.mkdir(parents=True, exist_ok=True)
    name = "drafts" if args.drafts else "preemption"
    (args.out / f"{name}.json").write_text(json.dumps({"counted": counted, **apart}))
    sys.exit(not passed)


if __name__ == "__main__":
    main()
