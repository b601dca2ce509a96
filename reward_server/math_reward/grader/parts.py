"""Answers that are given part by part: a box for each, or a sentence that has them all."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from math_reward.grader.errors import NotMathematics, TooComplex, Undefined
from math_reward.grader.extraction.boxes import Statement, boxes_in
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
