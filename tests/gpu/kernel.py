"""The first call: what log-probability, rank and entropy of sampled tokens cost, by themselves and in one pass.

    python3 tests/gpu/kernel.py --out FOLDER [--device cpu --vocabularies 500 --rows 1 8]

Times are medians of CUDA events over inputs that rotate, so that none comes from the GPU's cache. Beside each stands
the bytes of the logits over that time, and the same for a copy, the ceiling. Needs torch and Triton, no vLLM.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from openrlhf_gtpo.algorithms.entropy import logprob_and_entropy

CACHE_BYTES = 256 * 2**20
"""Inputs rotate through this much, several times the cache of a GPU."""
REPEATS = 30


def ranks(logits: torch.Tensor, sampled: torch.Tensor) -> torch.Tensor:
    """How many tokens are at least as likely as the sampled one, as vLLM counts them."""
    return (logits >= logits.gather(1, sampled[:, None])).sum(dim=-1)


def plain(logits: torch.Tensor, sampled: torch.Tensor) -> tuple[object, ...]:
    """What vLLM computes for a request with one log-probability, and then an entropy in float32 by torch."""
    logp = logits.float().log_softmax(dim=-1)
    entropy = -(logp.exp() * logp).nan_to_num(0.0).sum(dim=-1)
    return logp.topk(1), logp.gather(1, sampled[:, None]), ranks(logp, sampled), entropy


WORKS: dict[str, Callable[..., object]] = {
    "copy": lambda logits, sampled: logits.clone(),
    "top-k": lambda logits, sampled: logits.topk(1),
    "log-softmax": lambda logits, sampled: logits.float().log_softmax(dim=-1),
    "ranks": ranks,
    "all of these": plain,
    "one pass": logprob_and_entropy,
}


def seconds(work: Callable[..., object], inputs: list[tuple[torch.Tensor, torch.Tensor]], place: str) -> float:
    """The median of `REPEATS` calls after three of warm-up."""
    taken = []
    for repeat in range(REPEATS + 3):
        logits, sampled = inputs[repeat % len(inputs)]
        if place == "cuda":
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            work(logits, sampled)
            end.record()
            torch.cuda.synchronize()
            taken.append(begin.elapsed_time(end) / 1000)
        else:
            start = time.perf_counter()
            work(logits, sampled)
            taken.append(time.perf_counter() - start)
    return statistics.median(taken[3:])


def error(logits: torch.Tensor, sampled: torch.Tensor) -> dict[str, float]:
    """The largest differences from float64 in nats, over eight rows."""
    few, tokens = logits[:8], sampled[:8]
    logp = few.double().log_softmax(dim=-1)
    expected = -(logp.exp() * logp).nan_to_num(0.0).sum(dim=-1)
    both = logprob_and_entropy(few, tokens).double()
    of_tokens = logp.gather(1, tokens[:, None]).squeeze(1)
    return {
        "entropy": float((both[:, 1] - expected).abs().max()),
        "log-probability": float((both[:, 0] - of_tokens).abs().max()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=["cpu", "gpu"], default="gpu")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8, 64, 256, 512, 1024])
    parser.add_argument("--vocabularies", type=int, nargs="+", default=[151_936, 152_064])
    args = parser.parse_args()
    place = "cuda" if args.device == "gpu" else "cpu"
    generator = torch.Generator(place).manual_seed(0)
    found = []
    for vocabulary in args.vocabularies:
        for dtype in (torch.bfloat16, torch.float32):
            for rows in args.rows:
                size = rows * vocabulary * dtype.itemsize
                count = max(1, min(16, CACHE_BYTES // size if place == "cuda" else 1))
                inputs = []
                for _ in range(count):
                    logits = 4 * torch.randn(rows, vocabulary, device=place, generator=generator)
                    logits[:, 7] = float("-inf")  # as min_tokens masks the end of a response
                    sampled = torch.randint(8, vocabulary, (rows,), device=place, generator=generator)
                    inputs.append((logits.to(dtype), sampled))
                taken = {name: seconds(work, inputs, place) for name, work in WORKS.items()}
                row = {"vocabulary": vocabulary, "dtype": str(dtype).removeprefix("torch."), "rows": rows}
                found.append({**row, "seconds": taken, "error_nats": error(*inputs[0])})
                told = ", ".join(f"{name} {taken[name] * 1e6:.1f}" for name in WORKS)
                print(f"V {vocabulary}, {row['dtype']}, {rows} rows, µs: {told}", flush=True)
                print(f"  TB/s of the logits: {', '.join(f'{n} {size / t / 1e12:.2f}' for n, t in taken.items())}")
    worst: dict[str, float] = {}
    for one in found:
        for name, value in one["error_nats"].items():
            worst[name] = max(worst.get(name, 0.0), value)
    print("largest error against float64, nats:", ", ".join(f"{name} {value:.1e}" for name, value in worst.items()))
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "kernel.json").write_text(json.dumps({"torch": torch.__version__, "rows": found}, indent=1))


if __name__ == "__main__":
    main()
