r"""Finds the final answer in a completion: the content of its last box, or else what its last words say it is.

One pass from the end, whose work is bounded: the answer stands at the end, however long the text is."""

import re
from collections import deque
from dataclasses import dataclass

from math_reward.grader.verdict import Mode

SCANNED_CHARACTERS = 100_000
"""Only the end of a completion is searched for a box."""
TAIL_CHARACTERS = 3_000
"""How much of the end is searched for an answer that is not in a box."""
MAX_BOXES = 64
"""How many boxes, from the last one backwards, are looked at."""

# "\\boxed" with a doubled backslash (LaTeX escaped once too often) contains "\boxed", so it is found too.
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_OPEN_BOX = re.compile(r"\\(?:boxed|fbox)\s*(?=\{)")
# An escaped brace is text.
_BRACE = re.compile(r"\\(?:boxed|fbox)\s*\{|\\[{}]|[{}]")
_SEPARATOR = re.compile(
    r"[ \t$]*|[\s$]*(?:[,;]|(?P<alternative>,?\s*(?:or|\\text\{\s*or\s*\})\s)|,?\s*(?:and|&|\\text\{\s*,?\s*and\s*\}))"
    r"(?:[\s$]|\\[,;: ()\[\]]|\\q?quad|and|the)*"
)
_SPECIAL_TOKEN = re.compile(r"<\|[^<>|\s]{1,64}\|>|<｜[^<>｜\s]{1,64}｜>|</?s>|<(?:bos|eos|pad|end_of_turn)>")

_PHRASE = re.compile(
    r"""(?:
        (?:final|correct|right|true|actual)\s+(?:answer|solution|result|option|choice)\b
        [^.\n]{0,40}? (?:\bis\b|\bare\b|:|=)
      | \banswers?\b (?:\s+(?:choice|option))? \s*\**\s* (?:\bis\b|\bare\b|\b(?:would|must|should)\s+be\b|:)
      | ^\s*(?:\**\s*)?(?:A|Ans|Answer|Solution|Result)\b\.?\s*\**\s*[:=]
      | ^\s*\**\s*(?:Final\s+)?(?:Answer|Solution|Result)\s*\**\s*(?:\n|(?=[\\$\d]))
      | \#{4}
    )\s*(?:\**\s*)?(?:(?:definitely|clearly|simply|just|therefore|thus|exactly|approximately|about|equal\s+to|indeed|option|choice|:|\()\s*)*""",
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
_FORMULA = re.compile(
    # A dollar sign that a space or a digit gives away is a currency's: "$5 + $6 = $11".
    r"\$\$(?P<display>.+?)\$\$|(?<!\\)\$(?P<inline>(?=\S)(?:[^$\n]|\\\$)+?(?<=[^\s\\])|(?=\s)[^$\n]+?\s)\$(?!\d)|\\\((?P<round>.+?)\\\)|\\\[(?P<square>.+?)\\\]",
    re.DOTALL,
)
_NUMBER = re.compile(
    r"(?<![\w.])(?P<number>[-−–]?\s?\\?[$€£]?\s?(?:\d{1,3}(?:,\d{3})+(?![\d,])(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
    r"(?:\s?/\s?\d+(?:\.\d+)?)?(?:\s?\\?%|\s?percent|\s?°|\^\\circ|\^\{\\circ\})?)"
    # A unit may follow without a space, but no other letter and no more of the number.
    r"(?![.,]?\d)(?=[^a-zA-Z_]|$|(?:[cmk]?m|[km]?[gl]|s|h|ft|in|[ap]m|mph|[KMGkm]?[Bb]|th|st|nd|rd)(?![a-zA-Z]))"
)
# "Question 42" names a question.
_NAMED = re.compile(
    r"(?:question|problem|exercise|step|case|part|example|figure|fig|equation|eq|page|chapter|section|line|item|no|number"
    r"|option|method|approach|version|theorem|lemma|day|q)\.?\s*\#?\s*$",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"\b(?:i\s+)?(?:do\s*n[o']t|don't|cannot|can't|can\s+not|could\s*n[o']t|could\s+not|unable\s+to)\s+"
    r"(?:know|determine|solve|answer|find|tell|say|compute|figure|be\s+(?:determined|solved|found|answered))",
    re.IGNORECASE,
)
# "... 9 + 6 = 15 liters of the 24 liters": the result of the last calculation, unless another clause follows it.
_RESULT = re.compile(r"=\s*")
_CLAUSE = re.compile(
    r"[,;:=]|\b(?:so|then|we|is|are|gives?|gets?|because|since|but|and|thus|hence|which|there)\b", re.IGNORECASE
)
_BETWEEN = re.compile(r"\s*(?:,\s*)?(?:(?P<alternative>or)|and|,)\s*(?=[$\\])|\s*,\s*(?=[$\\])")
# "It is not 42", "42 is wrong": a number that is named to be denied.
_DENIED_BEFORE = re.compile(r"(?:\bnot|n't|\bnever|\bcannot)\s+(?:\w+\s+){0,2}[$\\(]*$", re.IGNORECASE)
_DENIED_AFTER = re.compile(
    r"[$\\)]*\s*(?:is|was|are|were|does|do)?\s*(?:not\b|n't\b|wrong\b|incorrect\b)", re.IGNORECASE
)
_CHOICE = re.compile(
    r"(?:\b(?:it's|it\s+is|is|be|choose|pick|select|option|choice|answer)\s*:?\s*)\(?(?P<letter>[A-J])\)?\s*(?:[.)]|$)",
)
_SENTENCE_END = re.compile(r"(?<=[^\d\s.])\.(?=\s|$)|\.\s*(?=[A-Z][a-z])|\n\s*\n|[!?](?=\s|$)")


@dataclass(frozen=True)
class Answer:
    """A final answer as the completion has it."""

    text: str
    boxed: bool
    r"""True for the content of a ``\boxed{...}`` or ``\fbox{...}``, False for what was found in prose."""
    alternatives: bool = False
    """True where several boxes are offered for choice: ``\boxed{1}`` or ``\boxed{2}``."""


def final_answer(completion: str, mode: Mode = Mode.LENIENT) -> Answer | None:
    r"""The final answer of a completion, or None where it has none.

    What comes before the last ``</think>`` does not count. The last box that is closed is the answer, whatever other
    boxes say. Without any, in lenient mode, it is what follows the last "the answer is", ``####`` or the like, else
    the last formula, else the last number; but a box that was opened and never closed is an answer cut off, so none.
    """
    text = completion.rpartition("</think>")[2][-SCANNED_CHARACTERS:]
    boxes = _last_boxes(text)
    if boxes is not None:
        contents, alternatives = boxes
        return Answer(", ".join(contents), boxed=True, alternatives=alternatives) if any(contents) else None
    if mode is Mode.STRICT or _BOX.search(text):
        return None
    found = _in_prose(_SPECIAL_TOKEN.sub(" ", text).strip()[-TAIL_CHARACTERS:])
    return Answer(found, boxed=False) if found else None


def last_boxed(text: str) -> str | None:
    r"""The content of the last closed ``\boxed{...}`` or ``\fbox{...}``, inner boxes unwrapped, or None.

    Different boxes with nothing but commas or "and" between them are one answer: ``\boxed{1}, \boxed{2}`` is ``1, 2``.
    """
    boxes = _last_boxes(text[-SCANNED_CHARACTERS:])
    return None if boxes is None else ", ".join(boxes[0])


def _last_boxes(text: str) -> tuple[list[str], bool] | None:
    """The contents of the last box and of those joined to it, without repetitions; and whether they are for choice."""
    if "boxed" not in text and "fbox" not in text:
        return None
    starts = [match.start() for match in _BOX.finditer(text)][-MAX_BOXES:]
    boxes = _closed_boxes(text, starts[0]) if starts else []
    if not boxes:
        return None
    alternatives = False
    first = len(boxes) - 1
    while first > 0 and (joined := _joined(text[boxes[first - 1][2] + 1 : boxes[first][0]])) is not None:
        alternatives = alternatives or joined
        first -= 1
    contents = [_OPEN_BOX.sub("", text[begin:end]).strip() for _, begin, end in boxes[first:]]
    return list(dict.fromkeys(contents)), alternatives


def _closed_boxes(text: str, start: int) -> list[tuple[int, int, int]]:
    """Per box that is closed and in no other: where it begins, where its content begins and where that ends."""
    opened: list[tuple[int, int] | None] = []  # per open brace: its box and the content's begin, None if no box's
    boxes: list[tuple[int, int, int]] = []
    for match in _BRACE.finditer(text, start):
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
    # The bound keeps the pattern, which may try each of the white space's ends, from taking long.
    match = _SEPARATOR.fullmatch(gap) if len(gap) <= 40 else None
    return None if match is None else match["alternative"] is not None


def _in_prose(text: str) -> str | None:
    if not text:
        return None
    last = _last(_PHRASE, text)
    if last is not None and text[last.end() :].strip():
        found = _stated(text[last.end() :])
        if found:
            return found
    if _REFUSAL.search(text[-300:]):
        return None
    choice = _CHOICE.search(text[-40:])
    if choice:
        return choice["letter"]
    formula = _last(_FORMULA, text)
    number = _last_number(text)
    last = max((match for match in (formula, number) if match), key=lambda match: match.end(), default=None)
    if last is not None and (
        _DENIED_BEFORE.search(text[max(0, last.start() - 40) : last.start()]) or _DENIED_AFTER.match(text, last.end())
    ):
        return None
    if formula is not None and (number is None or number.start() < formula.end()):
        return _from_formula(formula)
    if number is None or _NAMED.search(text[max(0, number.start() - 24) : number.start()]):
        return None
    return number["number"]


def _last(pattern: "re.Pattern[str]", text: str, start: int = 0) -> "re.Match[str] | None":
    return next(iter(deque(pattern.finditer(text, start), maxlen=1)), None)


def _last_number(text: str) -> "re.Match[str] | None":
    number = _last(_NUMBER, text)
    if number is None:
        return None
    line = text.rfind("\n", 0, number.start()) + 1
    result = _last(_RESULT, text, line)
    calculated = _NUMBER.match(text, result.end()) if result else None
    if calculated and not _CLAUSE.search(text, calculated.end()):
        return calculated
    return number


def _stated(rest: str) -> str | None:
    """The answer at the beginning of what follows "the answer is"."""
    rest = rest.strip()
    formula = _FORMULA.match(rest)
    if formula:
        return _formulas(formula, rest)
    sentence = _SENTENCE_END.split(rest, maxsplit=1)[0].strip().strip("*").strip()
    sentence = sentence.split("\n", 1)[0].strip()
    if len(sentence) > 200:
        return None
    inner = _last(_FORMULA, sentence)
    if inner is not None:
        return _from_formula(inner)
    if re.fullmatch(r"\(?[A-J]\)?", sentence):
        return sentence.strip("()")
    if re.match(r"\(?[A-J]\)[\s:.]", sentence):
        return sentence.lstrip("(")[0]
    words = re.findall(r"[A-Za-z]{2,}", sentence)
    if len(words) <= 4:
        return sentence or None
    number = _last(_NUMBER, sentence)
    return number["number"] if number else None


def _formulas(first: "re.Match[str]", text: str) -> str | None:
    """A formula and those that "or", "and" or commas join to it: "$x = 3$ or $x = 4$" is not $x = 3$."""
    answer = _from_formula(first, tail=text[first.end() :])
    end = first.end()
    while (gap := _BETWEEN.match(text, end)) and (following := _FORMULA.match(text, gap.end())):
        joint = r" \text{ or } " if gap["alternative"] else ", "
        answer = f"{answer}{joint}{_from_formula(following)}"
        end = following.end()
    return answer


def _from_formula(match: "re.Match[str]", tail: str = "") -> str | None:
    content = next((part for part in match.groups() if part is not None), "").strip()
    # "$28$ %" and "$28$ percent" are 28 percent.
    unit = re.match(r"\s*(\\?%|percent\b|pct\b)", tail)
    return f"{content} {unit[1]}" if unit and content else content or None
