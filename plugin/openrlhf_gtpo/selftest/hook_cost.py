"""The cost of the entropy hook in vLLM's generation throughput, measured in pairs of runs.

Two engines of the same model, each in its own process, take turns. One has the hook and sends one message a request,
gets requests as our rollout actor sends them, each with its seed, and reads the entropies of every response; the other
has none of this and is asked in one or several ways.
``tests/benchmarks/bench_hook.py`` is the command.
"""

import asyncio
import multiprocessing
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

WITHOUT = {
    "same": "the same requests: the cost of the hook itself",
    "every_token": "one output per token, as OpenRLHF requests; ours requests one at the end",
    "logprobs": "as OpenRLHF with importance correction, which needs log-probabilities",
    "nothing": "as OpenRLHF otherwise: tokens alone",
    "unseeded": "the engine with the hook, and its requests without their seeds: the cost of seeds",
}
"""What is compared with the engine with the hook. All but the last are requests to the engine without it."""

HOOK = "hook"
"""The engine with the hook, and its requests."""

GPU_SHARE = 0.4
"""Of the GPU's memory for each engine. vLLM's default, 0.92, leaves no room for the other."""


def rounds(
    model: str,
    device: str,
    count: int,
    prompts: int,
    n: int,
    tokens: int,
    without: Sequence[str] = ("same",),
    vocabulary: int | None = None,
    log: Path | None = None,
) -> Iterator[dict[str, float]]:
    """Seconds with the hook (`HOOK`) and with each kind of request without, round by round, after one of warm-up.

    Args:
        model: folder or hub id.
        device: ``cpu`` or ``gpu``.
        count: of rounds.
        prompts: of each run.
        n: responses to each prompt.
        tokens: of each response; the end of the sequence is ignored.
        without: keys of ``WITHOUT``.
        vocabulary: tokens of the vocabulary in place of the model's own; the engines' weights are then random.
        log: file for what the engines print.

    Raises:
        EOFError: an engine ended by itself.
    """
    work = {"prompts": prompts, "n": n, "tokens": tokens, "vocabulary": vocabulary, "device": device, "log": log}
    context = multiprocessing.get_context("spawn")
    pipes, engines = {}, []
    try:
        for hook in (True, False):
            pipes[hook], theirs = context.Pipe()
            engines.append(context.Process(target=_engine, args=(model, hook, work, theirs)))
            engines[-1].start()
            theirs.close()  # so that recv() fails when an engine ends
            pipes[hook].recv()  # it is up: while an engine starts it measures what is free on the GPU
        kinds = [HOOK, *without]
        for number in range(count + 1):
            seconds = {}
            for kind in kinds if number % 2 else reversed(kinds):
                pipe = pipes[kind in (HOOK, "unseeded")]
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


def _engine(model: str, hook: bool, work: dict[str, Any], pipe: Connection) -> None:
    """Generate on each request, the name of a kind, and answer with the seconds it took."""
    if work["log"]:
        with Path(work["log"]).open("ab") as output:
            for stream in (1, 2):
                os.dup2(output.fileno(), stream)
    from openrlhf_gtpo.cpu.environment import cpu_environment

    on_cpu = work["device"] == "cpu"
    if on_cpu:
        os.environ.update(cpu_environment())  # read by vLLM and torch when they are imported
    import vllm
    from vllm.sampling_params import RequestOutputKind

    from openrlhf_gtpo.cpu.precision import param_dtype, vllm_dtype
    from openrlhf_gtpo.engine import one_message
    from openrlhf_gtpo.vllm_entropy import check_hook, engine_kwargs, entropies, logprobs, sampling_kwargs

    extra: dict[str, Any] = {"gpu_memory_utilization": GPU_SHARE}
    if on_cpu:
        extra = {"enforce_eager": True, "dtype": vllm_dtype(param_dtype("auto"))}
    if work["vocabulary"]:
        extra |= {"load_format": "dummy", "hf_overrides": {"vocab_size": work["vocabulary"]}}
    # OpenRLHF too asks for log-probabilities of the distribution that was sampled from.
    entropy = engine_kwargs() | one_message.switch_on() if hook else {"logprobs_mode": "processed_logprobs"}
    arguments = vllm.AsyncEngineArgs(model=model, seed=0, **extra, **entropy)
    # As our rollout actor requests: no text, and one output at the end of each response.
    ours = {**sampling_kwargs(), "detokenize": False, "output_kind": RequestOutputKind.FINAL_ONLY}
    asked: dict[str, dict[str, Any]] = {
        HOOK: ours,
        "unseeded": ours,
        "same": ours,
        "every_token": {**ours, "output_kind": RequestOutputKind.CUMULATIVE},
        "logprobs": {"logprobs": 1},
        "nothing": {},
    }
    # A response has at least one token, as OpenRLHF asks.
    shared = {"temperature": 1.0, "min_tokens": 1, "max_tokens": work["tokens"], "ignore_eos": True}
    prompts = [{"prompt_token_ids": [1 + (i + j) % 50 for j in range(20)]} for i in range(work["prompts"])]

    async def response(llm: Any, prompt: Any, parameters: Any, seed: int | None) -> None:
        parameters = parameters.clone()
        parameters.seed = seed
        async for output in llm.generate(prompt, parameters, request_id=uuid.uuid4().hex):
            final = output
        if hook:
            entropies(final.outputs[0])
            logprobs(final.outputs[0])

    async def run() -> None:
        llm = vllm.AsyncLLMEngine.from_engine_args(arguments)
        if hook:
            check_hook(await llm.collective_rpc("entropy_hook_report"))
        pipe.send(0.0)
        while kind := await asyncio.to_thread(pipe.recv):
            parameters = vllm.SamplingParams(**shared, **asked[kind])
            begin = time.perf_counter()
            requests = enumerate(prompt for prompt in prompts for _ in range(work["n"]))
            seeded = kind == HOOK
            await asyncio.gather(*(response(llm, one, parameters, i if seeded else None) for i, one in requests))
            pipe.send(time.perf_counter() - begin)
        llm.shutdown()

    asyncio.run(run())
