r"""Finds the boxes in a completion: ``\boxed{...}``, ``\fbox{...}`` and GLM's ``<|begin_of_box|>...<|end_of_box|>``.

The work is bounded, however long the text is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from math_reward.grader.words.doubts import is_all

MAX_BOXES = 64
"""How many boxes, counted from the end, are looked at."""
MAX_GAP = 60
"""Two boxes with more characters between them are never one answer."""

# "\\boxed" with a doubled backslash (LaTeX escaped once too often) contains "\boxed", so it is found too.
_COMMAND = r"\\(?:boxed|fbox|framebox|beginboxed)\s*(?:\[[^\[\]]{0,20}\]){0,2}"
BOX = re.compile(_COMMAND + r"\{")
_OPEN_BOX = re.compile(_COMMAND + r"(?=\{)")
# An escaped brace is text.
_BRACE = re.compile(BOX.pattern + r"|\\[{}]|[{}]")
_TOKEN_BOX = re.compile(r"<\|(begin|end)_of_box\|>")
_PART = r"\\text\s*\{\s*(?:for|in)? ?part \(?[a-h]\)?,? (?:and|,)\s*\}"
_FILLER = r"(?:[\s$.]|\\[,;: ()\[\]]|\\q?quad(?![a-z])|\b(?:and|the|for|in|part)\b|\(?\b[a-h]\)|&)*"
_SEPARATOR = re.compile(
    r"(?:[ \t$~|]|\\[,;:! ]|\\q?quad(?![a-z]))*|[\s$]*(?:\\[()\[\]]|\\q?quad(?![a-z])|\s)*"
    r"(?:[,;]|(?P<alternative>,?\s*(?:\bor\b|\\text\s*\{\s*or\s*\}))"
    rf"|{_PART}"
    r"|,?\s*(?:\band\b|&|\\text\s*\{\s*,?\s*and\s*\}))" + _FILLER
)
_EQUATED = re.compile(r"[\s$]{0,4}==?[\s$]{0,4}")
_APPROXIMATE = re.compile(r"[\s$]{0,4}(?:\\approx|≈|\\simeq|~)")


@dataclass(frozen=True)
class Statement:
    """A final answer as the completion states it."""

    text: str
    boxed: bool
    r"""True for the content of a ``\boxed{...}`` or ``\fbox{...}``, False for an answer found in prose."""
    alternatives: bool = False
    """True if the completion offers several boxes as alternatives: ``\\boxed{1}`` or ``\\boxed{2}``."""
    before: str = field(default="", compare=False)
    """The text before a single answer, which may equate it with something else."""
    after: str = field(default="", compare=False)
    """The text after it."""


def last_boxes(text: str) -> Statement | None:
    """What the last box and the boxes joined to it state, inner boxes unwrapped; None if no box is closed.

    Boxes with nothing but commas or "and" between them are one answer: ``\\boxed{1}, \\boxed{2}`` is ``1, 2``.
    A box that holds an approximation belongs to the box before it: √2 ≈ 1.414.
    """
    if "begin_of_box" in text:
        text = _TOKEN_BOX.sub(lambda token: r"\boxed{" if token[1] == "begin" else "}", text)
    if "box" not in text:
        return None
    boxes = _closed_boxes(text)
    if not boxes:
        return None
    alternatives = False
    first = len(boxes) - 1
    while first > 0 and (joined := _joined(text[boxes[first - 1][2] + 1 : boxes[first][0]])) is not None:
        alternatives = alternatives or joined
        first -= 1
    contents = [_OPEN_BOX.sub("", text[begin:end]).strip() for _, begin, end in boxes[first:]]
    if first > 0 and len(contents) == 1 and _EQUATED.fullmatch(text[boxes[first - 1][2] + 1 : boxes[first][0]]):
        _, begin, end = boxes[first - 1]
        contents = [f"{_OPEN_BOX.sub('', text[begin:end]).strip()} = {contents[0]}"]
        first -= 1
    gap = text[boxes[first - 1][2] + 1 : boxes[first][0]] if first else ""
    if len(contents) == 1 and first > 0 and (_APPROXIMATE.match(contents[0]) or _APPROXIMATE.match(gap)):
        _, begin, end = boxes[first - 1]
        contents = [_OPEN_BOX.sub("", text[begin:end]).strip() + r" \approx " + _APPROXIMATE.sub("", contents[0])]
        first -= 1
    contents = list(dict.fromkeys(contents))
    around = (text[: boxes[first][0]], text[boxes[-1][2] + 1 :]) if len(contents) == 1 else ("", "")
    return Statement(", ".join(contents), True, alternatives, *around)


def boxes_in(text: str) -> list[str]:
    """What each of the last boxes holds, inner boxes unwrapped."""
    return [_OPEN_BOX.sub("", text[begin:end]).strip() for _, begin, end in _closed_boxes(text)]


def _closed_boxes(text: str) -> list[tuple[int, int, int]]:
    """For each closed box that is in no other: where it begins, where its content begins and where that ends."""
    starts = [match.start() for match in BOX.finditer(text)][-MAX_BOXES:]
    opened: list[tuple[int, int] | None] = []  # for each open brace where its box and content begin, if it has one
    boxes: list[tuple[int, int, int]] = []
    for match in _BRACE.finditer(text, starts[0]) if starts else ():
        token = match[0]
        if token == "{":
            opened.append(None)
        elif token == "}":
            box = opened.pop() if opened else None
            if box is not None:
                while boxes and boxes[-1][0] > box[0]:
                    boxes.pop()
                boxes.append((*box, match.start()))
        elif len(token) > 2:
            opened.append((match.start(), match.end()))
    return boxes


def _joined(gap: str) -> bool | None:
    """Whether the text between two boxes joins them: None if not, True for "or"."""
    # Without the bound the pattern could try every way to divide the white space, which takes long.
    match = _SEPARATOR.fullmatch(gap) if len(gap) <= MAX_GAP else None
    if match is not None:
        return match["alternative"] is not None
    return True if len(gap) <= MAX_GAP and is_all("boxes", gap) else None
