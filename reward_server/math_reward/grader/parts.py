"""Answers that are given part by part: a box or a labelled passage for each, or a sentence that has them all."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from math_reward.grader.errors import NotMathematics, TooComplex, Undefined
from math_reward.grader.extraction.boxes import Statement, boxes_in
from math_reward.grader.extraction.statement import final_answer
from math_reward.grader.extraction.values_at_end import values_in_last_sentence
from math_reward.grader.notation.syntax import Collection
from math_reward.grader.reading import Answer, Reference
from math_reward.grader.rules import RULES
from math_reward.grader.rules.comparison import Comparison
from math_reward.grader.rules.labels import Contradiction
from math_reward.grader.verdict import Grade, Options, Stage, Verdict

PART_CHARACTERS = 300
"""How much of the text around an answer may be its sentence."""
MAX_PARTS = 6
_PART_LABEL = re.compile(r"(?:^|(?<=[;,.\s]))[(（](?:[IVⅠⅡⅢⅣ]{1,3}|[1-6]|[a-f])[)）]\s{0,4}")
# "(a) The first value is 3.", "**Part b:** 5"
_PASSAGE = re.compile(
    r"(?:^|\n|(?<=[.;,:] ))[\s*#>-]{0,6}(?:Part |Question )?"
    r"(?:[(（](?P<inner>[a-fA-F1-6]|I{1,3}|i{1,3})[)）]|(?<=Part )(?P<bare>[a-fA-F1-6])|(?P<open>[a-f])\))"
    r"[\s*.:：]{0,4}"
)
PASSAGE_CHARACTERS = 4_000
"""How much of a completion's end may be its labelled passages."""


def in_boxes(
    completion: str, references: Sequence[Reference], compare: Callable[[Reference, str], Grade]
) -> Grade | None:
    """The grade of an answer that has a box for each part of a reference, such as "(I) 2; (II) x + 1", in its order.

    None where the reference has no parts, or a box is another.
    """
    for reference in references:
        parts = [part.strip(" ;,.") for part in _PART_LABEL.split(reference.given)]
        if len(parts) < 3 or parts[0] or len(parts) > MAX_PARTS + 1:
            continue
        boxes = boxes_in(completion)[-len(parts) + 1 :]
        expected = [Reference.read(part) for part in parts[1:]]
        if len(boxes) == len(expected) and all(
            one.fault is None and compare(one, box).correct for one, box in zip(expected, boxes, strict=True)
        ):
            return Grade(Verdict.CORRECT, "; ".join(boxes), reference.given, None, Stage.STRUCTURE)
    return None


def in_passages(
    completion: str, references: Sequence[Reference], compare: Callable[[Reference, str], Grade]
) -> Grade | None:
    """The grade of an answer with a labelled passage for each part of a reference: "(a) ... 3. (b) ... 5."; else None.

    The passages are those from the last first label on, and the reference is labelled or a list of as many items.
    """
    text = completion[-PASSAGE_CHARACTERS:]
    labels = list(_PASSAGE.finditer(text))
    first = next((place for place in reversed(range(len(labels))) if _label(labels[place]) in ("a", "1", "i")), None)
    labels = labels[first:] if first is not None else []
    if not 1 < len(labels) <= MAX_PARTS:
        return None
    ends = [*(following.start() for following in labels[1:]), len(text)]
    passages = [final_answer(text[label.end() : end]) for label, end in zip(labels, ends, strict=True)]
    said = [passage.text for passage in passages if passage is not None]
    for reference in references if len(said) == len(labels) else ():
        parts = _PART_LABEL.split(reference.given) if _PART_LABEL.match(reference.given) else None
        parts = parts[1:] if parts is not None else re.split(r"[;,]\s", reference.text)
        expected = [Reference.read(part.strip(" ;,.")) for part in parts]
        if len(expected) == len(said) and all(
            one.fault is None and compare(one, answer).correct for one, answer in zip(expected, said, strict=True)
        ):
            return Grade(Verdict.CORRECT, "; ".join(said), reference.given, None, Stage.STRUCTURE)
    return None


def _label(match: re.Match[str]) -> str:
    return (match["inner"] or match["bare"] or match["open"]).lower()


def in_a_sentence(said: Statement, references: Sequence[Reference], options: Options) -> Grade | None:
    """The grade of an answer that says the parts of a reference one by one: "The quotient is 4, the remainder 3" for
    ``4, 3``; else None. The last sentence must have these values alone, in this order.
    """
    values = values_in_last_sentence(said.before[-PART_CHARACTERS:] + said.text + said.after[:PART_CHARACTERS])
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
