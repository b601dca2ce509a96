"""Changes random places of the grader, one at a time, and counts how many the rows of this repository notice.

    python tests/benchmarks/mutants.py --mutants 200 [--seed 1] [--folder reward_server/math_reward/grader]

A mutant is a comparison, a condition, a sign, a number, a truth value or a return that is another. It is put into the
running functions of a fork, which grades the rows: own_rows, golden_verdicts, unpaid, the disputes, generated pairs
and documents. A row whose verdict differs from the grader's own kills it; so does a hang. What survives is listed: it
changes nothing, or a row is missing.
"""

from __future__ import annotations

import argparse
import ast
import gc
import itertools
import json
import os
import random
import signal
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from generated import documents, pairs
from tqdm import tqdm

from math_reward.grader import Options, grade
from math_reward.grader.grading import forget

ROOT = Path(__file__).resolve().parents[2]
GRADER = ROOT / "tests" / "reward_server" / "grader"
SECONDS = 60
"""The CPU time of a mutant; all rows take a tenth of it."""
COMPARED = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in",
    ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip
CALCULATED = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*"}


class Mutant(NamedTuple):
    path: Path
    line: int
    start: int
    end: int
    old: str
    new: str


def mutants(path: Path) -> Iterator[Mutant]:
    """All of a file's functions."""
    source = path.read_text("utf-8")
    lines = [0, *itertools.accumulate(len(line.encode()) for line in source.splitlines(keepends=True))]
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in itertools.chain.from_iterable(ast.walk(statement) for statement in function.body):
            new = _changed(node, lambda part: ast.get_source_segment(source, part) or "")
            if new is not None and isinstance(node, (ast.expr, ast.stmt)) and node.end_lineno and node.end_col_offset:
                start = lines[node.lineno - 1] + node.col_offset
                end = lines[node.end_lineno - 1] + node.end_col_offset
                old = source.encode()[start:end].decode()
                yield Mutant(path, node.lineno, start, end, old, new)


def _changed(node: ast.AST, text: Callable[[ast.AST], str]) -> str | None:
    match node:
        case ast.Compare(ops=[operator]):
            return f"{text(node.left)} {COMPARED[type(operator)]} {text(node.comparators[0])}"
        case ast.BoolOp():
            joint = " or " if isinstance(node.op, ast.And) else " and "
            return "(" + joint.join(f"({text(value)})" for value in node.values) + ")"
        case ast.UnaryOp(op=ast.Not()):
            return f"({text(node.operand)})"
        case ast.BinOp() if type(node.op) in CALCULATED:
            return f"({text(node.left)}) {CALCULATED[type(node.op)]} ({text(node.right)})"
        case ast.Constant(value=bool()):
            return repr(not node.value)
        case ast.Constant(value=int() | float()):
            return repr(node.value + 1)
        case ast.Return(value=ast.expr()) if not isinstance(node.value, ast.Constant):
            return "return None"
        case ast.IfExp():
            return f"({text(node.orelse)})"
    return None


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield part
            yield from _codes(part)


def apply(mutant: Mutant) -> bool:
    """Put a mutant into the functions of this process; False if it does not compile or is in none of them."""
    source = mutant.path.read_bytes()
    changed = source[: mutant.start] + mutant.new.encode() + source[mutant.end :]
    try:
        new = compile(changed, str(mutant.path), "exec")
    except SyntaxError:
        return False
    old = {(code.co_name, code.co_firstlineno): code for code in _codes(compile(source, str(mutant.path), "exec"))}
    other = {place: code for code in _codes(new) if (place := (code.co_name, code.co_firstlineno)) in old}
    found = False
    for function in gc.get_objects():
        if isinstance(function, types.FunctionType) and function.__code__.co_filename == str(mutant.path):
            place = (function.__code__.co_name, function.__code__.co_firstlineno)
            if place in other and other[place] != old[place]:
                function.__code__, found = other[place], True
        elif hasattr(type(function), "cache_clear"):
            function.cache_clear()
    return found


def rows() -> list[tuple[str, str]]:
    """Completions and references, the kinds in turn."""
    found: list[list[tuple[str, str]]] = []
    for path in (GRADER / "own_rows.jsonl", GRADER / "golden_verdicts.jsonl", GRADER / "unpaid.jsonl",
                 ROOT / "docs" / "disputes.jsonl"):  # fmt: skip
        found.append([])
        for row in map(json.loads, path.read_text("utf-8").splitlines()):
            completion = row.get("completion") or rf"So it is $\boxed{{{row.get('answer')}}}$."
            if "references" in row:
                tried = list(itertools.product(row["answers"], row["references"]))
                found[-1] += [
                    (rf"\boxed{{{answer}}}", reference) for answer, reference in tried[:: len(tried) // 60 + 1]
                ]
            elif isinstance(row.get("reference"), str):
                found[-1].append((completion, row["reference"]))
    found.append([(one.completion, one.reference) for one in itertools.islice(documents.documents(3), 1_500)])
    found.append([(one.completion, one.reference) for one in itertools.islice(pairs(3, None), 1_500)])
    return [row for some in itertools.zip_longest(*found) for row in some if row is not None]


def killed(mutant: Mutant, graded: list[tuple[str, str]], verdicts: list[str]) -> bool | None:
    """Whether a row notices a mutant; None if there is no such mutant."""
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        if not apply(mutant):
            os._exit(2)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        forget()
        same = all(
            grade(*row, options=Options()).verdict == verdict for row, verdict in zip(graded, verdicts, strict=True)
        )
        os._exit(0 if same else 1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return None if status == 2 else status != 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=ROOT / "reward_server" / "math_reward" / "grader")
    arguments = parser.parse_args()
    graded = rows()
    verdicts = [grade(*row, options=Options()).verdict for row in graded]
    places = [mutant for path in sorted(arguments.folder.rglob("*.py")) for mutant in mutants(path)]
    random.Random(arguments.seed).shuffle(places)
    print(f"{len(graded):,} rows, {len(places):,} places")
    survivors: list[Mutant] = []
    tried = 0
    for mutant in tqdm(places, total=arguments.mutants, unit="mutants", disable=None):
        if tried == arguments.mutants:
            break
        noticed = killed(mutant, graded, verdicts)
        tried += noticed is not None
        if noticed is False:
            survivors.append(mutant)
    for mutant in survivors:
        old, new = (" ".join(text.split())[:60] for text in (mutant.old, mutant.new))
        print(f"{mutant.path.relative_to(ROOT)}:{mutant.line}: {old!r} as {new!r}")
    print(f"{tried - len(survivors)} of {tried} killed ({1 - len(survivors) / max(tried, 1):.0%})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
