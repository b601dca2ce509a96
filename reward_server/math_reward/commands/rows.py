"""Reads the lines of a file to grade: finds the fields, and says what is wrong with a line."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from math_reward.commands.options import FIELDS
from math_reward.grader.verdict import Options, Verdict
from math_reward.json_lines import NoAnswer, reference_of
from math_reward.pool.item import Item

_LABELS = {"true": True, "correct": True, "1": True, "false": False, "wrong": False, "incorrect": False, "0": False}


class FileRefused(ValueError):
    """The file cannot be graded at all; the message is one sentence that says why."""


class Keys(NamedTuple):
    """The name of each field; None for a field that the rows do not have."""

    reference: str
    completion: str | None = None
    prompt: str | None = None
    label: str | None = None

    def __str__(self) -> str:
        return ", ".join(f"{what} {name!r}" for what, name in self._asdict().items() if name)

    def is_bad_reference(self, verdict: Verdict) -> bool:
        """Whether a row's verdict says that its reference cannot be used. Where rows have no completion, an empty one
        is graded: then ``no_answer`` is the verdict of every usable reference."""
        return verdict is Verdict.BAD_REFERENCE or (self.completion is None and verdict is not Verdict.NO_ANSWER)


class Row(NamedTuple):
    """A line that can be graded."""

    line: int
    item: Item
    label: bool | None
    """Whether the row says that its completion is correct; None if it does not say."""


class Fault(NamedTuple):
    """A line that cannot be used."""

    line: int
    reason: str
    """One sentence."""
    reference: str | None = None


@dataclass
class Labels:
    """How a grader's verdicts compare with the labels. A row that it did not decide is not accepted."""

    rows: int = 0
    false_accepts: list[int] = field(default_factory=list)
    """Lines labelled wrong that were graded correct."""
    false_rejects: list[int] = field(default_factory=list)
    """Lines labelled correct that were graded otherwise."""

    def add(self, row: Row, correct: bool) -> None:
        """Takes in a row, if it has a label."""
        if row.label is None:
            return
        self.rows += 1
        if correct != row.label:
            (self.false_accepts if correct else self.false_rejects).append(row.line)

    @property
    def accuracy(self) -> float | None:
        """The part of the rows that were graded as the label says; None where there are none."""
        return 1 - (len(self.false_accepts) + len(self.false_rejects)) / self.rows if self.rows else None

    def report(self, title: str, listed: int) -> Iterator[str]:
        """The lines of a report, if any row has a label; of each fault the first ``listed`` lines."""
        if not self.rows:
            return
        faults = {"false accepts": self.false_accepts, "false rejects": self.false_rejects}
        counts = ", ".join(f"{len(lines):,} {fault}" for fault, lines in faults.items())
        yield f"{title} {self.accuracy:.4f} of {self.rows:,} labelled rows: {counts}"
        for fault, lines in faults.items():
            if lines:
                more = ", ..." if len(lines) > listed else ""
                yield f"  {fault}: lines {', '.join(map(str, lines[:listed]))}{more}"


def find_keys(row: dict[str, Any], named: dict[str, str | None]) -> Keys:
    """Finds the fields in the first row.

    Args:
        row: the first row.
        named: for each key of ``FIELDS`` the field that the user named, or None to look for one.

    Raises:
        FileRefused: a field that was named is not there, or there is no reference.
    """
    for what, name in named.items():
        if name is not None and name not in row:
            raise FileRefused(f"The first row has no field {name!r}, the {what}; it has {_listed(row)}.")
    chosen = {what: named.get(what) or _first(row, what) for what in ("completion", "reference", "prompt")}
    if chosen["reference"] is None:
        raise FileRefused(
            f"The first row has no reference answer: it has {_listed(row)}. Name the field with --reference-key."
        )
    free = [key for key in FIELDS["label"] if key not in chosen.values()]
    label = named.get("label") or next((key for key in free if _label(row.get(key)) is not None), None)
    return Keys(chosen["reference"], chosen["completion"], chosen["prompt"], label)


def read_row(line: int, row: dict[str, Any], keys: Keys, options: Options) -> Row | Fault:
    """One row as an item to grade; without a completion, an item with an empty one, to check its reference."""
    missing = [name for name in (keys.completion, keys.reference) if name is not None and name not in row]
    if missing:
        return Fault(line, f"It has no field {missing[0]!r}; it has {_listed(row)}.")
    completion = "" if keys.completion is None else row[keys.completion]
    prompt = None if keys.completion is None or keys.prompt is None else row.get(keys.prompt)
    label = None if keys.label is None else row.get(keys.label)
    if not isinstance(completion, str):
        return Fault(line, f"Field {keys.completion!r} is no text.")
    if prompt is not None and not isinstance(prompt, str):
        return Fault(line, f"Field {keys.prompt!r} is no text.")
    if label is not None and _label(label) is None:
        return Fault(line, f"Field {keys.label!r} is neither true nor false.")
    try:
        reference = reference_of(row[keys.reference])
    except NoAnswer as error:
        return Fault(line, f"Field {keys.reference!r}: {error}.")
    return Row(line, Item(completion, reference, prompt, options, prompt_may_be_absent=True), _label(label))


def _first(row: dict[str, Any], what: str) -> str | None:
    # In some data sets these fields hold a conversation, which is not text.
    return next((k for k in FIELDS[what] if k in row and (what == "reference" or isinstance(row[k], str))), None)


def _label(value: object) -> bool | None:
    """True or False, or None if ``value`` is not a label."""
    return _LABELS.get(str(value).lower()) if isinstance(value, bool | int | str) else None


def _listed(row: dict[str, Any]) -> str:
    return ", ".join(repr(name) for name in row) or "none"
