"""Yes and no, true and false, in the languages that users write in: as an answer, and as what a text says."""

from __future__ import annotations

import re

from math_reward.grader.words.doubts import says

_YES = "yes true ja oui sí sim да 是 是的 はい 예 네 evet نعم हाँ हां đúng"
_NO = "no false nein non não нет 否 不是 いいえ 아니요 hayır لا नहीं không"
_TRUTHS = {
    **dict.fromkeys(f"{_YES} si y t верно 对 正确".split(), True),
    **dict.fromkeys(f"{_NO} n f неверно 不 错 错误 sai".split(), False),
}
WORD = "|".join(sorted({*_YES.split(), *_NO.split()}, key=len, reverse=True))
"""The words that mean yes or no wherever they stand, as a part of a pattern that ignores case."""
_DRESS = re.compile(r"\\text\s?\{([^{}]*)\}")
SAID = re.compile(rf"(?<![\w'])(?:{WORD})(?!\w)(?=\]|\s?[.,;:!—–。，、،।！]|\W{{0,3}}\Z)", re.IGNORECASE)
# "No, it has none" and not "Yes and no", "No, wait".
_FIRST = re.compile(rf"(?:\\text ?\{{ ?)?(?P<word>{WORD})(?: ?\}})? ?[,.;:—–，،。।]", re.IGNORECASE)
# "Yes, it is not" contradicts itself.
_SHORT_SENTENCE = re.compile(
    r"[ }]*(?:it|that|this|he|she|they|there|we|you)[ }]*(?:is|are|was|were|does|do|did|can|will|has|have)( not"
    r"|n't)?[ .}]*",
    re.IGNORECASE,
)
_STATEMENT = re.compile(
    r"\b(?:statement|claim|proposition|assertion|series|limit|sequence|integral)\b[^.\n]{0,20}?"
    r"\b(?P<truth>is (?:not )?(?:true"
    r"|false|correct|incorrect)|holds|does not hold|does not exist|exists|converges|diverges)[.\s]{0,3}\Z",
    re.IGNORECASE,
)
# "So yes." and not "It would be wrong to say no."
_CONCLUDES = re.compile(r"(?:^|[.!?:;,\n—–。，]|\b(?:so|thus|hence|therefore))\Z", re.IGNORECASE)
STATED_CHARACTERS = 3_000
"""How much of a text's end may say yes or no."""


def truth(text: str) -> bool | None:
    r"""Whether an answer is a yes (``\text{True}``, はい) or a no; None if it is neither."""
    plain = _DRESS.sub(r"\1", text).lstrip(" $*\"'`").rstrip(" $.*\"'`。!").casefold() if len(text) < 40 else ""
    return _TRUTHS.get(plain)


def same_truth(reference: str, answer: str) -> bool | None:
    """Whether a yes or no means the same as the reference; None unless both are such words, one of them whole."""
    expected, said = truth(reference), truth(answer)
    if expected is None or said is None or len(reference.strip()) == len(answer.strip()) == 1:
        return None
    return expected == said


def first_truth(text: str) -> bool | None:
    """The yes or no that a text begins with, if nothing behind it says another or doubts it."""
    first = _FIRST.match(text)
    if first is None or says("yes", text[first.end() :].partition("\n")[0]):
        return None
    words = list(SAID.finditer(text))
    if len(words) > 1 and words[-1].end() > len(text.rstrip(" .}!")) - 1:
        return None
    sentence = _SHORT_SENTENCE.fullmatch(text, first.end())
    is_yes = truth(first["word"])
    return None if sentence is not None and (sentence[1] is None) != is_yes else is_yes


def is_doubted(text: str) -> bool:
    """Whether a text doubts or corrects what it says."""
    return says("truth", text) is not None


def stated_truth(text: str) -> bool | None:
    """What a text says that begins or ends with yes or no, or says of a statement that it is true; None if it says
    neither, both, or doubts it.
    """
    text = text[-STATED_CHARACTERS:].strip()
    words = list(SAID.finditer(text))
    values = {truth(word[0]) for word in words}
    if is_doubted(text) or len(values) > 1:
        return None
    at_end = bool(words) and words[-1].end() > len(text) - 4
    if words and (
        words[0].start() < 4 or (at_end and _CONCLUDES.search(text[: words[-1].start()][-40:].rstrip(" *")))
    ):
        return values.pop()
    statement = _STATEMENT.search(text[-120:]) if not words else None
    if statement is None:
        return None
    said = statement["truth"].lower()
    return ("not " in said) == any(word in said for word in ("false", "incorrect", "diverges"))
