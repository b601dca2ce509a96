r"""Grades the same labelled rows with this project's grader and with others, in turn, and prints a table.

    python tests/benchmarks/bench_grader.py --rows labelled.jsonl [more.jsonl ...] [--kinds]

A row is a JSON line with "gold", "completion", "label" (true where the answer is to be accepted) and "source". Without
``--rows`` the golden verdicts of the tests are graded, which are our own idea of right and wrong.

Each grader is a process of its own. The graders take turns, a block of rows at a time, so that what else happens on
the machine happens to all. (Turns of one row would time how fast a process wakes up.) Times are CPU time inside the
process, row by row, the imports not counted; a row that takes longer than ``--limit`` seconds of wall-clock time costs
its grader the process and is counted as rejected.
Ours forgets its caches before every row: what is shown is what a row costs that was never seen. (Served, it is less,
for a group has the same reference for all of its completions.)

* Math-Verify: ``verify(parse(gold), parse(completion))`` as its documentation has it, with its own time limits.
* OpenRLHF: ``extract_boxed_answer`` and ``grade_answer`` of ``openrlhf/utils/math_utils.py``.
* verl: the graders of ``verl/utils/reward_score``, from a wheel that is installed for the run into a temporary
  directory. Its Math-Verify runs in this process and not in another one, and prime_math's limit of a process for each
  comparison is taken off: both make verl look quicker than it is.

Each file has its own table: false accepts come first, for they are what a policy learns; proportions have a 95 %
Wilson interval. With ``--kinds``, a table of ours and Math-Verify by kind of row follows. With ``--undecided`` there
is one table, of ours alone: the rows of each file that mathematics does not decide, and how many are labelled true.

Exit code 0 where ours is at least 100 times as fast as Math-Verify and its p99 at most 5 ms, else 1.
"""

import argparse
import contextlib
import importlib.util
import json
import math
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
import types
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

NEEDED_RATIO = 100.0
MAX_P99_MS = 5.0
BLOCK = 192

GOLDEN = Path(__file__).resolve().parents[1] / "reward_server" / "grader" / "golden_verdicts.jsonl"
OURS, MATH_VERIFY = "this project", "Math-Verify"
# The last row makes ours import SymPy, which the others import at once.
WARM_UP = [
    ("1/2", r"\boxed{\frac{1}{2}}"),
    ("x^2+1", r"It is $\boxed{1+x^2}$."),
    (r"\sqrt{8}", r"\boxed{2\sqrt2}"),
    (r"\frac{(n-10)!}{(n-11)!}", r"\boxed{n-10}"),
]

Grader = Callable[[str, str], bool]


@dataclass(frozen=True)
class Row:
    reference: str
    completion: str
    label: bool
    source: str
    kind: str = ""


@dataclass
class Tally:
    """What one grader did with all rows; ``milliseconds`` are of CPU time, one per row that it finished."""

    verdicts: list[bool] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)
    failures: int = 0
    """Rows on which it raised."""
    hung: int = 0
    """Rows on which it ran past the limit."""


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
    found = importlib.util.find_spec("openrlhf")
    if found is None or not found.submodule_search_locations:
        raise ImportError("openrlhf is not installed")
    module = _loaded("openrlhf_math_utils", Path(found.submodule_search_locations[0]) / "utils" / "math_utils.py")
    return lambda reference, completion: bool(module.grade_answer(module.extract_boxed_answer(completion), reference))


def verl_math_verify() -> Grader:
    score = _verl("math_verify")._verify_in_subprocess
    return lambda reference, completion: score(rf"\boxed{{{reference}}}", completion) > 0


def verl_prime_math() -> Grader:
    score = _verl("prime_math").compute_score
    return lambda reference, completion: bool(score(completion, reference)[0])


def verl_math_reward() -> Grader:
    score = _verl("math_reward").compute_score
    return lambda reference, completion: score(completion, reference) > 0


def verl_math_dapo() -> Grader:
    score = _verl("math_dapo").compute_score
    return lambda reference, completion: bool(score(completion, reference)["acc"])


GRADERS: dict[str, Callable[[], Grader]] = {
    OURS: ours,
    MATH_VERIFY: math_verify,
    "OpenRLHF math_utils": openrlhf,
    "verl math_verify": verl_math_verify,
    "verl prime_math": verl_prime_math,
    "verl math_reward": verl_math_reward,
    "verl math_dapo": verl_math_dapo,
}


def _loaded(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _verl(module: str) -> Any:
    """A module of ``verl.utils.reward_score`` without the rest of verl, which imports Ray, torch and more."""
    directory = Path(os.environ["BENCH_VERL"]) / "verl" / "utils" / "reward_score"
    limits = types.ModuleType("verl.utils.py_functional")
    limits.timeout_limit = lambda seconds: lambda function: function  # type: ignore[attr-defined]
    sys.modules |= {name: types.ModuleType(name) for name in ("verl", "verl.utils")} | {limits.__name__: limits}
    package = directory / module / "__init__.py"
    return _loaded(f"verl_{module}", package if package.exists() else directory / f"{module}.py")


def _serve(name: str, connection: Connection) -> None:
    """A grader's process: reads (reference, completion), answers (accepted or None where it raised, milliseconds)."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        try:
            accepts = GRADERS[name]()
        except Exception as error:
            connection.send(f"{type(error).__name__}: {error}")
            return
        for reference, completion in WARM_UP:
            with contextlib.suppress(Exception):  # It will be counted where it happens to a row that counts.
                accepts(reference, completion)
        connection.send(None)
        while (block := connection.recv()) is not None:
            for row in block:
                connection.send(_timed(accepts, *row))


def _timed(accepts: Grader, reference: str, completion: str) -> tuple[bool | None, float]:
    start = time.process_time()
    try:
        accepted: bool | None = bool(accepts(reference, completion))
    except Exception:
        accepted = None
    return accepted, (time.process_time() - start) * 1000


class Peer:
    """One grader in its process, which is started again where it hangs."""

    def __init__(self, name: str, limit: float) -> None:
        self.name = name
        self.tally = Tally()
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
            self._process.join()
            raise ImportError(problem)

    def grade(self, rows: list[Row]) -> None:
        done = 0
        while done < len(rows):
            self._connection.send([(row.reference, row.completion) for row in rows[done:]])
            while done < len(rows) and self._connection.poll(self._limit):
                accepted, milliseconds = self._connection.recv()
                self.tally.failures += accepted is None
                self.tally.verdicts.append(bool(accepted))
                self.tally.milliseconds.append(milliseconds)
                done += 1
            if done < len(rows):
                self.tally.hung += 1
                self.tally.verdicts.append(False)
                self._process.kill()
                self._process.join()
                self._start()
                done += 1

    def stop(self) -> None:
        self._connection.send(None)
        self._process.join()


def read(path: Path | None) -> list[Row]:
    if path is None:
        golden = [json.loads(line) for line in GOLDEN.read_text("utf-8").splitlines()]
        return [
            Row(row["reference"], rf"So it is \boxed{{{row['answer']}}}", row["verdict"] == "correct", "golden")
            for row in golden
        ]
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [
        Row(str(row["gold"]), row["completion"], row["label"], row.get("source", ""), row.get("kind", ""))
        for row in rows
    ]


@contextlib.contextmanager
def verl_installed() -> Iterator[str | None]:
    """Installs verl without what it needs; gives why that is impossible, or None."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", directory, "verl"]
        done = subprocess.run(command, capture_output=True, text=True)
        os.environ["BENCH_VERL"] = directory
        yield None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["pip failed"])[-1]


def _rate(tally: Tally) -> float:
    return 1000 * len(tally.milliseconds) / sum(tally.milliseconds)


def _line(peer: Peer, rows: list[Row], baseline: float | None) -> list[str]:
    tally = peer.tally
    right = [verdict == row.label for verdict, row in zip(tally.verdicts, rows, strict=True)]
    false_accepts = sum(v and not row.label for v, row in zip(tally.verdicts, rows, strict=True))
    quantiles = statistics.quantiles(tally.milliseconds, n=100, method="inclusive")
    low, high = wilson(sum(right), len(rows))
    return [
        peer.name,
        f"{false_accepts} of {sum(not row.label for row in rows)}",
        f"{len(rows) - sum(right) - false_accepts} of {sum(row.label for row in rows)}",
        f"{sum(right) / len(rows):.4f} ({low:.3f} to {high:.3f})",
        f"{_rate(tally):,.0f}",
        f"{quantiles[49]:.3f}",
        f"{quantiles[98]:.3f}",
        f"{max(tally.milliseconds):.3f}",
        f"{_rate(tally) / baseline:.1f}" if baseline else "-",
        f"{tally.failures} / {tally.hung}",
    ]


def wilson(right: int, of: int) -> tuple[float, float]:
    """The 95 % confidence interval of a proportion (Wilson 1927)."""
    z = 1.959964
    share = right / of
    centre = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z / (1 + z * z / of) * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return centre - half, centre + half


HEADINGS = [
    "grader", "false accepts", "false rejects", "accuracy (95 %)", "rows per CPU-second", "p50 ms", "p99 ms",
    "max ms", "times Math-Verify", "raised / hung",
]  # fmt: skip
KIND_HEADINGS = ["kind", "rows", "ours: false accepts", "false rejects", "Math-Verify: false accepts", "false rejects"]


def _by_kind(peers: dict[str, Peer], rows: list[Row]) -> list[list[str]]:
    """Per kind of row the false accepts and rejects of ours and of Math-Verify."""
    lines = []
    for kind, count in Counter(row.kind for row in rows).most_common():
        cells = [kind or "-", str(count)]
        for name in (OURS, MATH_VERIFY):
            verdicts = peers[name].tally.verdicts if name in peers else [False] * len(rows)
            of_kind = [(v, row.label) for v, row in zip(verdicts, rows, strict=True) if row.kind == kind]
            cells += [
                str(sum(v and not label for v, label in of_kind)),
                str(sum(label and not v for v, label in of_kind)),
            ]
        lines.append(cells)
    return lines


def table(headings: list[str], lines: list[list[str]]) -> str:
    widths = [max(len(cell) for cell in column) for column in zip(headings, *lines, strict=True)]
    rows = [headings, ["-" * width for width in widths], *lines]
    return "\n".join("| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |" for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=Path, nargs="*", default=[], help="JSON lines: gold, completion, label, source")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds that a grader may take for a row")
    parser.add_argument("--kinds", action="store_true", help="a table by kind of row too")
    parser.add_argument("--undecided", action="store_true", help="only the rows that mathematics does not decide")
    arguments = parser.parse_args()
    if arguments.undecided:
        print(_undecided(arguments.rows or [None]))
        return 0
    missed: list[str] = []
    with verl_installed() as problem:
        if problem:
            print(f"verl is left out, because it could not be installed: {problem}")
        for path in arguments.rows or [None]:
            missed += _graded_file(path, arguments.limit, arguments.kinds, verl=not problem)
    print("\n" + ("Missed: " + "; ".join(missed) + "." if missed else "All targets are met."))
    return 1 if missed else 0


def _undecided(paths: list[Path | None]) -> str:
    """Per file the rows that mathematics does not decide, and those of them that are labelled true."""
    from math_reward.grader import Stage, grade

    lines = []
    for path in paths:
        rows = read(path)
        open_rows = [row for row in rows if grade(row.completion, row.reference).stage is Stage.UNDECIDED]
        counts = [len(rows), len(open_rows), sum(row.label for row in open_rows)]
        lines.append([path.name if path else "golden verdicts", *map(str, counts)])
    return table(["file", "rows", "undecided", "of these labelled true"], lines)


def _graded_file(path: Path | None, limit: float, kinds: bool, verl: bool) -> list[str]:
    """Prints the table of one file; gives the targets that were missed."""
    rows = read(path)
    peers: dict[str, Peer] = {}
    for name in GRADERS:
        if not verl and name.startswith("verl"):
            continue
        try:
            peers[name] = Peer(name, limit)
        except ImportError as error:
            print(f"{name} is left out, because it could not be loaded: {error}")
    for start in range(0, len(rows), BLOCK):
        for peer in peers.values():
            peer.grade(rows[start : start + BLOCK])
    for peer in peers.values():
        peer.stop()

    ours = peers[OURS].tally
    baseline = _rate(peers[MATH_VERIFY].tally) if MATH_VERIFY in peers else None
    where = path.name if path else "golden verdicts"
    print(f"\n{where}: {len(rows):,} rows, the graders in turn; CPU milliseconds per row, our caches cleared\n")
    print(table(HEADINGS, [_line(peer, rows, baseline) for peer in peers.values()]))
    if kinds:
        print("\n" + table(KIND_HEADINGS, _by_kind(peers, rows)))
    p99 = statistics.quantiles(ours.milliseconds, n=100, method="inclusive")[98]
    missed = [f"{where}: p99 is {p99:.2f} ms and not at most {MAX_P99_MS} ms"] if p99 > MAX_P99_MS else []
    if baseline is None:
        missed.append(f"{where}: the speed beside Math-Verify is unknown")
    elif _rate(ours) / baseline < NEEDED_RATIO:
        missed.append(f"{where}: {_rate(ours) / baseline:.0f} times as fast as Math-Verify, not {NEEDED_RATIO:.0f}")
    return missed


if __name__ == "__main__":
    sys.exit(main())
