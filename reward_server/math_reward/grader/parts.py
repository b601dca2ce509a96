"""Answers that are given part by part: a box, a labelled passage, a line with its name or a cell of a table for each
part of the reference, or a sentence that has them all.

An answer that is accepted here was rejected as a whole. Each part must be found, in the reference's order or by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from math_reward.grader.errors import NotMathematics, TooComplex, Undefined
from math_reward.grader.extraction.boxes import BOX, Statement, boxes_in
from math_reward.grader.extraction.completion import Document
from math_reward.grader.extraction.denials import denied_after, denied_before
from math_reward.grader.extraction.phrases import last_match
from math_reward.grader.extraction.statement import final_answer
from math_reward.grader.extraction.values_at_end import values_in_last_sentence
from math_reward.grader.notation.syntax import Collection
from math_reward.grader.reading import Answer, Reference
from math_reward.grader.rules import RULES
from math_reward.grader.rules.comparison import Comparison
from math_reward.grader.rules.labels import Contradiction
from math_reward.grader.verdict import Grade, Options, Stage, Verdict
from math_reward.grader.words.doubts import says

PART_CHARACTERS = 300
"""How much of the text around an answer may be its sentence, and how far its boxes or named values may be apart."""
MAX_PARTS = 6
_LABEL = r"[IVⅠⅡⅢⅣ]{1,3}|[1-6]|[a-f]|i{1,3}"
_PART_LABEL = re.compile(rf"(?:^|(?<=[;,.\s]))[(（](?:{_LABEL})[)）]\s{{0,4}}")
# "(a) The first value is 3.", "**Part b:** 5"
_PASSAGE = re.compile(
    rf"(?:^|\n|(?<=[.;,:] ))[\s*#>-]{{0,6}}(?:Part |Question )?"
    rf"(?:[(（](?P<inner>{_LABEL}|[A-F])[)）]|(?<=Part )(?P<bare>[a-fA-F1-6])|(?P<open>[a-f])\))[\s*.:：]{{0,4}}"
)
_HAS_PARTS = re.compile(r"[;,)）]")
_ITEM_END = re.compile(r"[;,]\s|,(?=[a-zA-Z]\w? ?=)")
# "x = 2", "mean 3": a name and its value.
_NAMED = re.compile(
    r"(?P<name>\\?[a-zA-Z]+(?:_\w)?|[a-zA-Z]{3,20} [a-zA-Z]{3,20})\s{0,3}(?:[=:]|(?<=\w{3})\s)\s{0,3}(?P<value>\S.*)"
)
_SAYS = (
    r"\s{0,3}(?:=|:|：|is|equals|为|是)\s{0,3}(?P<value>[^\s,;，。][^\n;，。]{0,120}?)"
    r"(?=[;，。]|[.,](?:\s|$)|\s(?:and|y|et|und)\s|\n|$)"
)
_TABLE = re.compile(r"(?:^[ \t]*\|[^\n]*\|[ \t]*(?:\n|\Z)){3,20}", re.MULTILINE)
_RULE = re.compile(r"[\s:|-]+")

Compare = Callable[[Reference, str], Grade]


class Part(NamedTuple):
    """A part of a reference."""

    name: str | None
    """What it is the value of, in lower case; None if the reference does not say."""
    reference: Reference


def graded_in_parts(
    document: Document, said: Statement | None, references: Sequence[Reference], compare: Compare, options: Options
) -> Grade | None:
    """The grade of a completion that gives each part of a reference, each right; None if it does not.

    Args:
        document: the completion.
        said: its final answer as a whole.
        references: usable ones, of which any counts.
        compare: grades one part.
        options: how the parts of a sentence are compared.
    """
    if said is not None and not said.boxed and (found := _in_a_sentence(said, references, options)) is not None:
        return found
    for reference in references:
        if reference.is_integer or not _HAS_PARTS.search(reference.given):
            continue
        parts = _parts(reference)
        if not 1 < len(parts) <= MAX_PARTS or any(part.reference.fault for part in parts):
            continue
        text = document.passages
        boxed = said is not None and said.boxed
        for answers in (
            _by_name(text, parts),
            *((_boxes(document.text, reference, len(parts)),) if boxed else _places(text)),
        ):
            if len(answers) == len(parts) and all(
                compare(part.reference, answer).correct for part, answer in zip(parts, answers, strict=True)
            ):
                return Grade(Verdict.CORRECT, "; ".join(answers), reference.given, None, Stage.STRUCTURE)
    return None


def _parts(reference: Reference) -> list[Part]:
    """The parts of "(a) 3; (b) 5", of "x = 3, y = 5" and of "3, 5"."""
    labelled = _PART_LABEL.match(reference.given) is not None
    texts = (
        _PART_LABEL.split(reference.given)[1:] if labelled else _ITEM_END.split(reference.text.replace("\\\\", " "))
    )
    parts = [Part(None, Reference.read(text.strip(" ;,.\n"))) for text in texts]
    named = [None if labelled else _NAMED.fullmatch(part.reference.text) for part in parts]
    names = [said["name"].lower() for said in named if said is not None]
    if len({*names}) < len(parts):
        return parts
    return [Part(said["name"].lower(), Reference.read(said["value"])) for said in named if said is not None]


def _boxes(completion: str, reference: Reference, count: int) -> list[str]:
    """The last boxes; those of a reference without labels stand close together."""
    boxes = boxes_in(completion)[-count:]
    if _PART_LABEL.match(reference.given) is None and len(boxes) == count:
        begin = [box.start() for box in BOX.finditer(completion)][-count:]
        close = len(begin) == count and completion.find("\n\n", begin[0], begin[-1]) < 0
        close = close and says("part", completion, begin[0]) is None
        return boxes if close and begin[-1] - begin[0] <= PART_CHARACTERS else []
    return boxes


def _by_name(text: str, parts: Sequence[Part]) -> list[str]:
    """What the end of a text says of each name; empty if it says nothing of one, or denies it."""
    end = text.rstrip()[-PART_CHARACTERS:]
    answers = []
    for part in parts:
        if part.name is None:
            return []
        named = rf"(?<![\w\\]){re.escape(part.name)}\**(?:\([^()\n]{{1,9}}\))?{_SAYS}"
        said = last_match(re.compile(named, re.IGNORECASE), end)
        before = "" if said is None else end[: said.start()]
        if said is None or says("part", before[-40:]) or denied_before(before) or denied_after(end[said.end() :]):
            return []
        value = said["value"].strip("$* ")
        answers.append((boxes_in(value) or [value])[0])
    return answers


def _places(text: str) -> list[list[str]]:
    """The answers in the labelled passages at the end of a text, and in the table there."""
    return [_passages(text), *_cells(text)]


def _passages(text: str) -> list[str]:
    labels = list(_PASSAGE.finditer(text))
    first = next(
        (place for place in reversed(range(len(labels))) if _label(labels[place]) in ("a", "1", "i", "ⅰ")), None
    )
    if first is None:
        return []
    labels = labels[first:]
    ends = [*(following.start() for following in labels[1:]), len(text)]
    passages = [final_answer(text[label.end() : end]) for label, end in zip(labels, ends, strict=True)]
    return [] if None in passages else [passage.text for passage in passages if passage is not None]


def _label(match: re.Match[str]) -> str:
    return (match["inner"] or match["bare"] or match["open"]).lower()


def _cells(text: str) -> list[list[str]]:
    """The last column of a table at the end of a text, and its only row."""
    table = last_match(_TABLE, text)
    if table is None or len(text.rstrip()) - table.end() > PART_CHARACTERS:
        return []
    lines = [line.strip().strip("|") for line in table[0].splitlines()]
    rows = [[cell.strip(" *$") for cell in line.split("|")] for line in lines if not _RULE.fullmatch(line)][1:]
    return [[row[-1] for row in rows], rows[0] if len(rows) == 1 else []]


def _in_a_sentence(said: Statement, references: Sequence[Reference], options: Options) -> Grade | None:
    """The grade of an answer that says the parts of a reference one by one: "The quotient is 4, the remainder 3" for
    ``4, 3``; else None. The last sentence must have these values alone, in this order.
    """
    around = said.before[-PART_CHARACTERS:] + said.text + said.after[:PART_CHARACTERS]
    values = values_in_last_sentence(around) if says("parts", around) is None else []
    for reference in references if 1 < len(values) <= MAX_PARTS else ():
        expected = reference.reading.tree if reference.wording is None and reference.day is None else None
        if not isinstance(expected, Collection) or expected.kind != "list" or len(expected.items) != len(values):
            continue
        try:
            answers = [Answer.read(value).reading.tree for value in values]
            if Comparison(options, RULES).same_in_order(expected.items, answers):
                return Grade(Verdict.CORRECT, ", ".join(values), reference.given, None, Stage.STRUCTURE)
        except (NotMathematics, TooComplex, Undefined, Contradiction):
            continue
    return None
