"""Grades a file: one JSON object per line, with a completion and its reference answer, or only a reference.

Check a data set with it before you train on it: no answer to a reference that cannot be read is ever rewarded.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from math_reward.commands.options import STANDARD
from math_reward.commands.row_file import RowFile, created
from math_reward.commands.rows import Fault, Labels, Row
from math_reward.commands.windows import graded_in_order
from math_reward.grader.verdict import Options, Verdict
from math_reward.pool.item import Graded
from math_reward.pool.worker_pool import WorkerPool

LISTED = 20
"""How many lines of one kind the printed report lists; the JSON report lists all."""

SHOWN_CHARACTERS = 60
"""How much of a reference the printed report shows."""


DETAIL_OF_A_BAD_REFERENCE = "The reference answer cannot be used: "
"""The start of the grader's message, which the report leaves out: its heading says the same."""


@dataclass
class Report:
    """What was found in a file."""

    file: RowFile
    rows: int = 0
    """Rows that were graded; lines that cannot be used are not among them."""
    seconds: float = 0.0
    """How long the whole file took, the start of the workers included."""
    verdicts: "Counter[str]" = field(default_factory=Counter)
    stages: "Counter[str]" = field(default_factory=Counter)
    errors: "Counter[str]" = field(default_factory=Counter)
    """Why rows got no verdict: the grader failed."""
    bad_references: list[Fault] = field(default_factory=list)
    bad_lines: list[Fault] = field(default_factory=list)
    labels: Labels = field(default_factory=Labels)

    @property
    def all_fine(self) -> bool:
        """True where every line and every reference can be used."""
        return not self.bad_references and not self.bad_lines

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds if self.seconds else 0.0

    def add(self, row: Row, graded: Graded) -> None:
        """Takes in one row's grade."""
        grade, verdict = graded.grade, graded.grade.verdict
        self.rows += 1
        self.verdicts[verdict.value] += 1
        if grade.stage is not None:
            self.stages[grade.stage.value] += 1
        if verdict is Verdict.ERROR:
            self.errors[grade.detail or "Nobody knows why."] += 1
        if self.file.keys.is_bad_reference(verdict):
            reason = (grade.detail or f"the verdict is {verdict.value}.").removeprefix(DETAIL_OF_A_BAD_REFERENCE)
            self.bad_references.append(Fault(row.line, reason, grade.reference))
        self.labels.add(row, grade.correct)

    def as_dict(self) -> dict[str, Any]:
        """The report for a program to read."""
        return {
            "keys": self.file.keys._asdict(),
            "rows": self.rows,
            "seconds": round(self.seconds, 3),
            "rows_per_second": round(self.rows_per_second, 1),
            "verdicts": dict(self.verdicts.most_common()),
            "stages": dict(self.stages.most_common()),
            "errors": dict(self.errors.most_common()),
            "labelled": self.labels.rows,
            "accuracy": self.labels.accuracy,
            "false_accepts": self.labels.false_accepts,
            "false_rejects": self.labels.false_rejects,
            "bad_references": [fault._asdict() for fault in self.bad_references],
            "bad_lines": [{"line": fault.line, "reason": fault.reason} for fault in self.bad_lines],
        }

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"fields       {self.file.keys}"
        yield f"rows         {self.rows:,} in {self.seconds:.1f} s, {self.rows_per_second:,.0f} per second"
        if self.file.keys.completion is not None:
            yield from _table("verdicts", self.verdicts, self.rows)
            yield from _table("decided by", self.stages, self.rows)
            for why, rows in self.errors.most_common(LISTED):
                yield f"no verdict   {rows:,} rows: {why}"
        yield from self.labels.report("accuracy    ", LISTED)
        yield f"references   {f'{len(self.bad_references):,} cannot' if self.bad_references else 'all can'} be used"
        yield from _faults(self.bad_references)
        if self.bad_lines:
            yield f"bad lines    {len(self.bad_lines):,} were skipped"
            yield from _faults(self.bad_lines)


def grade_file(
    path: str,
    workers: int,
    deadline: float,
    options: Options,
    named: dict[str, str | None],
    output: str | None = None,
) -> Report:
    """Grades every line of a file in worker processes. Shows its progress on standard error if that is a terminal.

    Args:
        path: a ``.jsonl`` or ``.jsonl.gz`` file, or ``-`` for standard input.
        workers: how many worker processes.
        deadline: CPU seconds that one row may take.
        options: how to grade.
        named: the names of the fields, see ``math_reward.commands.rows.find_keys``.
        output: a file to write: for each row, in order, a JSON object with its line and the result of ``/v1/grade``.
            ``-`` for standard output, to which each goes at once, and an ``error`` for a line that cannot be used.

    Raises:
        FileRefused: a file cannot be read or written, or the first row lacks a field that is needed.
        BrokenPipeError: nobody reads standard output any more.
    """
    start = time.perf_counter()
    with ExitStack() as stack:
        file = stack.enter_context(RowFile(path, options, named))
        written = created(stack, output) if output is not None else None
        pool = stack.enter_context(WorkerPool(workers, deadline))
        report = Report(file)
        for row, graded in graded_in_order(file, pool):
            if isinstance(row, Fault):
                report.bad_lines.append(row)
                shown: dict[str, Any] | None = {"error": row.reason} if output == STANDARD else None
            else:
                report.add(row, graded[0])
                shown = graded[0].as_dict()
            if written is not None and shown is not None:
                written.write(json.dumps({"line": row.line, **shown}) + "\n")
    report.seconds = time.perf_counter() - start
    return report


def _table(title: str, counts: "Counter[str]", of: int) -> Iterator[str]:
    for name, count in counts.most_common():
        yield f"{title:<12} {name:<16} {count:>9,}  {count / of:>6.1%}"
        title = ""


def _faults(faults: list[Fault]) -> Iterator[str]:
    for fault in faults[:LISTED]:
        shown = ""
        if fault.reference is not None:
            long = len(fault.reference) > SHOWN_CHARACTERS
            # repr doubles each backslash; the report shows the reference as its author wrote it.
            shown = repr(fault.reference[:SHOWN_CHARACTERS]).replace("\\\\", "\\") + ("..." if long else "") + ": "
        yield f"  line {fault.line}: {shown}{fault.reason}"
    if len(faults) > LISTED:
        yield f"  and {len(faults) - LISTED:,} more, which --json lists"
