"""What the entropy hook costs of vLLM's generation throughput, in pairs of runs beside each other.

    python tests/benchmarks/bench_hook.py --model runs/quickstart/warm_start/model [--pairs 9 --without nothing]

Two engines of the same model take turns (`openrlhf_gtpo.selftest.hook_cost`): one with the hook, one without. The
median over pairs of throughput with : without is printed.
"""

import argparse
import statistics

from openrlhf_gtpo.selftest.hook_cost import WITHOUT, pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder or hub id")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--n", type=int, default=8, help="responses to each prompt")
    parser.add_argument("--tokens", type=int, default=40, help="of each response")
    ways = "; ".join(f"{name}: {what}" for name, what in WITHOUT.items())
    parser.add_argument(
        "--without", choices=list(WITHOUT), default="same", help=f"the engine without the hook: {ways}"
    )
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    args = parser.parse_args()
    ratios = []
    runs = pairs(args.model, args.device, args.pairs, args.prompts, args.n, args.tokens, args.without)
    for pair, (with_hook, without) in enumerate(runs, start=1):
        ratios.append(without / with_hook)
        print(f"pair {pair}: {with_hook:.3f} s with, {without:.3f} s without, ratio {ratios[-1]:.3f}")
    median, spread = statistics.median(ratios), (min(ratios), max(ratios))
    print(f"throughput with the hook: {median:.3f} of without (pairs from {spread[0]:.3f} to {spread[1]:.3f})")


if __name__ == "__main__":
    main()
