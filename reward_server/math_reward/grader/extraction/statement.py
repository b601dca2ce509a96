r"""Finds the final answer of a completion: the content of its last box, or else what its last words state.

In lenient mode the text in the last ``<answer>`` tags is the completion.
"""

from __future__ import annotations

import dataclasses
import re

from math_reward.grader.extraction.around import percent_of, sign_of
from math_reward.grader.extraction.bare import is_bare
from math_reward.grader.extraction.boxes import BOX, Statement, last_boxes
from math_reward.grader.extraction.document import json_value, plain, shown, undressed, with_boxes, without_code
from math_reward.grader.extraction.phrases import last_match, last_phrase
from math_reward.grader.extraction.prose import announced, answer_in, emphasised
from math_reward.grader.extraction.special_tokens import EMPHASIS, SPECIAL_TOKEN
from math_reward.grader.extraction.thoughts import answering
from math_reward.grader.verdict import Mode
from math_reward.grader.words.doubts import VALUE, begins, says
from math_reward.grader.words.letters import IN_BRACKETS

SCANNED_CHARACTERS = 100_000
"""How much of a completion's end is searched for a box."""
END_CHARACTERS = 3_000
"""How much of the end is searched for an answer that is not in a box."""
_TOKENS = re.compile(SPECIAL_TOKEN)
# The end of the closing tag may be cut off.
_TAG = re.compile(r"<(?:final_)?answer>(.{1,2000}?)</(?:(?:final_)?answer>|[a-z_]{0,12}\Z)", re.IGNORECASE | re.DOTALL)
_FENCE = re.compile(r"```\w{0,12}")
_BULLET = re.compile(r"(^|\n)[ \t]{0,8}[-*•][ \t]{1,4}(?=\S)")
_REASON_IN_BOX = re.compile(r"(?<=[\w)\]}$%]),? ?\\text ?\{,? ?(?:since|because)\b")
_OPENED = re.compile(rf"(?:{BOX.pattern}|<\|begin_of_box\|>)[\s\"'`*_“「$]*\Z")
_CLOSED = re.compile(r"[\s\"'`*_”」$]*(?:\}|<\|end_of_box)")
# "To finish we add the 8 sides. So the number of diagonals is 28." behind a box
_CONCLUDED = re.compile(
    r"\b(?:so|hence|thus|therefore|conclusion|leaves|in fact|i get|i go with|but|bleibt|donc|c'est|quindi|portanto"
    r"|entonces|это)\b(?:[^.!?\n]{0,70}?(?:\b(?:is|are|gives?|gets?|be|pays?|makes?|est|ist|es|é|è)|[=:]))?"
    + VALUE
    + r"[\s$\\)*]{0,6}[^\W\d_]{0,12}[\s.!*$]{0,4}$"
    r"|(?:应为|正しくは|実際は)" + VALUE.replace("<value>", "<other>") + r"[\s$\\)*。.]{0,6}(?:です)?[。.]?$",
    re.IGNORECASE,
)
# "The answer is 42. Wait, no, it should be 43."
_CORRECTION = re.compile(
    r"\W{0,6}(?:(?:wait|actually|sorry|no|correction|oops|hmm|i mean"
    r"|i made (?:a mistake|an error)|i was wrong)[,:.!\s]{1,3}){1,3}"
    r"(?:(?:it|that|this|is|should be|must be|i mean|the answer)[,:\s]{1,3}){0,4}"
    + VALUE
    + r"(?=[\s$\\)*]{0,6}(?:[.!](?!\d)|\Z))",
    re.IGNORECASE,
)
_PLAIN = re.compile(r"[-$\\]{0,3}[\d,.]+")
_CLAUSE_END = re.compile(r"[\s$\\)*]{0,6}(?:[.\n]|\Z)")
CONCLUSION_CHARACTERS = 300
"""A text behind a box that is longer than this is another subject."""


def final_answer(completion: str, mode: Mode = Mode.LENIENT) -> Statement | None:
    r"""The final answer of a completion, or None if it has none.

    Thoughts and what follows the next message of the user do not count (`answering`). A box that is never closed was
    cut off, so there is no answer.
    """
    return stated_in(shown(answering(completion, None)[-SCANNED_CHARACTERS:]), mode)


def stated_in(text: str, mode: Mode) -> Statement | None:
    """Like `final_answer`, for a text without thoughts, comments and programs."""
    tag = last_match(_TAG, text, max(0, len(text) - END_CHARACTERS)) if mode is Mode.LENIENT else None
    if tag is not None and tag[1].strip() and not BOX.search(text, tag.end()) and "begin_of_box" not in text:
        text = tag[1].strip()  # What stands last counts; a box in it is the answer.
    boxed = last_boxes(text if mode is Mode.STRICT else with_boxes(text))
    if boxed is not None:
        content = json_value(boxed.text) if boxed.text[:2] == '["' else None
        content = content or _without_phrase(undressed(_without_reason(boxed.text)))
        content = content and content + percent_of(boxed)
        return dataclasses.replace(boxed, text=_signed(sign_of(boxed), content)) if content else None
    if mode is Mode.STRICT or BOX.search(text):
        return None
    text = without_code(_FENCE.sub("\n", text) if "```" in text else text)
    text = plain(_TOKENS.sub(" ", text).strip()[-END_CHARACTERS:]).strip()
    answer = answer_in(EMPHASIS.sub(r"\1", text), emphasised(text))
    if not answer:
        return None
    before, _, after = text.rpartition(answer)
    return Statement(answer, boxed=False, before=_BULLET.sub(r"\1", before), after=after)


def _without_reason(text: str) -> str:
    r"""A box's content up to its reason, ``42\text{ since }6\cdot7=42``, its paragraphs as a list."""
    text = _REASON_IN_BOX.split(text, maxsplit=1)[0]
    lines = [line.strip() for line in text.split("\n\n")] if "\n\n" in text and "\\begin" not in text else []
    return ", ".join(filter(None, lines)) if lines and all(map(is_bare, filter(None, lines))) else text


def _without_phrase(text: str) -> str:
    r"""The answer in a box that repeats its phrase: ``\text{The answer is B}``."""
    words = re.fullmatch(r"\\text\s?\{([^{}]*)\}", text)
    plain = text if words is None else words[1]
    phrase = last_phrase(plain) if " " in plain and "\\" not in plain else None
    return text if phrase is None or phrase.start() > 4 else announced(plain, phrase) or text


def _signed(sign: str, text: str) -> str:
    return text if not sign else f"-{text}" if text.replace(".", "", 1).isalnum() else f"-({text})"


def span_of(said: Statement, text: str, start: int) -> tuple[int, int] | None:
    """Where an answer stands in its completion: its first character and the one after its last, the box's braces not
    among them. None where it is put together from several places, or stands there in other words.

    Args:
        said: of `stated_in`.
        text: the same, with comments and programs.
        start: where that text begins in the completion.
    """
    begin, end = max(0, len(text) - SCANNED_CHARACTERS), len(text)
    while said.text and (place := text.rfind(said.text, begin, end)) >= 0:
        after = place + len(said.text)
        is_in_box = _OPENED.search(text, max(begin, place - 80), place) and _CLOSED.match(text, after)
        if not said.boxed or is_in_box:
            return start + place, start + after
        end = after - 1
    return None


def later_answer(said: Statement) -> str | None:
    """Another answer that the text after an answer states: "... The answer is 43."; None if it states none."""
    text = _TOKENS.sub(" ", said.after[:END_CHARACTERS])
    if not said.boxed:
        return _other_number(said.text, text)
    if (other := begins("another", text) or says("corrected", text[:400])) is not None:
        return other["value"]
    if len(text) <= CONCLUSION_CHARACTERS and (concluded := _CONCLUDED.search(text.rstrip())) is not None:
        return concluded["value"] or concluded["other"]
    phrase = last_phrase(text)
    stated = None if phrase is None else announced(text, phrase)
    if not stated or not is_bare(stated) or not re.search(r"\d|^[A-J]$", stated):
        return None
    is_letter = IN_BRACKETS.fullmatch(stated) is not None
    has_letter = any(letter in said.text for letter in "ABCDEFGHIJ")
    return stated if is_letter == has_letter else None  # A choice's letter and its value are no two answers.


def _other_number(answer: str, after: str) -> str | None:
    """Another number that the text behind an answer without a box gives in its place: "Wait, no, 43.", "or 43"."""
    other = _CORRECTION.match(after)
    if other is None:
        other = begins("another", after)
        is_like = _PLAIN.fullmatch(answer) is not None and other is not None and "." not in other["value"]
        other = other if other is not None and is_like and _CLAUSE_END.match(after, other.end()) else None
    if other is None or not any(map(str.isdigit, answer)):
        return None  # A choice's letter and its value are no two answers.
    value = other["value"]
    return None if re.search(rf"(?<![\d.]){re.escape(value)}(?![\d.])", answer) else value


def last_boxed(text: str) -> str | None:
    """The content of the last boxes; None if no box is closed."""
    boxed = last_boxes(text[-SCANNED_CHARACTERS:])
    return None if boxed is None else boxed.text
