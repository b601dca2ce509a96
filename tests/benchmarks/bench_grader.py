r"""Grades the same labelled rows with this project's grader, Math-Verify and OpenRLHF's, and prints a table.

    python tests/benchmarks/bench_grader.py --rows labelled.jsonl [more.jsonl ...]

A row is a JSON line with "gold", "completion" and "label" (true where the answer is to be accepted). Without
``--rows`` the golden verdicts of the tests are graded, which are our own idea of right and wrong.

Each grader is a process of its own. They take turns, a block of rows at a time, so that what else happens on the
machine happens to all. Times are CPU time inside the process, row by row, the imports not counted; a row that takes
longer than ``--limit`` seconds costs its grader the process and is counted as rejected. Ours forgets its caches before
every row: what is shown is what a row costs that was never seen. Math-Verify is ``verify(parse(gold),
parse(completion))`` as its documentation has it, with its own time limits.

False accepts come first, for they are what a policy learns; the accuracy has a 95 % Wilson interval.
"""

import argparse
import importlib.util
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import NamedTuple

from differential import wilson
from tables import markdown

BLOCK = 192
GOLDEN = Path(__file__).resolve().parents[1] / "reward_server" / "grader" / "golden_verdicts.jsonl"
OURS, MATH_VERIFY = "this project", "Math-Verify"
WARM_UP = [("1/2", r"\boxed{\frac{1}{2}}"), (r"\frac{(n-10)!}{(n-11)!}", r"\boxed{n-10}")]
"""The last makes ours import SymPy, which the others import at once."""

Grader = Callable[[str, str], bool]


class Row(NamedTuple):
    reference: str
    completion: str
    label: bool


def ours() -> Grader:
    from math_reward.grader import grade, grading

    def accepts(reference: str, completion: str) -> bool:
        grading.forget()
        return grade(completion, reference).correct

    return accepts


def math_verify() -> Grader:
    from math_verify import parse, verify

    return lambda reference, completion: bool(verify(parse(f"${reference}$"), parse(completion)))


def openrlhf() -> Grader:
    """Its file alone: the package imports Ray and more."""
    package = importlib.util.find_spec("openrlhf")
    assert package is not None, "pip install openrlhf"
    (folder,) = package.submodule_search_locations or ()
    module = SourceFileLoader("math_utils", f"{folder}/utils/math_utils.py").load_module()
    return lambda reference, completion: bool(module.grade_answer(module.extract_boxed_answer(completion), reference))


GRADERS: dict[str, Callable[[], Grader]] = {OURS: ours, MATH_VERIFY: math_verify, "OpenRLHF math_utils": openrlhf}


_accepts: Grader
"""Of the process that grades."""


def _load(name: str) -> None:
    """Begin a grader's process."""
    global _accepts
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (as long as the process lives)
    _accepts = GRADERS[name]()
    for row in WARM_UP:
        _graded(*row)


def _graded(reference: str, completion: str) -> tuple[bool | None, float]:
    """Whether it is accepted, None where the grader raised, and milliseconds of CPU time."""
    start = time.process_time()
    try:
        accepted: bool | None = bool(_accepts(reference, completion))
    except Exception:
        accepted = None
    return accepted, 1000 * (time.process_time() - start)


class Peer:
    """One grader in its process, which is started again where it hangs, and what it did with all rows."""

    def __init__(self, name: str, limit: float) -> None:
        self.name = name
        self.verdicts: list[bool] = []
        self.milliseconds: list[float] = []
        self.raised = self.hung = 0
        self._limit = limit
        self._pool = self._started()

    def _started(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(1, context, initializer=_load, initargs=(self.name,))

    def grade(self, rows: list[Row]) -> None:
        todo = list(rows)
        while todo:
            answers = [self._pool.submit(_graded, row.reference, row.completion) for row in todo]
            for answer in answers:
                todo.pop(0)
                try:
                    accepted, milliseconds = answer.result(self._limit)
                except TimeoutError:
                    self.hung += 1
                    self.verdicts.append(False)
                    for process in self._pool._processes.values():  # which nothing else ends
                        process.kill()
                    self._pool = self._started()
                    break
                self.raised += accepted is None
                self.verdicts.append(bool(accepted))
                self.milliseconds.append(milliseconds)

    @property
    def rate(self) -> float:
        """Rows per second of CPU time."""
        return 1000 * len(self.milliseconds) / sum(self.milliseconds)

    def cells(self, rows: list[Row], baseline: float) -> list[str]:
        """Its line of the table; ``baseline``: the rate of Math-Verify."""
        pairs = [(verdict, row.label) for verdict, row in zip(self.verdicts, rows, strict=True)]
        correct = sum(row.label for row in rows)
        accepts, rejects = pairs.count((True, False)), pairs.count((False, True))
        right = len(rows) - accepts - rejects
        low, high = wilson(right, len(rows))
        return [
            self.name,
            f"{accepts} of {len(rows) - correct}",
            f"{rejects} of {correct}",
            f"{right / len(rows):.4f} ({low:.3f} to {high:.3f})",
            f"{self.rate:,.0f}",
            f"{statistics.median(self.milliseconds):.3f}",
            f"{statistics.quantiles(self.milliseconds, n=100, method='inclusive')[98]:.3f}",
            f"{self.rate / baseline:.1f}",
            f"{self.raised} / {self.hung}",
        ]


HEAD = ["grader", "false accepts", "false rejects", "accuracy (95 %)", "rows a CPU second", "p50 ms", "p99 ms"]


def read(path: Path | None) -> list[Row]:
    rows = [json.loads(line) for line in (path or GOLDEN).read_text("utf-8").splitlines()]
    if path is None:
        return [Row(row["reference"], rf"\boxed{{{row['answer']}}}", row["verdict"] == "correct") for row in rows]
    return [Row(str(row["gold"]), row["completion"], row["label"]) for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, nargs="*", help="JSON lines: gold, completion, label")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds that a grader may take for a row (30)")
    arguments = parser.parse_args()
    for path in arguments.rows or [None]:
        rows = read(path)
        peers = [Peer(name, arguments.limit) for name in GRADERS]
        for start in range(0, len(rows), BLOCK):
            for peer in peers:
                peer.grade(rows[start : start + BLOCK])
        (baseline,) = (peer.rate for peer in peers if peer.name == MATH_VERIFY)
        print(f"\n{path or 'golden verdicts'}: {len(rows):,} rows\n")
        print(markdown([*HEAD, "times Math-Verify", "raised / hung"], (peer.cells(rows, baseline) for peer in peers)))


if __name__ == "__main__":
    main()
