"""Grades ordinary rows in our pool and in pebble's, in turn, with the same grader and two workers each.

    pip install pebble
    python tests/benchmarks/bench_pool.py

Pebble sends one item at a time to a worker, and its timeout counts seconds of the clock.
"""

import argparse
import statistics
import time
from collections.abc import Callable

from load_service import built_in_rows
from pebble import ProcessPool

from math_reward.grader import grade
from math_reward.pool.worker_pool import Item, WorkerPool

DEADLINE = 2.0


def ours(rows: list[tuple[str, str]]) -> list[bool]:
    with WorkerPool(2, DEADLINE) as pool:
        items = [Item(completion, reference) for completion, reference in rows]
        return [future.result().grade.correct for future in pool.submit_each(items)]


def pebbles(rows: list[tuple[str, str]]) -> list[bool]:
    with ProcessPool(max_workers=2) as pool:
        futures = [pool.schedule(grade, args=row, timeout=30 * DEADLINE) for row in rows]
        return [future.result().correct for future in futures]


def seconds(pool: Callable[[list[tuple[str, str]]], list[bool]], rows: list[tuple[str, str]]) -> float:
    """Seconds of the clock, the pool's start included."""
    start = time.perf_counter()
    assert sum(pool(rows)) > len(rows) / 2
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--pairs", type=int, default=3)
    args = parser.parse_args()
    rows = [(row.completion, row.reference) for row in built_in_rows(args.rows)]
    ratios = [seconds(pebbles, rows) / seconds(ours, rows) for _ in range(args.pairs)]
    print(f"pebble takes {statistics.median(ratios):.2f} times as long ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
