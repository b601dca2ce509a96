"""Yes and no, true and false, in the languages that users write in: as an answer, and as what a text says."""

from __future__ import annotations

import re

_WORDS = {
    True: "yes true y t ja oui si sí sim da да верно 是 是的 对 正确 はい 예 네 evet đúng",
    False: "no false n f nein non não нет неверно 否 不是 不 错 错误 いいえ 아니요 hayır sai",
}
_TRUTHS = {word: value for value, words in _WORDS.items() for word in words.split()}
_DRESS = re.compile(r"\\text\s?\{([^{}]*)\}")
SAID = re.compile(
    r"(?<![\w'])(?:yes|no|true|false|ja|nein|oui|non|sí|sim|não|да|нет|是的?|不是|否|はい|いいえ|예|네|아니요)(?!\w)"
    r"(?=\s?[.,;:!—–。，、！]|\W{0,3}\Z)",
    re.IGNORECASE,
)
_STATEMENT = re.compile(
    r"\b(?:statement|claim|proposition|assertion|series|limit|sequence|integral)\b[^.\n]{0,20}?"
    r"\b(?P<truth>is (?:not )?(?:true"
    r"|false|correct|incorrect)|holds|does not hold|does not exist|exists|converges|diverges)[.\s]{0,3}\Z",
    re.IGNORECASE,
)
_DOUBT = re.compile(
    r"\b(?:wait|actually|however|maybe|perhaps|depends|may|might|unsure|guess|not sure|cannot say|hmm)\b",
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


def stated_truth(text: str) -> bool | None:
    """What a text says that begins or ends with yes or no, or says of a statement that it is true; None if it says
    neither, both, or doubts it.
    """
    text = text[-STATED_CHARACTERS:].strip()
    words = list(SAID.finditer(text))
    values = {truth(word[0]) for word in words}
    if _DOUBT.search(text) or len(values) > 1:
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
