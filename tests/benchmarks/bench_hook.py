"""What the entropy hook costs of vLLM's generation throughput, in pairs of runs beside each other.

    python tests/benchmarks/bench_hook.py --model runs/quickstart/warm_start/model [--without nothing logprobs]

Two engines of the same model take turns (`openrlhf_gtpo.selftest.hook_cost`): one with the hook, one without. The
median over pairs of throughput with : without is printed. On a GPU each engine takes 0.4 of its memory.
"""

import argparse
import statistics

from openrlhf_gtpo.selftest.hook_cost import HOOK, WITHOUT, rounds
from openrlhf_gtpo.tables import markdown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder or hub id")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--n", type=int, default=8, help="responses to each prompt")
    parser.add_argument("--tokens", type=int, default=40, help="of each response")
    ways = "; ".join(f"{name}: {what}" for name, what in WITHOUT.items())
    parser.add_argument(
        "--without", choices=list(WITHOUT), nargs="+", default=["same"], help=f"the engine without the hook: {ways}"
    )
    parser.add_argument(
        "--vocabulary",
        type=int,
        help="tokens of the vocabulary, such as 152064; weights are then random (the model's)",
    )
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    args = parser.parse_args()
    work = (args.model, args.device, args.pairs, args.prompts, args.n, args.tokens)
    pairs = list(rounds(*work, args.without, args.vocabulary))
    rows = []
    for kind in args.without:
        ratios = [seconds[kind] / seconds[HOOK] for seconds in pairs]
        rows.append([kind, *(f"{value:.3f}" for value in (statistics.median(ratios), min(ratios), max(ratios)))])
    print(markdown(["without the hook", "throughput with : without", "least", "most"], rows))


if __name__ == "__main__":
    main()
