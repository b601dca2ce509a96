"""The cost of the entropy hook in vLLM's generation throughput, measured in pairs of runs.

Two engines of the same model, each in its own process, take turns. One has the hook, gets requests as our rollout
actor sends them, and reads the entropies of every response; the other has no hook. ``tests/benchmarks/bench_hook.py``
is the command.
"""

import asyncio
import multiprocessing
import os
import time
import uuid
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

__all__ = ["WITHOUT", "pairs"]

WITHOUT = {
    "same": "the same requests: the cost of the hook itself",
    "every_token": "one output per token, as OpenRLHF requests; ours requests one at the end",
    "correction": "as OpenRLHF with importance correction, which needs log-probabilities",
    "nothing": "as OpenRLHF otherwise: tokens alone",
}
"""The requests to the engine without the hook."""


def pairs(
    model: str,
    device: str,
    count: int,
    prompts: int,
    n: int,
    tokens: int,
    without: str = "same",
    log: Path | None = None,
) -> Iterator[tuple[float, float]]:
    """Seconds with the hook and seconds without, pair by pair, after one pair of warm-up.

    Args:
        model: folder or hub id.
        device: ``cpu`` or ``gpu``.
        count: of pairs.
        prompts: of each run.
        n: responses to each prompt.
        tokens: of each response; the end of the sequence is ignored.
        without: a key of ``WITHOUT``.
        log: file for what the engines print.

    Raises:
        EOFError: an engine ended by itself.
    """
    work = {"prompts": prompts, "n": n, "tokens": tokens, "without": without, "cpu": device == "cpu", "log": log}
    context = multiprocessing.get_context("spawn")
    pipes, engines = {}, []
    for hook in (True, False):
        pipes[hook], theirs = context.Pipe()
        engines.append(context.Process(target=_engine, args=(model, hook, work, theirs)))
        engines[-1].start()
        theirs.close()  # so that recv() fails when an engine ends
    try:
        for pipe in pipes.values():
            pipe.recv()  # the engine is up
        for pair in range(count + 1):
            seconds = {}
            for hook in (True, False) if pair % 2 else (False, True):
                pipes[hook].send(True)
                seconds[hook] = pipes[hook].recv()
            if pair:
                yield seconds[True], seconds[False]
        for pipe in pipes.values():
            pipe.send(False)
    finally:
        for pipe in pipes.values():
            pipe.close()
        for engine in engines:
            engine.join(60)
            engine.kill()


def _engine(model: str, hook: bool, work: dict[str, Any], pipe: Connection) -> None:
    """Generate on each request and answer with the seconds it took."""
    if work["log"]:
        with Path(work["log"]).open("ab") as output:
            for stream in (1, 2):
                os.dup2(output.fileno(), stream)
    from openrlhf_gtpo.cpu.environment import cpu_environment

    if work["cpu"]:
        os.environ.update(cpu_environment())  # read by vLLM and torch when they are imported
    import vllm
    from vllm.sampling_params import RequestOutputKind

    from openrlhf_gtpo.cpu.precision import param_dtype, vllm_dtype
    from openrlhf_gtpo.vllm_entropy import check_hook, engine_kwargs, entropies, logprobs, sampling_kwargs

    extra = {"enforce_eager": True, "dtype": vllm_dtype(param_dtype("auto"))} if work["cpu"] else {}
    arguments = vllm.AsyncEngineArgs(model=model, seed=0, **extra, **(engine_kwargs() if hook else {}))
    # As our rollout actor requests: no text, and one output at the end of each response.
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
