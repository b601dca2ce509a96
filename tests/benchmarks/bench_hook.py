"""What the entropy hook costs of vLLM's generation throughput, in pairs of runs beside each other.

    python tests/benchmarks/bench_hook.py --model runs/quickstart/warm_start/model [--pairs 9 --without nothing]

Two engines of the same model in processes of their own, which take turns: one with the hook and the entropies read
from every response, asked as a rollout actor of ours asks; one without the hook. `--without same` asks that one for
the same: what the hook itself costs. `--without every_token` takes an output for every token, as OpenRLHF does, where
ours takes one at the end. `--without correction` asks as OpenRLHF does where it corrects for importance, which takes
log-probabilities; `--without nothing` as OpenRLHF does elsewhere: tokens alone. Both generate as many tokens
for every prompt (`ignore_eos`). The median over pairs of throughput with : without is printed.
"""

import argparse
import asyncio
import multiprocessing
import os
import statistics
import time
import uuid
from multiprocessing.connection import Connection
from typing import Any


def engine(model: str, hook: bool, work: dict[str, Any], pipe: Connection) -> None:
    """Generate whenever asked; answers with the seconds it took."""
    from openrlhf_gtpo.cpu.environment import cpu_environment

    if work["cpu"]:
        os.environ.update(cpu_environment())  # read by vLLM and torch when they are imported
    import vllm
    from vllm.sampling_params import RequestOutputKind

    from openrlhf_gtpo.cpu.precision import param_dtype, vllm_dtype
    from openrlhf_gtpo.vllm_entropy import check_hook, engine_kwargs, entropies, logprobs, sampling_kwargs

    extra = {"enforce_eager": True, "dtype": vllm_dtype(param_dtype("auto"))} if work["cpu"] else {}
    arguments = vllm.AsyncEngineArgs(model=model, seed=0, **extra, **(engine_kwargs() if hook else {}))
    # As a rollout actor asks: nobody reads the text, and only the end of each response is of interest.
    ours = {**sampling_kwargs(), "detokenize": False, "output_kind": RequestOutputKind.FINAL_ONLY}
    others = {
        "same": ours,
        "every_token": {**ours, "output_kind": RequestOutputKind.CUMULATIVE},
        "correction": {"logprobs": 1},
        "nothing": {},
    }
    asked = ours if hook else others[work["without"]]
    parameters = vllm.SamplingParams(temperature=1.0, max_tokens=work["tokens"], ignore_eos=True, **asked)
    prompts = [{"prompt_token_ids": [1 + (i + j) % 50 for j in range(20)]} for i in range(work["prompts"])]

    async def response(llm: Any, prompt: Any) -> None:
        async for output in llm.generate(prompt, parameters.clone(), request_id=uuid.uuid4().hex):
            final = output
        if hook:
            entropies(final.outputs[0])
            logprobs(final.outputs[0])

    async def run() -> None:
        llm = vllm.AsyncLLMEngine.from_engine_args(arguments)
        if hook:
            check_hook(await llm.collective_rpc("entropy_hook_report"))
        pipe.send(0.0)
        while await asyncio.to_thread(pipe.recv):
            begin = time.perf_counter()
            await asyncio.gather(*(response(llm, prompt) for prompt in prompts for _ in range(work["n"])))
            pipe.send(time.perf_counter() - begin)
        llm.shutdown()

    asyncio.run(run())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder or hub id")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--n", type=int, default=8, help="responses to each prompt")
    parser.add_argument("--tokens", type=int, default=40, help="of each response")
    parser.add_argument(
        "--without", choices=["same", "every_token", "correction", "nothing"], default="same", help="see above"
    )
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    args = parser.parse_args()
    work = {name: getattr(args, name) for name in ("prompts", "n", "tokens", "without")}
    work["cpu"] = args.device == "cpu"
    context = multiprocessing.get_context("spawn")
    pipes = {}
    for hook in (True, False):
        pipes[hook], theirs = context.Pipe()
        context.Process(target=engine, args=(args.model, hook, work, theirs)).start()
    for pipe in pipes.values():
        pipe.recv()  # the engine is up
    ratios = []
    for pair in range(args.pairs + 1):
        seconds = {}
        for hook in (True, False) if pair % 2 else (False, True):
            pipes[hook].send(True)
            seconds[hook] = pipes[hook].recv()
        if pair:  # the first warms up
            ratios.append(seconds[False] / seconds[True])
            print(f"pair {pair}: {seconds[True]:.3f} s with, {seconds[False]:.3f} s without, ratio {ratios[-1]:.3f}")
    for pipe in pipes.values():
        pipe.send(False)
    median, spread = statistics.median(ratios), (min(ratios), max(ratios))
    print(f"throughput with the hook: {median:.3f} of without (pairs from {spread[0]:.3f} to {spread[1]:.3f})")


if __name__ == "__main__":
    main()
