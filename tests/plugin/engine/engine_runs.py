"""Runs real engines; the tests of this folder read what they gave.

    python engine_runs.py PART MODEL

An engine takes ten seconds to start, so each part asks one for everything that it can show. The last line is RESULT
with a JSON object.
"""

import asyncio
import contextlib
import json
import math
import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from openrlhf_gtpo.cpu.platform import engine_on_a_cpu, environment

os.environ |= environment() | {"VLLM_ALLOW_INSECURE_SERIALIZATION": "1"}

import vllm
from vllm.sampling_params import RequestOutputKind
from vllm.v1.core.sched.scheduler import Scheduler

from openrlhf_gtpo import vllm_entropy
from openrlhf_gtpo.engine import one_message, repeatable
from openrlhf_gtpo.engine.repeatable import RewindableGenerator

LISTS = ("start_indices", "end_indices", "token_ids", "logprobs", "ranks", "decoded_tokens")
ENGINE = {
    "enforce_eager": True,
    "dtype": "float32",
    "max_model_len": 128,
    "block_size": 32,
    "gpu_memory_utilization": 0.05,
    "disable_log_stats": False,
}
HOOKED = {**ENGINE, **vllm_entropy.engine_kwargs(), "max_logprobs": 4}
TIGHT = {"max_num_batched_tokens": 24, "max_num_seqs": 24, "num_gpu_blocks_override": 14, "skip_tokenizer_init": True}
"""Prompts come in parts, and requests are preempted and begin again."""

ENTROPY = vllm_entropy.sampling_kwargs()
PROMPT = [5, 17, 300]
KINDS: list[tuple[list[int], dict[str, Any], int]] = [
    (PROMPT, {"temperature": 1.0}, 20),
    ([9], {"temperature": 0.7}, 3),
    ([100, 200, 300, 400, 11, 12, 13], {"temperature": 1.3}, 33),
    ([42, 42], {"temperature": 0.4}, 1),
    ([7, 8, 9, 10], {"temperature": 1.0, "top_k": 5}, 12),
]
"""Prompts, how their responses are sampled, and how many tokens these have."""


@contextlib.contextmanager
def engine(model: str, **settings: Any) -> Iterator[Any]:
    llm = vllm.LLM(model, **settings)
    yield llm
    llm.llm_engine.engine_core.shutdown()


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


# ---- entropies


def request(n: int, **asked: Any) -> Any:
    """For exactly so many tokens; ``min_tokens`` forbids the end of the sequence."""
    return vllm.SamplingParams(max_tokens=n, min_tokens=n, stop_token_ids=[1], detokenize=False, **asked)


def ask(llm: Any, prompts: list[list[int]], requests: list[Any]) -> list[Any]:
    return llm.generate([{"prompt_token_ids": prompt} for prompt in prompts], requests, use_tqdm=False)


def of_all_kinds(llm: Any) -> list[Any]:
    requests = [request(n, seed=i, **how, **ENTROPY) for i, (_, how, n) in enumerate(KINDS)]
    return [output.outputs[0] for output in ask(llm, [prompt for prompt, *_ in KINDS], requests)]


def sampled(one: Any) -> dict[str, Any]:
    tokens = list(one.token_ids)
    return {"tokens": tokens, "logprob": [e[token].logprob for token, e in zip(tokens, one.logprobs, strict=True)]}


def read(one: Any) -> dict[str, Any]:
    return sampled(one) | {"entropy": vllm_entropy.entropies(one)}


def in_company(llm: Any) -> dict[str, Any]:
    """The same requests alone and with others: with prompts in parts, preempted requests and cached prefixes."""
    rng = random.Random(0)
    prompts = [[rng.randrange(2, 500) for _ in range(rng.choice([1, 3, 20, 50]))] for _ in range(12)]

    def answers(*places: int) -> dict[int, Any]:
        requests = [
            vllm.SamplingParams(
                max_tokens=8 + 5 * (place % 9),
                seed=place,
                detokenize=False,
                ignore_eos=True,
                temperature=1.0 if place % 2 else 0.7,
                **ENTROPY,
            )
            for place in places
        ]
        outputs = ask(llm, [prompts[place // 2] for place in places], requests)
        return {place: read(output.outputs[0]) for place, output in zip(places, outputs, strict=True)}

    def counted(owner: Any, method: str) -> Any:
        return mock.patch.object(owner, method, autospec=True, side_effect=getattr(owner, method))

    alone: dict[int, Any] = {}
    with counted(Scheduler, "_preempt_request") as preempted, counted(RewindableGenerator, "set_offset") as taken_back:
        for place in range(24):
            alone |= answers(place)
        few = answers(3, 4) | answers(20, 21, 22)
        together, backwards = answers(*range(24)), answers(*range(23, -1, -1))
    counts = [preempted.call_count, taken_back.call_count]
    return {"alone": alone, "few": few, "together": together, "backwards": backwards, "counts": counts}


def use_third_sampler(worker: Any) -> None:
    """As a future vLLM's would look."""
    worker.model_runner.sampler = type("ThirdSampler", (), {"__module__": "vllm.v3"})()


def in_float32(model: str) -> dict[str, Any]:
    vllms = {**ENGINE, "logprobs_mode": "processed_logprobs", "max_logprobs": 1, "skip_tokenizer_init": True}
    repeatable.install()  # draws as the engines with the hook do, which does not change what is drawn
    with engine(model, **vllms) as llm:  # before anything is hooked in this process
        plain = of_all_kinds(llm)
    found: dict[str, Any] = {"asked": KINDS, "plain": [sampled(one) for one in plain], "found out": []}

    def check(what: Callable[[], Any]) -> None:
        with contextlib.suppress(vllm_entropy.EntropyMissing):
            what()
            return
        found["found out"].append(what.__name__)

    def without_the_hook() -> None:
        vllm_entropy.entropies(plain[0])

    check(without_the_hook)
    with engine(model, **(HOOKED | TIGHT)) as llm:

        def at_start_up() -> None:
            vllm_entropy.check_hook(llm.collective_rpc("entropy_hook_report"))

        at_start_up()
        found["kinds"] = [read(one) for one in of_all_kinds(llm)]
        found["company"] = in_company(llm)
        llm.collective_rpc(use_third_sampler)
        check(at_start_up)
    return found


def in_the_precision_of_runs(model: str) -> dict[str, Any]:
    with engine(model, **(HOOKED | TIGHT | {"dtype": engine_on_a_cpu(model)["dtype"]})) as llm:
        return in_company(llm)


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
    with engine(model, max_num_seqs=24, num_gpu_blocks_override=36, **(HOOKED | extra)) as llm:
        outputs = llm.generate(*mixed_requests(), use_tqdm=False)
        sums: Counter[str] = Counter()
        for metric in llm.get_metrics():
            sums[metric.name] += getattr(metric, "value", 0)
        return {
            "scheduler": type(llm.llm_engine.engine_core.engine_core.scheduler).__name__,
            "outputs": [[told(completion) for completion in output.outputs] for output in outputs],
            "cached": [output.num_cached_tokens for output in outputs],
            "metrics": {
                name: sums[f"vllm:{name}"] for name in ("num_preemptions", "generation_tokens", "prompt_tokens")
            },
        }


def both_schedulers(model: str) -> dict[str, Any]:
    return {"vllm": seeded(model, {}), "one message": seeded(model, one_message.switch_on())}


# ---- two processes, vLLM's AsyncLLM, as in a rollout


def flatten(worker: Any) -> None:
    """New weights: every token gets the same probability."""
    worker.model_runner.model.model.norm.weight.data.zero_()


class Asked:
    """Requests to one engine, and the messages that it sent."""

    def __init__(self, llm: Any) -> None:
        self.llm = llm
        self.messages: Counter[str] = Counter()
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
            **{"temperature": 0, "max_tokens": 100, "ignore_eos": True, "detokenize": False} | ENTROPY | asked,
            output_kind=kind,
        )
        outputs, count = [], 0
        async for output in self.llm.generate({"prompt_token_ids": PROMPT}, params, request_id=name):
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
    llm = vllm.AsyncLLMEngine.from_engine_args(vllm.AsyncEngineArgs(model, **(HOOKED | one_message.switch_on())))
    asked, found = Asked(llm), {"ln V": math.log(llm.model_config.get_vocab_size())}
    unfinished = llm.output_processor.get_num_unfinished_requests

    def begun(*names: str, **wanted: Any) -> list[asyncio.Task[Any]]:
        return [asyncio.create_task(asked.last(name, **wanted)) for name in names]

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

        # A caller aborts; another one goes away.
        aborted, left, three = *begun("aborted", "left"), *begun("three", n=3, temperature=1.0)
        clock = await asked.beside(20, "clock 1")
        found["unfinished"] = [unfinished()]
        left.cancel()
        await llm.abort(["aborted", "three"])
        found["aborted"], found["three"] = (await aborted)[0], await three
        await clock
        while unfinished():
            await asyncio.sleep(0.01)

        # A pause that aborts.
        (paused,) = begun("paused")
        clock = await asked.beside(20, "clock 2")
        await llm.pause_generation(mode="abort")
        found["pause aborted"] = (await paused)[0]
        found["clock of the pause"] = (await clock)[-1].outputs[0].finish_reason
        await llm.resume_generation()
        found["after the pause"] = (await asked.last("after"))[0]["tokens"]

        # A pause that keeps, with new weights; during it one request is aborted.
        kept, dropped = begun("kept", "dropped")
        clock = await asked.beside(20, "clock 3")
        await llm.pause_generation(mode="keep")
        found["unfinished"].append(unfinished())
        await llm.abort("dropped")
        found["dropped"] = (await dropped)[0]
        await llm.collective_rpc(flatten)
        await llm.resume_generation()
        found["kept"] = (await kept)[0]
        await clock
    finally:
        llm.shutdown()
    return found


PARTS: dict[str, Callable[[str], dict[str, Any]]] = {
    "in float32": in_float32,
    "in the precision of runs": in_the_precision_of_runs,
    "both schedulers": both_schedulers,
    "in two processes": lambda model: asyncio.run(in_two_processes(model)),
}

if __name__ == "__main__":  # vLLM's processes import this file
    print("RESULT" + json.dumps(PARTS[sys.argv[1]](sys.argv[2])))
