"""Grades a file with this grader and with Math-Verify, and finds the rows on which they differ."""

import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from math_reward.commands.math_verify_grader import HEAD_START_SECONDS, math_verify_grade
from math_reward.commands.output import created
from math_reward.commands.row_file import RowFile
from math_reward.commands.rows import Fault, Keys, Labels, Row
from math_reward.commands.windows import graded_in_order
from math_reward.grader import Grade, Verdict
from math_reward.grader.verdict import Options
from math_reward.page.explain import Explanation, explain
from math_reward.pool.item import Graded
from math_reward.pool.worker_pool import WorkerPool

LISTED = 10
"""How many rows of each kind, and how many lines of labels, the printed report lists."""

ON_PAGE = 500
"""How many rows of each kind the page has."""

SHOWN_CHARACTERS = 6_000
"""How much of the end of a text the page has: an answer stands at the end."""


class Kind(str, Enum):
    """What two graders say of one row."""

    BOTH_CORRECT = "both correct"
    BOTH_WRONG = "both wrong"
    ONLY_OURS = "only ours correct"
    ONLY_MATH_VERIFY = "only Math-Verify correct"
    OURS_UNDECIDED = "ours undecided"
    MATH_VERIFY_UNDECIDED = "Math-Verify undecided"
    NEITHER_DECIDED = "neither decided"


SAME = (Kind.BOTH_CORRECT, Kind.BOTH_WRONG)
"""The kinds of rows on which the two agree."""

_UNDECIDED = frozenset(
    {Verdict.BAD_REFERENCE, Verdict.PROMPT_NOT_FOUND, Verdict.TOO_COMPLEX, Verdict.TIMEOUT, Verdict.ERROR}
)
"""Verdicts that say nothing of the answer."""

_THEIR_WORDS = {Verdict.TIMEOUT: "timed out", Verdict.ERROR: "failed"}


def kind_of(ours: Grade, theirs: Grade) -> Kind:
    """What the two grades are together."""
    if ours.verdict in _UNDECIDED:
        return Kind.NEITHER_DECIDED if theirs.verdict in _UNDECIDED else Kind.OURS_UNDECIDED
    if theirs.verdict in _UNDECIDED:
        return Kind.MATH_VERIFY_UNDECIDED
    if ours.correct:
        return Kind.BOTH_CORRECT if theirs.correct else Kind.ONLY_OURS
    return Kind.ONLY_MATH_VERIFY if theirs.correct else Kind.BOTH_WRONG


def their_word(theirs: Grade) -> str:
    """Math-Verify's verdict in a word: "correct", "wrong", "failed" or "timed out"."""
    return _THEIR_WORDS.get(theirs.verdict, theirs.verdict.value)


@dataclass(frozen=True)
class Difference:
    """A row on which the two differ."""

    row: Row
    kind: Kind
    ours: Grade
    """An ``Explanation``, unless explaining took too long."""
    theirs: Grade

    @property
    def why(self) -> str:
        """Our reason, in a sentence or a word."""
        rule = self.ours.rule if isinstance(self.ours, Explanation) else None
        stage = None if self.ours.stage is None else f"Decided by the stage {self.ours.stage.value}."
        return self.ours.detail or rule or stage or ""

    def as_dict(self) -> dict[str, Any]:
        """The row for the page."""
        item, ours = self.row.item, self.ours
        references = [item.reference] if isinstance(item.reference, str) else list(item.reference)
        explained = ours if isinstance(ours, Explanation) else None
        return {
            "line": self.row.line,
            "kind": self.kind.value,
            "label": self.row.label,
            "prompt": _end(item.prompt),
            "completion": _end(item.completion),
            "references": [_end(one) for one in references],
            "ours": ours.verdict.value,
            "answer": _end(ours.answer),
            "why": self.why,
            "answer_mathml": explained and explained.answer_mathml,
            "reference_mathml": explained and explained.reference_mathml,
            "theirs": their_word(self.theirs),
            "their_answer": _end(self.theirs.answer),
            "their_detail": self.theirs.detail,
        }


@dataclass
class GradersCompared:
    """What was found in a file."""

    keys: Keys
    rows: int = 0
    seconds: float = 0.0
    kinds: "Counter[Kind]" = field(default_factory=Counter)
    theirs: "Counter[str]" = field(default_factory=Counter)
    """Math-Verify's verdicts, in the words of ``their_word``."""
    ours: Labels = field(default_factory=Labels)
    math_verify: Labels = field(default_factory=Labels)
    differences: list[Difference] = field(default_factory=list)
    """The first rows of each kind of difference."""
    bad_lines: int = 0
    first_bad_lines: list[Fault] = field(default_factory=list)

    def add(self, row: Row, ours: Grade, theirs: Grade) -> Kind:
        """Takes in the grades of one row."""
        kind = kind_of(ours, theirs)
        self.rows += 1
        self.kinds[kind] += 1
        self.theirs[their_word(theirs)] += 1
        self.ours.add(row, ours.correct)
        self.math_verify.add(row, theirs.correct)
        return kind

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"fields       {self.keys}"
        yield f"rows         {self.rows:,} in {self.seconds:.1f} s"
        for kind in Kind:
            count = self.kinds[kind]
            yield f"  {kind.value:<26} {count:>9,}  {count / max(self.rows, 1):>6.1%}"
        yield f"Math-Verify  {self.theirs['failed']:,} failed, {self.theirs['timed out']:,} timed out"
        yield from self.ours.report("ours         accuracy", LISTED)
        yield from self.math_verify.report("Math-Verify  accuracy", LISTED)
        if self.bad_lines:
            yield f"bad lines    {self.bad_lines:,} were skipped"
            yield from (f"  line {fault.line}: {fault.reason}" for fault in self.first_bad_lines)
        for kind in Kind:
            rows = [one for one in self.differences if one.kind is kind][:LISTED]
            if rows:
                yield ""
                yield from _table(kind, rows, self.kinds[kind])


def compare_file(
    path: str,
    *,
    workers: int,
    deadline: float,
    math_verify_deadline: float,
    options: Options,
    named: dict[str, str | None],
    output: str | None = None,
) -> GradersCompared:
    """Grades every row with both graders, each in worker processes of its own that can be killed.

    Args:
        path, workers, deadline, options, named: as in ``math_reward.commands.grade_file.grade_file``.
        math_verify_deadline: CPU seconds that Math-Verify may take for one row.
        output: a file to write: for each line, in order, both verdicts as a JSON object, or why it cannot be used.

    Raises:
        FileRefused: a file cannot be read or written, or the first row lacks a field that is needed.
    """
    start = time.perf_counter()
    comparison: GradersCompared | None = None
    written = None
    with ExitStack() as stack:
        file = stack.enter_context(RowFile(path, options, named))
        ours = stack.enter_context(WorkerPool(workers, deadline))
        theirs = stack.enter_context(
            WorkerPool(workers, math_verify_deadline, math_verify_grade, head_start=HEAD_START_SECONDS)
        )
        explainer = stack.enter_context(WorkerPool(1, deadline, explain))
        early: list[Fault] = []
        for row, graded in stack.enter_context(closing(graded_in_order(file, ours, theirs))):
            if comparison is None and file.keys is not None:
                comparison = GradersCompared(file.keys)
                written = created(stack, output) if output is not None else None
            if isinstance(row, Fault):
                early.append(row)
            if comparison is None:
                continue
            for fault in early:
                comparison.bad_lines += 1
                if len(comparison.first_bad_lines) < LISTED:
                    comparison.first_bad_lines.append(fault)
                if written is not None:
                    written.write(json.dumps({"line": fault.line, "error": fault.reason}) + "\n")
            early.clear()
            if isinstance(row, Row):
                kind = comparison.add(row, graded[0].grade, graded[1].grade)
                if written is not None:
                    written.write(json.dumps(_pair(row, kind, *graded)) + "\n")
                if kind not in SAME and comparison.kinds[kind] <= ON_PAGE:
                    explained = explainer.submit(row.item).result().grade
                    # The verdict is that of the grader alone; with its explanation it may take too long.
                    shown = explained if explained.verdict is graded[0].grade.verdict else graded[0].grade
                    comparison.differences.append(Difference(row, kind, shown, graded[1].grade))
    assert comparison is not None  # A file without any row is refused.
    comparison.seconds = time.perf_counter() - start
    return comparison


def _pair(row: Row, kind: Kind, ours: Graded, theirs: Graded) -> dict[str, Any]:
    return {
        "line": row.line,
        "kind": kind.value,
        "label": row.label,
        "ours": ours.as_dict(),
        "math_verify": {
            "verdict": their_word(theirs.grade),
            "correct": theirs.grade.correct,
            "answer": theirs.grade.answer,
            "detail": theirs.grade.detail,
            "seconds": round(theirs.seconds, 6),
        },
    }


def _end(text: str | None) -> str | None:
    if text is None or len(text) <= SHOWN_CHARACTERS:
        return text
    return f"... ({len(text) - SHOWN_CHARACTERS:,} characters left out)\n{text[-SHOWN_CHARACTERS:]}"


def _table(kind: Kind, differences: list[Difference], count: int) -> Iterator[str]:
    head = ("line", "answer", "reference", "ours", "Math-Verify", "our reason")
    rows = [
        (str(one.row.line), one.ours.answer or "", one.ours.reference, one.ours.verdict.value, their_word(one.theirs),
         one.why)
        for one in differences
    ]  # fmt: skip
    cells = [head, *([_printable(cell) for cell in row] for row in rows)]
    most = (7, 28, 28, 16, 11, max(20, shutil.get_terminal_size().columns - 7 - 28 - 28 - 16 - 11 - 12))
    widths = [min(limit, max(len(row[i]) for row in cells)) for i, limit in enumerate(most)]
    yield f"{kind.value}: {count:,}" + (f", the first {LISTED}" if count > LISTED else "")
    for row in cells:
        padded = (_cut(cell, width).ljust(width) for cell, width in zip(row, widths, strict=True))
        yield f"  {'  '.join(padded)}".rstrip()


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _printable(text: str) -> str:
    """On one line, and without the control characters that a model may write to a terminal."""
    return "".join(one if one.isprintable() else " " for one in " ".join(text.split()))
