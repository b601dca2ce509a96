"""What log-probabilities and entropies cost of vLLM's throughput on the host, and what one message a request saves.

    python tests/benchmarks/bench_messages.py [--step-ms 8 --sequences 256 --rounds 3]

vLLM's AsyncLLM and EngineCore run around an executor without a model (`engine_without_model.py`), whose steps take a
given time. Two engines, vLLM's own and one that sends one message a request, take turns with the same requests: twice
as many as run at once, of 64 to 448 tokens. What a request asks for is read as a rollout reads it. The median over
rounds is printed: tokens a second, and CPU time a token of both processes. The heap of this process, which is the
front-end, is frozen (`gc.freeze`) but where "as it is" is said.
"""

import argparse
import asyncio
import gc
import json
import os
import random
import statistics
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

os.environ |= {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
os.environ["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"  # as OpenRLHF's rollout actor sets it
os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])

WAYS = {
    "nothing": ("vllm", False, True),
    "logprobs, as it is": ("vllm", True, False),
    "logprobs": ("vllm", True, True),
    "one message, nothing": ("one message", False, True),
    "one message, entropies": ("one message", True, True),
}
"""Name -> engine, whether requests ask for log-probabilities, whether the heap is frozen."""

RATIOS = [
    ("logprobs, as it is", "nothing"),
    ("logprobs", "nothing"),
    ("one message, entropies", "nothing"),
    ("one message, entropies", "one message, nothing"),
]

CONFIG = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "vocab_size": 152_064,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "max_position_embeddings": 4096,
}


def engine(model: str, sequences: int, stats: bool, extra: dict[str, Any]) -> Any:
    """vLLM's engine for rollouts, without a model; asynchronous scheduling, as on a GPU."""
    import vllm

    arguments = vllm.AsyncEngineArgs(
        model=model,
        skip_tokenizer_init=True,
        distributed_executor_backend="engine_without_model.NullExecutor",
        max_num_seqs=sequences,
        max_num_batched_tokens=8192,
        enable_prefix_caching=False,
        max_logprobs=1,
        enforce_eager=True,
        **extra,
    )
    config = arguments.create_engine_config()
    config.scheduler_config.async_scheduling = True  # which vLLM's CPU platform switches off
    return vllm.AsyncLLMEngine.from_vllm_config(config, disable_log_stats=not stats)


async def run(llm: Any, logprobs: bool, lengths: list[int]) -> tuple[float, float, float]:
    """Tokens a second; microseconds of CPU time a token of the EngineCore and of this process."""
    import vllm
    from vllm.sampling_params import RequestOutputKind

    from openrlhf_gtpo import vllm_entropy
    from openrlhf_gtpo.rollout.actor import aligned

    prompt = list(range(2, 18))

    async def one(length: int) -> int:
        params = vllm.SamplingParams(
            max_tokens=length,
            min_tokens=1,
            ignore_eos=True,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
            **(vllm_entropy.sampling_kwargs() if logprobs else {}),
        )
        async for output in llm.generate({"prompt_token_ids": prompt}, params, request_id=uuid.uuid4().hex):
            completion = output.outputs[0]
        tokens = prompt + list(completion.token_ids)
        if logprobs:
            call = vllm_entropy.entropies(completion), vllm_entropy.logprobs(completion)
            aligned({"action_ranges": [(len(prompt), len(tokens))], "observation_tokens": tokens}, [call])
        return len(completion.token_ids)

    (core,), front, begin = await llm.collective_rpc("cpu_seconds"), time.process_time(), time.perf_counter()
    tokens = sum(await asyncio.gather(*map(one, lengths)))
    seconds, front = time.perf_counter() - begin, time.process_time() - front
    (core_now,) = await llm.collective_rpc("cpu_seconds")
    assert tokens == sum(lengths)
    return tokens / seconds, (core_now - core) / tokens * 1e6, front / tokens * 1e6


async def measure(args: argparse.Namespace, model: str) -> dict[str, list[tuple[float, float, float]]]:
    from openrlhf_gtpo.engine import one_message

    engines = {
        "vllm": engine(model, args.sequences, args.stats, {}),
        "one message": engine(model, args.sequences, args.stats, one_message.switch_on()),
    }
    drawn = random.Random(0)
    lengths = [drawn.randint(args.tokens // 4, args.tokens * 7 // 4) for _ in range(2 * args.sequences)]
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in WAYS}
    try:
        for number in range(args.rounds + 1):
            for name, (which, logprobs, frozen) in [*WAYS.items()][:: 1 if number % 2 else -1]:
                gc.unfreeze()
                gc.collect()
                if frozen:
                    gc.freeze()
                result = await run(engines[which], logprobs, lengths)
                if number:  # the first round warms up
                    found[name].append(result)
    finally:
        for llm in engines.values():
            llm.shutdown()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step-ms", type=float, default=8.0, help="time of a step on the simulated GPU (8)")
    parser.add_argument("--sequences", type=int, default=256, help="that run at once (256)")
    parser.add_argument("--tokens", type=int, default=256, help="of a response, on average (256)")
    parser.add_argument("--rounds", type=int, default=3, help="of all columns; one more warms up (3)")
    parser.add_argument("--stats", action="store_true", help="with vLLM's log statistics, which OpenRLHF leaves on")
    args = parser.parse_args()
    os.environ["NULL_STEP_MS"] = str(args.step_ms)

    from openrlhf_gtpo.cpu.platform import prepare_process

    prepare_process()
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "1"
    with tempfile.TemporaryDirectory() as model:
        Path(model, "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
        found = asyncio.run(measure(args, model))
    print(f"a step of {args.step_ms:g} ms, {args.sequences} sequences, {args.tokens} tokens on average")
    print(f"{'':<24}{'tokens/s':>10}{'EngineCore us/token':>21}{'front-end us/token':>20}")
    for name, rounds in found.items():
        speed, core, front = (statistics.median(values) for values in zip(*rounds, strict=True))
        print(f"{name:<24}{speed:>10,.0f}{core:>21.2f}{front:>20.2f}")
    for one, other in RATIOS:
        ratios = [a[0] / b[0] for a, b in zip(found[one], found[other], strict=True)]
        spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
        print(f"throughput of {one} : {other} = {statistics.median(ratios):.3f} ({spread})")


if __name__ == "__main__":  # vLLM's processes import this file
    sys.exit(main())
