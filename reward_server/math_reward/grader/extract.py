r"""Finds the final answer in a completion, in one linear pass."""

import re
from dataclasses import dataclass

SCANNED_CHARACTERS = 100_000
"""Only the end of a completion is searched for a box: a final answer stands at the end."""

TAIL_CHARACTERS = 2_000
"""How much of the end is searched for an answer that is not in a box."""

# An escaped brace is text, not a brace. A doubled backslash before "boxed" (LaTeX escaped once too often) still
# opens a box.
_BRACES = re.compile(r"\\(?:boxed|fbox)\s*\{|\\(?!\\(?:boxed|fbox)).|[{}]", re.DOTALL)
_BOX = re.compile(r"\\(?:boxed|fbox)\s*(?=\{)")

_SEPARATOR = re.compile(r"[\s$]*(?:[,;]|,?\s*(?:and|\\text\{\s*and\s*\}))(?:[\s$]|\\[,;: ]|\\q?quad)*")


@dataclass(frozen=True)
class Answer:
    """A final answer as the completion has it."""

    text: str
    boxed: bool
    r"""True for the content of a ``\boxed{...}`` or ``\fbox{...}``, False for prose that contains it."""


def final_answer(completion: str) -> Answer | None:
    r"""The final answer of a completion, or None where it has none.

    What comes before the last ``</think>`` does not count. The box that is closed last wins, whatever others say.
    Without any box it is the end of the text; but a box that was opened and never closed is an answer cut off, so
    none.
    """
    text = completion.rpartition("</think>")[2][-SCANNED_CHARACTERS:].strip()
    boxed = last_boxed(text)
    if boxed is not None:
        return Answer(boxed, boxed=True) if boxed else None
    if not text or _BOX.search(text):
        return None
    return Answer(text[-TAIL_CHARACTERS:], boxed=False)


def last_boxed(text: str) -> str | None:
    r"""The content of the ``\boxed{...}`` or ``\fbox{...}`` that is closed last, inner boxes unwrapped, or None.

    Different boxes with nothing but commas or "and" between them are one answer: ``\boxed{1}, \boxed{2}`` is ``1, 2``.
    """
    opened: list[tuple[int, int] | None] = []  # per open brace: where its box and the content begin, None if no box's
    boxes: list[tuple[int, int, int]] = []  # closed, not inside another: where the box, the content and its end are
    for match in _BRACES.finditer(text):
        token = match.group()
        if token == "{":
            opened.append(None)
        elif token == "}":
            box = opened.pop() if opened else None
            if box is not None:
                while boxes and boxes[-1][0] > box[0]:
                    boxes.pop()
                boxes.append((*box, match.start()))
        elif token.endswith("{") and token != r"\{":
            opened.append((match.start(), match.end()))
    if not boxes:
        return None
    first = len(boxes) - 1
    while first > 0 and _is_separator(text[boxes[first - 1][2] + 1 : boxes[first][0]]):
        first -= 1
    contents = [_BOX.sub("", text[begin:end]).strip() for _, begin, end in boxes[first:]]
    return ", ".join(dict.fromkeys(contents))


def _is_separator(gap: str) -> bool:
    # The bound keeps the whole linear: the pattern may try each of the white space's ends.
    return len(gap) <= 40 and _SEPARATOR.fullmatch(gap) is not None
