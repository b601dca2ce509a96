"""The sampled token's log-probability and its entropy: vLLM's functions and an entropy beside them, against one pass.

    python tests/benchmarks/bench_statistics.py [--rows 32 256 --vocabulary 152064 --device cuda]

Prints, for each number of rows, the median time of either way over turns taken one after the other, and of the one
pass with every statistic. vLLM's way is that of its V1 sampler: log-softmax of all rows, top-k, ranks.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable

os.environ.setdefault("TORCH_COMPILE_DISABLE", "1")  # of the ranks: compiling takes longer than it saves here

import torch
from vllm.v1.sample.sampler import Sampler

from openrlhf_gtpo.algorithms.distribution import STATISTICS
from openrlhf_gtpo.algorithms.entropy import token_entropy, token_statistics


def seconds(work: Callable[[], object], device: str) -> float:
    start = time.perf_counter()
    work()
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[32, 256])
    parser.add_argument("--vocabulary", type=int, default=152_064)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    print("rows  vLLM's and entropy  one pass  every statistic  ratio of the first two")
    for rows in args.rows:
        logits = 4 * torch.randn(rows, args.vocabulary, device=args.device)
        sampled = torch.randint(args.vocabulary, (rows,), device=args.device)

        def vllms(logits: torch.Tensor = logits, sampled: torch.Tensor = sampled) -> None:
            logprobs = Sampler.compute_logprobs(logits)
            Sampler.gather_logprobs(logprobs, 1, sampled)
            token_entropy(logprobs)

        def one_pass(
            names: tuple[str, ...] = ("entropy",), logits: torch.Tensor = logits, sampled: torch.Tensor = sampled
        ) -> None:
            token_statistics(logits, names, sampled)

        def every() -> None:
            one_pass(tuple(STATISTICS))

        ways = (vllms, one_pass, every)
        turns = [[seconds(way, args.device) for way in ways] for _ in range(1 + args.turns)][1:]
        before, now, with_all = (statistics.median(column) for column in zip(*turns, strict=True))
        ratio = statistics.median(turn[0] / turn[1] for turn in turns)
        print(f"{rows:>4}  {before * 1e3:>15.1f} ms  {now * 1e3:>5.1f} ms  {with_all * 1e3:>12.1f} ms  {ratio:>22.2f}")


if __name__ == "__main__":
    main()
