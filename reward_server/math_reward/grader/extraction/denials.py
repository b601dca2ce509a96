r"""Whether a text denies or doubts the answer that it gives, by the words of `DOUBTS`: "\boxed{42}? No.", "not 42".

Such an answer is ambiguous. Only what governs it counts: "statement 2 is false, so \boxed{C}" is an answer.
"""

from __future__ import annotations

import re

from math_reward.grader.extraction.boxes import Statement
from math_reward.grader.words.doubts import begins, says

BEFORE_CHARACTERS = 120
"""How much of the text before a box is looked at."""
LATER_CHARACTERS = 1_000
"""How much of the text after an answer may name it again."""
# "Wait, ... so 42 is not right", and not "fewer than 42 is impossible" or "-42 is wrong"
_AGAIN = (
    r"\b(?:so|wait|hmm|thus|therefore|but|actually|hence|no|reflection)[,.]?\s(?:the (?:answer|number|value)\s)?"
    r"\$?VALUE\$?"
    r"\s(?:(?:is|was) (?:wrong|incorrect|not (?:right|correct|the (?:right |correct )?answer))|(?:cannot|can't) be"
    r" (?:right|correct))\b"
)
# What each text that `_AGAIN` matches has: it has the answer in it, so it is compiled for each, which takes long.
_IS_WRONG = re.compile(r"\b(?:is|was) (?:wrong|incorrect|not )|\b(?:cannot|can't) be ", re.IGNORECASE)
_THAT_IS_WRONG = re.compile(
    r"[.,]?\s(?:that|this|which)(?:'s| is) (?:wrong|incorrect|not (?:right|correct))[.!\s]{0,3}\Z", re.IGNORECASE
)


def taken_back(said: Statement) -> bool:
    """Whether the words next to a box deny or doubt the answer in it."""
    after = said.after[:BEFORE_CHARACTERS]
    return (
        denied_before(said.before)
        or says("case", _sentence_before(said.before)) is not None
        or denied_after(after)
        or begins("box", after) is not None
        or denied_later(said)
    )


def denied_later(said: Statement) -> bool:
    """Whether the text behind an answer takes it back: "Wait, so 42 is not right.", "It is 42. That is wrong." """
    text = said.after[:LATER_CHARACTERS]
    if not said.boxed:
        text = said.before[-LATER_CHARACTERS:] + said.text + text
        if not said.text.isalpha() and _THAT_IS_WRONG.match(said.after):
            return True
    if not _IS_WRONG.search(text):
        return False
    value = re.escape(said.text.strip(" $"))
    return re.search(_AGAIN.replace("VALUE", value), text, re.IGNORECASE) is not None


def denied_before(text: str) -> bool:
    """Whether the sentence that ends here denies or doubts what follows it."""
    return says("before", _sentence_before(text)) is not None


def _sentence_before(text: str) -> str:
    """The sentence at the end of a text, in lower case."""
    before = text[-BEFORE_CHARACTERS:]
    return before[max(before.rfind(end) for end in (". ", "\n", "! ", "? ", "。")) + 1 :].lower()


def denied_after(text: str) -> bool:
    """Whether a text denies what stands before it, or corrects it."""
    after = text[:BEFORE_CHARACTERS]
    return (begins("after", after) or says("later", after)) is not None


def denied_inside(text: str) -> str | None:
    """The words in an answer that deny it, in a language other than English: ``42\\text{は間違い}``."""
    match = says("inside", text) if text.count(" ") or not text.isascii() else None
    return None if match is None else match[0]


def is_denied(text: str, value: re.Match[str], last: re.Match[str] | None = None) -> bool:
    """Whether the text around a value denies or doubts it: "not 42", "more than 42", "42?", "42 is wrong". ``last`` is
    the last of several values.
    """
    return denied_at(text, value.start(), (last or value).end())


def denied_at(text: str, start: int, end: int) -> bool:
    """Whether the text around ``text[start:end]`` denies or doubts it."""
    before = text[max(0, start - 40) : start].rstrip()
    return bool(
        text[end : end + 1] in ("?", "吗")
        or says("chinese", before[-8:])
        or says("number", before + " ")
        or begins("number-after", text, end)
        or is_tried(text[:start])
        or denied_before(text[:start])
        or denied_after(text[end:])
        or says("changed", before + " ")
        or begins("number-changed", text, end)
    )


def is_tried(before: str) -> bool:
    """Whether a text says that what follows it is only tried, excluded or compared with: "It fails for"."""
    return says("tried", before[-60:]) is not None
