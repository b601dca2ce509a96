"""The letter of a choice, and yes or no, at the start or at the end of a text."""

import re

from math_reward.grader.extraction.denials import DENIED_AFTER, DENIED_BEFORE
from math_reward.grader.words.truth import SAID, WORD, truth

_CHOICE = re.compile(
    r"(?:\b(?:it's|it\s+is|is|be|choose|pick|select|go(?:ing)? with|[Hh]ence|[Tt]hus|leav(?:es|ing)"
    r"|[Oo]ption|[Cc]hoice|[Aa]nswer|[Aa]ntwort|[Rr]éponse|[Rr]espuesta|[Rr]isposta|[Oo]pci[óo]n|[Oo]pção|[Aa]lternativa"
    r"|(?:[Rr]ichtig|[Kk]orrekt)e?(?:\s\w+)?\s(?:ist|:))|选项|选择?|是|为)"
    r"\s*[:：–—-]?\s*[(\[]?(?P<letter>[A-J])[)\]]?\s*"
    r"(?:[.)。]|$|,? ?(?:because|since|denn|da|car|porque)\b|是正确|正确|is correct)"
)
_LETTERS = re.compile(
    r"\b(?:is|are|be|choose|select)\s((?:\([A-J]\),? (?:and |und |et |y )?){1,8}\([A-J]\))[.!\s]{0,3}$"
)
SEVERAL_LETTERS = re.compile(r"\(?[A-J]\)?(?:(?:,|、|，|&|,? and) ?(?:and )?\(?[A-J]\)?(?![a-zA-Z]))+")
_LETTER_IS = re.compile(
    r"(?<![\w\\])[(\[]?(?P<letter>[A-J])[)\]]?(?: is (?:the )?(?:correct|right|best)\b[^.\n]{0,30}|选项|(?:是"
    r"|选项)?正确的?)[.!。]?\s*$"
)
_LETTER_FIRST = re.compile(
    r"[(\[]?(?P<letter>[A-J])[)\]]?(?:(?:[.,:)]|$)(?:\s|$)|\s(?=is (?:the )?(?:correct|right)\b))"
)
ANOTHER_LETTER = re.compile(r"\b(?:maybe|perhaps|possibly)(?: be| it is)? \(?[A-J]\b")
LETTER_ALONE = re.compile(r"\**\(?(?P<letter>[A-J])\)?\**(?:[.)]\**)?")
YES_OR_NO = re.compile(
    rf"[\[({{\"“]{{0,2}}(?P<word>{WORD}|si)(?!\w)[\])}}\"”]{{0,2}}\s?(?:[.,!:;—–-]|，|،|।|。|$)", re.IGNORECASE
)


def last_choice(text: str) -> str | None:
    """The letter of a choice in the last words of a text, or several in brackets."""
    if (several := _LETTERS.search(text[-60:])) is not None:
        return ", ".join(re.findall(r"[A-J]", several[1]))
    choice = _CHOICE.search(text[-60:]) or _LETTER_IS.search(text[-80:])
    if choice and not DENIED_BEFORE.search(text[-60:][: choice.start("letter")]) and "n't be" not in text[-60:]:
        return choice["letter"]
    return None


def first_word(text: str) -> str | None:
    """A choice's letter, those of several, yes or no at the start of a short text."""
    if len(text) <= 120 and (several := SEVERAL_LETTERS.match(text)) is not None:
        return several[0]
    if (
        "\n" not in text.strip()
        and len(text) <= 120
        and (choice := _LETTER_FIRST.match(text) or YES_OR_NO.match(text))
        and not DENIED_AFTER.match(text, choice.end(1))
        and not ANOTHER_LETTER.search(text, choice.end(1))
        and len({truth(said[0]) for said in SAID.finditer(text)}) < 2  # not "No, wait. Yes."
        and f" {chr(ord(choice[1][0]) + 1)}. " not in text[choice.end(1) :]  # A list of the choices.
    ):
        return choice[1]
    return None
