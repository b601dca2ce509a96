r"""Pairs of answers whose equality is known by construction: how often is the grader wrong about them?

    python tests/benchmarks/differential.py --pairs 1000000 [--seed 1] [--kinds surd "nested set" ...] [--show 20]
    python tests/benchmarks/differential.py --documents --pairs 1000000

An answer is drawn as a tree whose value is known (a fraction, a surd, a union of intervals, a family ...) and written
in several notations. An accept is two writings of one tree, in a box or in a sentence; a reject is a writing of a tree
in which one thing has changed (a sign, an element, an end, a branch) and whose value therefore differs: what is
compared is the value of the trees, never their texts. The last kinds are cheats, each wrong by construction.

With ``--documents`` the pairs are a number and a whole completion: see `generated/documents.py`.

Prints a table by kind, with 95 % Wilson intervals. Exit code 0 where false accepts are 0 and false rejects at most
0.5 %, else 1.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections import Counter, defaultdict

from generated import NAMES, Pair, documents, pairs

from math_reward.grader import grade

MAX_FALSE_REJECTS = 0.005


def wilson(part: int, of: int) -> tuple[float, float]:
    """The 95 % confidence interval of a proportion (Wilson 1927)."""
    if not of:
        return 0.0, 1.0
    z = 1.959964
    share = part / of
    centre = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z / (1 + z * z / of) * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return max(0.0, centre - half), min(1.0, centre + half)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", nargs="*", choices=NAMES)
    parser.add_argument("--documents", action="store_true", help="whole completions")
    parser.add_argument("--show", type=int, default=5, help="misses to print of each kind")
    arguments = parser.parse_args()
    source = documents.documents(arguments.seed) if arguments.documents else pairs(arguments.seed, arguments.kinds)
    names = documents.NAMES if arguments.documents else arguments.kinds or NAMES
    asked: Counter[tuple[str, bool]] = Counter()
    missed: dict[tuple[str, bool], list[Pair | documents.Document]] = defaultdict(list)
    for pair in itertools.islice(source, arguments.pairs):
        wrong = grade(pair.completion, pair.reference).correct != pair.same
        for name in (pair.kind, "all"):
            asked[name, pair.same] += 1
            missed[name, pair.same] += [pair] * wrong
    print("| kind | equal pairs | false rejects | unequal pairs | false accepts |\n|---|---|---|---|---|")
    for name in [*names, "all"]:
        cells = [f"{asked[name, same]:,} | {len(missed[name, same]):,}" for same in (True, False)]
        print(f"| {name} | {cells[0]} | {cells[1]} |")
    for same, what in ((True, "false rejects"), (False, "false accepts")):
        low, high = wilson(len(missed["all", same]), asked["all", same])
        print(f"{what}: {len(missed['all', same])}, 95 % interval {low:.4%} to {high:.4%}")
    for (name, same), found in missed.items():
        for pair in found[: arguments.show] if name != "all" else []:
            print(f"{'false reject' if same else 'FALSE ACCEPT'} {name}: {pair.reference!r} | {pair.completion!r}")
    few = len(missed["all", True]) <= MAX_FALSE_REJECTS * asked["all", True]
    return 0 if few and not missed["all", False] else 1


if __name__ == "__main__":
    sys.exit(main())
