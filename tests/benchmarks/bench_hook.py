"""What the entropy hook costs of vLLM's generation throughput, in pairs of runs beside each other.

    python tests/benchmarks/bench_hook.py --model runs/quickstart/warm_start/model [--without nothing logprobs]

Two engines of the same model, each in its own process, take turns. One has the hook and sends one message a request,
gets requests as our rollout actor sends them, each with its seed, and reads the entropies of every response; the other
has none of this. The median over pairs of throughput with : without is printed.
"""

import argparse
import asyncio
import multiprocessing
import statistics
import time
import uuid
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

WITHOUT = {
    "same": "the same requests: the cost of the hook itself",
    "logprobs": "as OpenRLHF with importance correction, which needs log-probabilities",
    "nothing": "as OpenRLHF otherwise: tokens alone",
}
"""Requests to the engine without the hook."""

HOOK = "hook"
"""The engine with the hook, and its requests."""

GPU_SHARE = 0.4
"""Of the GPU's memory for each engine. vLLM's default, 0.92, leaves no room for the other."""


def rounds(args: argparse.Namespace) -> Iterator[dict[str, float]]:
    """Seconds with the hook (`HOOK`) and with each kind of request without, round by round, after one of warm-up.

    Raises:
        EOFError: an engine ended by itself.
    """
    context = multiprocessing.get_context("spawn")
    pipes, engines = {}, []
    try:
        for hook in (True, False):
            pipes[hook], theirs = context.Pipe()
            engines.append(context.Process(target=run_engine, args=(hook, args, theirs)))
            engines[-1].start()
            theirs.close()  # so that recv() fails when an engine ends
            pipes[hook].recv()  # it is up: while an engine starts it measures what is free on the GPU
        kinds = [HOOK, *args.without]
        for number in range(args.pairs + 1):
            seconds = {}
            for kind in kinds if number % 2 else reversed(kinds):
                pipe = pipes[kind == HOOK]
                pipe.send(kind)
                seconds[kind] = pipe.recv()
            if number:
                yield seconds
        for pipe in pipes.values():
            pipe.send("")
    finally:
        for pipe in pipes.values():
            pipe.close()
        for engine in engines:
            engine.join(60)
            engine.kill()


def run_engine(hook: bool, args: argparse.Namespace, pipe: Connection) -> None:
    """Generate on each request, the name of a kind, and answer with the seconds it took."""
    extra: dict[str, Any] = {"gpu_memory_utilization": GPU_SHARE}
    if args.device == "cpu":
        from openrlhf_gtpo.cpu.platform import engine_on_a_cpu

        extra = engine_on_a_cpu(args.model)  # before vLLM is imported, which reads the environment then
    import vllm
    from vllm.sampling_params import RequestOutputKind

    from openrlhf_gtpo.engine import one_message
    from openrlhf_gtpo.vllm_entropy import check_hook, engine_kwargs, entropies_and_logprobs, sampling_kwargs

    if args.vocabulary:
        extra |= {"load_format": "dummy", "hf_overrides": {"vocab_size": args.vocabulary}}
    # OpenRLHF too asks for log-probabilities of the distribution that was sampled from.
    extra |= engine_kwargs() | one_message.switch_on() if hook else {"logprobs_mode": "processed_logprobs"}
    # As our rollout actor requests: no text, and one output at the end of each response.
    ours = {**sampling_kwargs(), "detokenize": False, "output_kind": RequestOutputKind.FINAL_ONLY}
    asked: dict[str, dict[str, Any]] = {HOOK: ours, "same": ours, "logprobs": {"logprobs": 1}, "nothing": {}}
    # A response has at least one token, as OpenRLHF asks.
    shared = {"temperature": 1.0, "min_tokens": 1, "max_tokens": args.tokens, "ignore_eos": True}
    prompts = [{"prompt_token_ids": [1 + (i + j) % 50 for j in range(20)]} for i in range(args.prompts)]

    async def response(llm: Any, prompt: Any, parameters: Any, seed: int) -> None:
        parameters = parameters.clone()
        parameters.seed = seed if hook else None
        async for output in llm.generate(prompt, parameters, request_id=uuid.uuid4().hex):
            final = output
        if hook:
            entropies_and_logprobs(final.outputs[0])

    async def serve() -> None:
        llm = vllm.AsyncLLMEngine.from_engine_args(vllm.AsyncEngineArgs(model=args.model, seed=0, **extra))
        if hook:
            check_hook(await llm.collective_rpc("entropy_hook_report"))
        pipe.send(0.0)
        while kind := await asyncio.to_thread(pipe.recv):
            parameters = vllm.SamplingParams(**shared, **asked[kind])
            begin = time.perf_counter()
            requests = enumerate(prompt for prompt in prompts for _ in range(args.n))
            await asyncio.gather(*(response(llm, prompt, parameters, i) for i, prompt in requests))
            pipe.send(time.perf_counter() - begin)
        llm.shutdown()

    asyncio.run(serve())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder or hub id")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--n", type=int, default=8, help="responses to each prompt")
    parser.add_argument("--tokens", type=int, default=40, help="of each response; the end of the sequence is ignored")
    ways = "; ".join(f"{name}: {what}" for name, what in WITHOUT.items())
    parser.add_argument("--without", choices=list(WITHOUT), nargs="+", default=["same"], help=f"requests: {ways}")
    parser.add_argument(
        "--vocabulary",
        type=int,
        help="tokens of the vocabulary, such as 152064; weights are then random (the model's)",
    )
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    args = parser.parse_args()
    pairs = list(rounds(args))
    print("| without the hook | throughput with : without | least | most |\n|---|---|---|---|")
    for kind in args.without:
        ratios = [seconds[kind] / seconds[HOOK] for seconds in pairs]
        print(f"| {kind} | {statistics.median(ratios):.3f} | {min(ratios):.3f} | {max(ratios):.3f} |")


if __name__ == "__main__":
    main()
