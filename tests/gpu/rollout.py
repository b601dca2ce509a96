"""The third call: tokens a second of an engine with and without log-probabilities and entropies, in turns.

    python3 tests/gpu/rollout.py --out FOLDER [--device cpu --layers 2 --vocabulary 2000 --sequences 8 --tokens 8]

A random model of Qwen2.5-1.5B's shape, in engines that are all up and take turns, each in its own process:

* nothing: tokens alone            * logprobs: vLLM's own log-probabilities of the sampled tokens
* hook: with entropies             * hook, frozen heap: after gc.freeze() in the process that asks
* one message: the same, and one message a request (openrlhf_gtpo.engine.one_message)

Every request wants its final output alone, no text, and at least one token. rollout.json grows with every round.
"""

import argparse
import asyncio
import gc
import json
import multiprocessing
import os
import statistics
import time
import uuid
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

KINDS = {
    "nothing": ("plain", {}, False),
    "logprobs": ("plain", {"logprobs": 1, "flat_logprobs": True}, False),
    "hook": ("hook", {"logprobs": 1, "flat_logprobs": True}, False),
    "hook, frozen heap": ("hook", {"logprobs": 1, "flat_logprobs": True}, True),
    "one message": ("message", {"logprobs": 1, "flat_logprobs": True}, True),
}
"""Name -> engine, what its requests ask for besides tokens, and whether the heap is frozen."""
SHAPE = {"hidden_size": 1536, "intermediate_size": 8960, "num_attention_heads": 12, "num_key_value_heads": 2}
SMALL = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 2, "num_key_value_heads": 2}


def make_model(folder: Path, args: argparse.Namespace) -> None:
    """A config.json of the shape; vLLM makes random weights itself."""
    shape = SHAPE if args.device == "gpu" else SMALL
    config = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "num_hidden_layers": args.layers,
        "vocab_size": args.vocabulary,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "tie_word_embeddings": True,
        "hidden_act": "silu",
        "torch_dtype": "bfloat16",
        "eos_token_id": 1,
        **shape,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))


def engine_main(name: str, model: Path, args: argparse.Namespace, pipe: Connection) -> None:
    """An engine and the process that asks it: answers each (kind, sequences) with seconds and CPU seconds."""
    with (args.out / f"engine-{name}.log").open("ab") as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
    extra: dict[str, Any] = {"gpu_memory_utilization": args.share}
    if args.device == "cpu":
        from openrlhf_gtpo.cpu.platform import environment

        os.environ.update(environment())
        extra = {"enforce_eager": True, "dtype": "float32"}
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "1"
    import vllm
    from vllm.sampling_params import RequestOutputKind

    from openrlhf_gtpo.vllm_entropy import check_hook, engine_kwargs, entropies

    extra |= {"logprobs_mode": "processed_logprobs"} if name == "plain" else engine_kwargs()
    if name == "message":
        from openrlhf_gtpo.engine import one_message

        extra |= one_message.switch_on()
    engine = vllm.AsyncEngineArgs(
        model=str(model),
        skip_tokenizer_init=True,
        load_format="dummy",
        seed=0,
        max_model_len=args.tokens + 64,
        max_num_seqs=max(args.sequences),
        enable_prefix_caching=False,
        disable_log_stats=True,
        **extra,
    )
    prompts = [{"prompt_token_ids": [2 + (i + j) % 50 for j in range(20)]} for i in range(max(args.sequences))]

    async def one(llm: Any, prompt: Any, parameters: Any) -> None:
        async for output in llm.generate(prompt, parameters.clone(), request_id=uuid.uuid4().hex):
            final = output
        assert len(final.outputs[0].token_ids) == args.tokens
        if parameters.logprobs and name != "plain":
            entropies(final.outputs[0])

    async def serve() -> None:
        llm = vllm.AsyncLLMEngine.from_engine_args(engine)
        if name != "plain":
            check_hook(await llm.collective_rpc("entropy_hook_report"))
        pipe.send("up")
        while asked := await asyncio.to_thread(pipe.recv):
            kind, sequences = asked
            _, wanted, frozen = KINDS[kind]
            gc.collect()
            gc.freeze() if frozen else gc.unfreeze()
            parameters = vllm.SamplingParams(
                temperature=1.0,
                min_tokens=1,
                max_tokens=args.tokens,
                ignore_eos=True,
                detokenize=False,
                output_kind=RequestOutputKind.FINAL_ONLY,
                **wanted,
            )
            begin, cpu = time.perf_counter(), time.process_time()
            await asyncio.gather(*(one(llm, prompt, parameters) for prompt in prompts[:sequences]))
            pipe.send((time.perf_counter() - begin, time.process_time() - cpu))
        llm.shutdown()

    asyncio.run(serve())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=["cpu", "gpu"], default="gpu")
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--vocabulary", type=int, default=151_936)
    parser.add_argument("--sequences", type=int, nargs="+", default=[256])
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--share", type=float, default=0.28, help="of the GPU's memory for each engine (0.28)")
    parser.add_argument("--seconds", type=float, default=240, help="after which no further round begins (240)")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    args = parser.parse_args()
    args.out = args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    kinds = list(args.kinds)
    make_model(args.out / "model", args)
    context = multiprocessing.get_context("spawn")
    pipes, processes = {}, []
    try:
        for name in dict.fromkeys(KINDS[kind][0] for kind in kinds):
            pipes[name], theirs = context.Pipe()
            processes.append(context.Process(target=engine_main, args=(name, args.out / "model", args, theirs)))
            processes[-1].start()
            theirs.close()
            pipes[name].recv()  # while an engine starts it measures what is free on the GPU
            print(f"engine {name} is up after {time.monotonic() - began:.0f} s", flush=True)
        tables(rounds(kinds, pipes, args, began), args.tokens)
        for pipe in pipes.values():
            pipe.send(None)
    finally:
        for pipe in pipes.values():
            pipe.close()
        for process in processes:
            process.join(60)
            process.kill()


def rounds(
    kinds: list[str], pipes: dict[str, Connection], args: argparse.Namespace, began: float
) -> list[dict[str, Any]]:
    """Every kind once a round, in turn from the front and from the back, after a round of warm-up."""
    found: list[dict[str, Any]] = []
    number = 0
    while number < 2 or time.monotonic() - began < args.seconds:
        for sequences in args.sequences:
            for kind in kinds if number % 2 else reversed(kinds):
                pipe = pipes[KINDS[kind][0]]
                pipe.send((kind, sequences))
                seconds, cpu = pipe.recv()
                if number:
                    found.append(
                        {"round": number, "sequences": sequences, "kind": kind, "seconds": seconds, "cpu": cpu}
                    )
        number += 1
        (args.out / "rollout.json").write_text(json.dumps(found))
        if args.device == "cpu" and number == 2:
            break
    return found


def tables(found: list[dict[str, Any]], tokens: int) -> None:
    """Print medians over rounds: tokens a second, the share of `nothing` in the same round, CPU of the process."""
    for sequences, kind in dict.fromkeys((one["sequences"], one["kind"]) for one in found):
        mine = {one["round"]: one for one in found if (one["sequences"], one["kind"]) == (sequences, kind)}
        least = {one["round"]: one for one in found if (one["sequences"], one["kind"]) == (sequences, "nothing")}
        shares = [least[r]["seconds"] / one["seconds"] for r, one in mine.items() if r in least]
        speed = sequences * tokens / statistics.median(one["seconds"] for one in mine.values())
        cpu = statistics.median(one["cpu"] for one in mine.values()) / sequences / tokens * 1e6
        share = f", {statistics.median(shares):.3f} of nothing" if shares else ""
        print(
            f"{sequences} sequences, {kind}: {speed:,.0f} tokens a second{share}, "
            f"{cpu:.1f} µs of CPU a token in the process that asks ({len(mine)} rounds)"
        )


if __name__ == "__main__":
    main()
