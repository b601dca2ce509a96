r"""Grades the same labelled rows with this project's grader, Math-Verify and OpenRLHF's, and prints a table.

    python tests/benchmarks/bench_grader.py --rows labelled.jsonl [more.jsonl ...]

A row is a JSON line with "gold", "completion" and "label" (true where the answer is to be accepted). Without ``--rows``
the golden verdicts of the tests are graded, which are our own idea of right and wrong.

Each grader is a process of its own. They take turns, a block of rows at a time, so that what else happens on the
machine happens to all. Times are CPU time inside the process, row by row, the imports not counted; a row that takes
longer than ``--limit`` seconds of wall-clock time costs its grader the process and is counted as rejected. Ours forgets
its caches before every row: what is shown is what a row costs that was never seen. Math-Verify is
``verify(parse(gold), parse(completion))`` as its documentation has it, with its own time limits.

False accepts come first, for they are what a policy learns; the accuracy has a 95 % Wilson interval.
"""

import argparse
import contextlib
import importlib.util
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from differential import wilson

from openrlhf_gtpo.tables import markdown

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
    if package is None or not package.submodule_search_locations:
        raise ImportError("openrlhf is not installed")
    path = Path(package.submodule_search_locations[0]) / "utils" / "math_utils.py"
    spec = importlib.util.spec_from_file_location("openrlhf_math_utils", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda reference, completion: bool(module.grade_answer(module.extract_boxed_answer(completion), reference))


GRADERS: dict[str, Callable[[], Grader]] = {OURS: ours, MATH_VERIFY: math_verify, "OpenRLHF math_utils": openrlhf}


def _serve(name: str, connection: Connection) -> None:
    """A grader's process: reads (reference, completion), answers (accepted or None where it raised, milliseconds)."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        try:
            accepts = GRADERS[name]()
        except ImportError as error:
            connection.send(str(error))
            return
        for reference, completion in WARM_UP:
            with contextlib.suppress(Exception):  # It is counted where it happens to a row that counts.
                accepts(reference, completion)
        connection.send(None)
        while (block := connection.recv()) is not None:
            for reference, completion in block:
                start, accepted = time.process_time(), None
                with contextlib.suppress(Exception):
                    accepted = accepts(reference, completion)
                connection.send((accepted, 1000 * (time.process_time() - start)))


class Peer:
    """One grader in its process, which is started again where it hangs, and what it did with all rows."""

    def __init__(self, name: str, limit: float) -> None:
        self.name = name
        self.verdicts: list[bool] = []
        self.milliseconds: list[float] = []
        self.raised = self.hung = 0
        self._limit = limit
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(self.name, other), daemon=True)
        self._process.start()
        other.close()
        problem = self._connection.recv()
        if problem is not None:
            raise ImportError(problem)

    def grade(self, rows: list[Row]) -> None:
        todo = list(rows)
        while todo:
            self._connection.send([(row.reference, row.completion) for row in todo])
            while todo and self._connection.poll(self._limit):
                accepted, milliseconds = self._connection.recv()
                self.raised += accepted is None
                self.verdicts.append(bool(accepted))
                self.milliseconds.append(milliseconds)
                todo.pop(0)
            if todo:
                self.hung += 1
                self.verdicts.append(False)
                self._process.kill()
                self._start()
                todo.pop(0)

    @property
    def rate(self) -> float:
        """Rows per second of CPU time."""
        return 1000 * len(self.milliseconds) / sum(self.milliseconds)

    def cells(self, rows: list[Row], baseline: float | None) -> list[str]:
        """Its line of the table; ``baseline``: the rate of Math-Verify."""
        pairs = [(verdict, row.label) for verdict, row in zip(self.verdicts, rows, strict=True)]
        wrong = sum(label for _, label in pairs)
        accepts, rejects = pairs.count((True, False)), pairs.count((False, True))
        right = len(rows) - accepts - rejects
        low, high = wilson(right, len(rows))
        p99 = statistics.quantiles(self.milliseconds, n=100, method="inclusive")[98]
        return [
            self.name,
            f"{accepts} of {len(rows) - wrong}",
            f"{rejects} of {wrong}",
            f"{right / len(rows):.4f} ({low:.3f} to {high:.3f})",
            f"{self.rate:,.0f}",
            f"{statistics.median(self.milliseconds):.3f}",
            f"{p99:.3f}",
            f"{self.rate / baseline:.1f}" if baseline else "-",
            f"{self.raised} / {self.hung}",
        ]


HEAD = ["grader", "false accepts", "false rejects", "accuracy (95 %)", "rows a CPU second", "p50 ms", "p99 ms"]


def read(path: Path | None) -> list[Row]:
    rows = [json.loads(line) for line in (path or GOLDEN).read_text("utf-8").splitlines()]
    if path is None:
        return [Row(row["reference"], rf"\boxed{{{row['answer']}}}", row["verdict"] == "correct") for row in rows]
    return [Row(str(row["gold"]), row["completion"], row["label"]) for row in rows]


def graded(path: Path | None, limit: float) -> str:
    """The table of one file."""
    rows = read(path)
    peers: dict[str, Peer] = {}
    for name in GRADERS:
        try:
            peers[name] = Peer(name, limit)
        except ImportError as error:
            print(f"{name} is left out, because it could not be loaded: {error}")
    for start in range(0, len(rows), BLOCK):
        for peer in peers.values():
            peer.grade(rows[start : start + BLOCK])
    baseline = peers[MATH_VERIFY].rate if MATH_VERIFY in peers else None
    lines = [peer.cells(rows, baseline) for peer in peers.values()]
    return f"\n{path or 'golden verdicts'}: {len(rows):,} rows\n\n" + markdown(
        [*HEAD, "times Math-Verify", "raised / hung"], lines
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, nargs="*", help="JSON lines: gold, completion, label")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds that a grader may take for a row (30)")
    arguments = parser.parse_args()
    for path in arguments.rows or [None]:
        print(graded(path, arguments.limit))


if __name__ == "__main__":
    sys.exit(main())
