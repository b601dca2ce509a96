"""Runs real engines that send one message a request, and vLLM's own beside them; test_one_message.py reads what they
gave.

    python one_message_runs.py PART MODEL ANSWER

An engine takes ten seconds to start, so each part asks one for everything that it can show.
"""

import asyncio
import itertools
import json
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from openrlhf_gtpo.cpu.platform import environment

os.environ |= environment() | {"VLLM_ALLOW_INSECURE_SERIALIZATION": "1"}

import vllm
from vllm.sampling_params import RequestOutputKind

from openrlhf_gtpo import vllm_entropy
from openrlhf_gtpo.engine import one_message

LISTS = ("start_indices", "end_indices", "token_ids", "logprobs", "ranks", "decoded_tokens")

ENGINE = {
    "enforce_eager": True,
    "dtype": "float32",
    "max_model_len": 128,
    "block_size": 32,
    "gpu_memory_utilization": 0.05,
    **vllm_entropy.engine_kwargs(),
    "max_logprobs": 3,
}


def told(completion: Any) -> dict[str, Any]:
    """All that a request's output says, in lists."""
    rows, told = completion.logprobs, {}
    if rows is not None:
        if len(rows.end_indices) and rows.end_indices[0] == 2:
            told["entropies"] = vllm_entropy.entropies(completion)
            told["own"] = vllm_entropy.logprobs(completion)
        told["rows"] = {name: list(getattr(rows, name)) for name in LISTS}
    return told | {
        "index": completion.index,
        "tokens": list(completion.token_ids),
        "text": completion.text,
        "finish": completion.finish_reason,
        "stop": completion.stop_reason,
        "sum": completion.cumulative_logprob,
    }


# ---- one process, vLLM's LLM


def mixed_requests() -> tuple[list[Any], list[Any]]:
    """48 prompts, most of which begin alike, and requests with seeds, each of which wants something else."""
    params = [
        vllm.SamplingParams(
            temperature=0.9,
            seed=number,
            max_tokens=20 + number % 40,
            min_tokens=1,
            ignore_eos=number % 3 != 0,
            detokenize=number % 4 == 0,
            stop=[*"abcdefgh"] if number % 8 == 0 else None,
            stop_token_ids=[*range(300, 330)] if number % 6 == 1 else None,
            n=2 if number % 5 == 0 else 1,
            logprobs=[1, None, 1, 0, 1, 3, 1, 1][number % 8],
            flat_logprobs=True,
        )
        for number in range(48)
    ]
    prompts = [[*range(5, 45), 50 + number, 60 + number * 3 % 100] for number in range(48)]
    return [{"prompt_token_ids": prompt if n % 4 else prompt[35:]} for n, prompt in enumerate(prompts)], params


def seeded(model: str, extra: dict[str, Any]) -> dict[str, Any]:
    """What an engine with few blocks for its keys and values gives: requests are preempted and begin again."""
    llm = vllm.LLM(model, max_num_seqs=24, num_gpu_blocks_override=36, disable_log_stats=False, **(ENGINE | extra))
    outputs = llm.generate(*mixed_requests(), use_tqdm=False)
    sums: Counter[str] = Counter()
    for metric in llm.get_metrics():
        sums[metric.name] += getattr(metric, "value", 0)
    clients = two_clients(llm.llm_engine.engine_core.engine_core) if extra else []
    core = llm.llm_engine.engine_core.engine_core
    found = {
        "scheduler": type(core.scheduler).__mro__[0].__name__,
        "outputs": [[told(completion) for completion in output.outputs] for output in outputs],
        "cached": [output.num_cached_tokens for output in outputs],
        "metrics": {name: sums[f"vllm:{name}"] for name in ("num_preemptions", "generation_tokens", "prompt_tokens")},
        "clients": clients,
    }
    llm.llm_engine.engine_core.shutdown()
    return found


def two_clients(core: Any) -> list[Any]:
    """Requests of two clients, each with one that wants its final output alone and one that wants each token."""
    from vllm.v1.engine import EngineCoreRequest

    for client, kind in itertools.product((0, 1), (RequestOutputKind.FINAL_ONLY, RequestOutputKind.DELTA)):
        params = vllm.SamplingParams(temperature=0, max_tokens=8, ignore_eos=True, output_kind=kind, logprobs=1)
        request = EngineCoreRequest(
            request_id=f"{kind.name} of {client}",
            prompt_token_ids=[7, 8, 9 + client],
            mm_features=None,
            sampling_params=params,
            pooling_params=None,
            arrival_time=0.0,
            lora_request=None,
            cache_salt=None,
            data_parallel_rank=None,
            client_index=client,
        )
        core.add_request(*core.preprocess_add_request(request))
    seen = []
    while core.scheduler.has_requests():
        for client, message in core.step_fn()[0].items():
            for output in message.outputs:
                rows = 0 if output.new_logprobs is None else len(output.new_logprobs.logprobs)
                seen.append([client, output.request_id, output.new_token_ids, rows])
    return seen


def speculative(model: str, extra: dict[str, Any]) -> dict[str, Any]:
    """Greedy requests whose drafts are n-grams of the prompt: several tokens a step."""
    drafts = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
    llm = vllm.LLM(model, speculative_config=drafts, disable_log_stats=False, **(ENGINE | extra))
    params = vllm.SamplingParams(
        temperature=0, max_tokens=60, ignore_eos=True, detokenize=False, **vllm_entropy.sampling_kwargs()
    )
    prompts = [{"prompt_token_ids": [5, 6, 7, 8 + number] * 6} for number in range(6)]
    outputs = llm.generate(prompts, params, use_tqdm=False)
    accepted = sum(m.value for m in llm.get_metrics() if m.name == "vllm:spec_decode_num_accepted_tokens")
    llm.llm_engine.engine_core.shutdown()
    return {"outputs": [told(output.outputs[0]) for output in outputs], "accepted": accepted}


def in_one_process(model: str) -> dict[str, Any]:
    return {"vllm": seeded(model, {}), "one message": seeded(model, one_message.switch_on())}


# ---- two processes, vLLM's AsyncLLM, as in a rollout


def flatten(worker: Any) -> None:
    """New weights: every token gets the same probability."""
    worker.model_runner.model.model.norm.weight.data.zero_()


def fail(worker: Any) -> None:
    """From now on every step fails."""

    def execute_model(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("the model has failed")

    worker.model_runner.execute_model = execute_model


class Asked:
    """Requests to one engine, and the messages that it sent."""

    def __init__(self, llm: Any) -> None:
        self.llm, self.messages, self.numbers = llm, Counter(), itertools.count()
        process = llm.output_processor.process_outputs

        def counted(outputs: list[Any], *args: Any, **kwargs: Any) -> Any:
            self.messages.update(output.request_id.rpartition("-")[0] for output in outputs)
            return process(outputs, *args, **kwargs)

        llm.output_processor.process_outputs = counted

    async def all_outputs(
        self,
        name: str,
        kind: Any = RequestOutputKind.FINAL_ONLY,
        seen: Callable[[int], Any] = lambda n: None,
        **asked: Any,
    ) -> list[Any]:
        """Every output of a greedy request; ``seen`` hears the number of tokens of each."""
        params = vllm.SamplingParams(
            **{"temperature": 0, "max_tokens": 100, "ignore_eos": True, "detokenize": False}
            | vllm_entropy.sampling_kwargs()
            | asked,
            output_kind=kind,
        )
        outputs, count = [], 0
        async for output in self.llm.generate({"prompt_token_ids": [5, 17, 300]}, params, request_id=name):
            outputs.append(output)
            count += len(output.outputs[0].token_ids)
            seen(count)
        return outputs

    async def last(self, name: str, **asked: Any) -> list[dict[str, Any]]:
        return [told(completion) for completion in (await self.all_outputs(name, **asked))[-1].outputs]

    async def beside(self, tokens: int, name: str) -> asyncio.Task[Any]:
        """A request that wants each token, as a clock: returns when it has so many."""
        there = asyncio.Event()
        task = asyncio.create_task(
            self.all_outputs(name, RequestOutputKind.DELTA, lambda n: n >= tokens and there.set())
        )
        await there.wait()
        return task


async def in_two_processes(model: str) -> dict[str, Any]:
    arguments = vllm.AsyncEngineArgs(model, disable_log_stats=False, **(ENGINE | one_message.switch_on()))
    llm = vllm.AsyncLLMEngine.from_engine_args(arguments)
    asked, found = Asked(llm), {}
    vocabulary = llm.model_config.get_vocab_size()
    try:
        # Every kind of output at once.
        kinds = [RequestOutputKind.FINAL_ONLY, RequestOutputKind.DELTA, RequestOutputKind.CUMULATIVE]
        several = await asyncio.gather(*(asked.all_outputs(kind.name, kind) for kind in kinds))
        # Only a delta's outputs add up.
        parts = [[one.outputs[0] for one in (seen if seen is several[1] else seen[-1:])] for seen in several]
        found["kinds"] = [
            {
                "tokens": [token for part in kind for token in part.token_ids],
                "entropies": [value for part in kind for value in vllm_entropy.entropies(part)],
            }
            for kind in parts
        ]
        found["messages"] = {kind.name: asked.messages[kind.name] for kind in kinds}
        whole = found["kinds"][0]

        # A caller aborts; another one goes away.
        tasks = [
            asyncio.create_task(asked.last("aborted")),
            asyncio.create_task(asked.last("three", n=3, temperature=1.0)),
            asyncio.create_task(asked.last("left")),
        ]
        clock = await asked.beside(20, "clock 1")
        found["unfinished"] = llm.output_processor.get_num_unfinished_requests()
        tasks[2].cancel()
        await llm.abort(["aborted", "three"])
        found["aborted"], found["three"] = (await tasks[0])[0], await tasks[1]
        await clock
        while llm.output_processor.get_num_unfinished_requests():
            await asyncio.sleep(0.01)

        # A pause that aborts.
        task = asyncio.create_task(asked.last("paused"))
        clock = await asked.beside(20, "clock 2")
        await llm.pause_generation(mode="abort")
        found["pause aborted"] = (await task)[0]
        found["clock of the pause"] = (await clock)[-1].outputs[0].finish_reason
        await llm.resume_generation()
        found["after the pause"] = (await asked.last("after"))[0]["tokens"] == whole["tokens"]

        # A pause that keeps, with new weights; during it one request is aborted.
        tasks = [asyncio.create_task(asked.last(name)) for name in ("kept", "dropped")]
        clock = await asked.beside(20, "clock 3")
        await llm.pause_generation(mode="keep")
        found["kept in the pause"] = llm.output_processor.get_num_unfinished_requests()
        await llm.abort("dropped")
        found["dropped"] = (await tasks[1])[0]
        await llm.collective_rpc(flatten)
        await llm.resume_generation()
        found["kept"], found["ln V"] = (await tasks[0])[0], math.log(vocabulary)
        await clock

        # The engine fails.
        tasks = [asyncio.create_task(asked.last(name)) for name in ("fails",)]
        clock = await asked.beside(20, "clock 4")
        begin = time.monotonic()
        await llm.collective_rpc(fail)
        ends = await asyncio.gather(*tasks, clock, return_exceptions=True)
        found["failed"] = [type(end).__name__ for end in ends]
        found["failed after"] = time.monotonic() - begin
        found["whole"] = whole
    finally:
        llm.shutdown()
    return found


PARTS: dict[str, Callable[[str], dict[str, Any]]] = {
    "in one process": in_one_process,
    # Each in a process of its own: with AVX2 alone, an engine that follows a speculative one computes other logits.
    "speculative, vllm": lambda model: speculative(model, {}),
    "speculative, one message": lambda model: speculative(model, one_message.switch_on()),
    "in two processes": lambda model: asyncio.run(in_two_processes(model)),
}


def main() -> None:
    part, model, answer = sys.argv[1:]
    found = PARTS[part](model)
    Path(answer).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":  # vLLM's processes import this file
    main()
