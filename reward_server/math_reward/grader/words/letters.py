"""The letters of choices, alone, with their text and in a sentence: "(B)", "option B", "A and C", "B. 72"."""

import re

from math_reward.grader.words.doubts import begins, says
from math_reward.grader.words.truth import SAID, WORD, truth

_AT_END = re.compile(
    r"(?:\b(?:it's|it\s+is|is|be|choose|pick|select|go(?:ing)? with|[Hh]ence|[Tt]hus|leav(?:es|ing)"
    r"|[Oo]ption|[Cc]hoice|[Aa]nswer|[Aa]ntwort|[Rr]éponse|[Rr]espuesta|[Rr]isposta|[Oo]pci[óo]n|[Oo]pção|[Aa]lternativa"
    r"|(?:[Rr]ichtig|[Kk]orrekt)e?(?:\s\w+)?\s(?:ist|:))|选项|选择?|是|为)"
    r"\s*[:：–—-]?\s*[(\[]?(?P<letter>[A-J])[)\]]?\s*"
    r"(?:[.)。]|$|,? ?(?:because|since|denn|da|car|porque)\b|是正确|正确|is correct)"
)
_SEVERAL_AT_END = re.compile(
    r"\b(?:is|are|be|choose|select)\s((?:\([A-J]\),? (?:and |und |et |y )?){1,8}\([A-J]\))[.!\s]{0,3}$"
)
_SEVERAL = re.compile(r"\(?[A-J]\)?(?:(?:,|、|，|&|,? and) ?(?:and )?\(?[A-J]\)?(?![a-zA-Z]))+")
_IS_CORRECT = re.compile(
    r"(?<![\w\\])[(\[]?(?P<letter>[A-J])[)\]]?(?: is (?:the )?(?:correct|right|best)\b[^.\n]{0,30}|选项|(?:是"
    r"|选项)?正确的?)[.!。]?\s*$"
)
_AT_START = re.compile(r"[(\[]?(?P<letter>[A-J])[)\]]?(?:(?:[.,:)]|$)(?:\s|$)|\s(?=is (?:the )?(?:correct|right)\b))")
IN_BRACKETS = re.compile(r"\**\(?(?P<letter>[A-J])\)?\**(?:[.)]\**)?")
WITH_VALUE = re.compile(r"\(?[A-J]\) ?(?:[^A-Za-z]{1,60}|\$[^$]{1,60}\$)")
WITH_TEXT = re.compile(r"(?:\([A-J]\)|[A-J][.):])\s+\S")
"""A choice with its text, which may be no mathematics: "B. 720°"."""
# "(A) 56", "A) 56", "A. 56", "A：56"
MARK = re.compile(
    r"(?<![\w\\^_$(])(?:[(\[]\s?(?P<inner>[A-Ja-j])\s?[)\]]|(?P<letter>[A-Ja-j])(?:\)|[.:](?=\s|[-$\\\d])|[．、：]))[.:]?\s?"
)
_TEXT = r"(?:\\(?:text|math)\w*\s?\{)?"
_NAMED_ALONE = re.compile(_TEXT + r"[\s*]*(?:(?:[Oo]ption|[Cc]hoice)[ _])?[(\[]?\s?([A-Ja-j])\s?[)\]]?[\s.*:}]*")
_NAMED_WITH_TEXT = re.compile(
    _TEXT + r"\s*(?P<named>(?:[Oo]ption|[Cc]hoice)[ _])?"
    r"(?:[(\[]\s?([A-Ja-j])\s?[)\]][.:,]?"
    r"|([A-Ja-j])\s?(?:[).:,：．、]|(?=(?:\\left\s?|\\text\s?\{\s?)?[(（])|(?(named)\s|(?!))))[\s*}]*(\S(?:.*[^\s.*}])?)[\s.*}]*",
    re.DOTALL,
)
_READ_WITH_TEXT = re.compile(
    _TEXT + r"\s?(?:(?:[Oo]ption|[Cc]hoice)[ _])?(?:\(\s?([A-Ja-j])\s?\):?|([A-J])\s?[.):])[}\s]{1,4}(\S.*)"
)
_WRAPPED = re.compile(r"\\(?:text|math)[a-z]*\s?\{([^{}]*)\}|\*\*")
_SPACE = re.compile(r"(?:[\s~]|\\[ ,;:!]|\\q?quad(?![a-z]))+")
_NAME = r"(?:(?:which is|i\.e\.,?|answer|[Oo]ption|[Cc]hoice) ){0,3}"
# "B (42)"; "42 (B)", "42 (option B)" and "42, option B"
_TEXT_BEHIND = re.compile(rf"{_NAME}([A-J]) \(([^()]{{1,100}})\)\.?")
_LETTER_BEHIND = re.compile(
    rf"([^()]{{1,100}}?)(?: \((?P<named>{_NAME})([A-J])\)|(?:,| —| –| -) {_NAME}(?:[Oo]ption|[Cc]hoice) ([A-J]))\.?"
)
_OTHER = re.compile(
    r"(?:\W|\b(?:or|and|maybe|perhaps|possibly|also|actually|option|choice|too|as well|works)\b|\b[A-J]\b){1,40}", re.I
)
_LETTER = re.compile(r"\b[A-J]\b")
_PAIR = re.compile(r"(?:[,;]|\band|\bor) ?\(?([A-J])\)?[.:]? \(")
_WHOLE = re.compile(r"\b(?:all|both|none|neither|above)\b", re.I)
# Each piece begins in its own way, and a command ends with its word: only so there is one way to divide a text.
_LETTERS = re.compile(
    r"(?:[\s(\[,、，;&.){}\]*$]|\\text\w*\b|and|und|y|et|和|[A-J](?![A-J]))*(?:\\text\w*)?[A-J][\s).,}\]*$]*"
)
_REPEATED = re.compile(r"([A-J])\1{3,9}")
_JOINED = re.compile(r"[A-J]{2,10}")
MAX_LETTERS = 300
"""A longer text is no list of letters."""
# Behind "the answer is"
_ARTICLE = re.compile(r"^(?:the|la|el|le|die|der|das|l['’])\s?(?=[A-J]\W*$)")
_SAID = re.compile(r"\(?[A-J]\)?|\(?[a-j]\)")
_STATED = re.compile(
    r"(?!I [a-z])(?:\((?=[A-J](?:[\s:.,)是正选，、：]|$))|(?=[A-J](?:[,:.)是正选，、：]| [a-z])))(?P<letter>[A-J])"
)
_OR = re.compile(r"\(?[A-J]\)?,? or\b")
# What follows the letter of a choice is what it says: no other letter.
_ANOTHER = re.compile(r"\bor\b|\([A-J]\)")
# "D) I, III and IV": no other letter of a choice.
_ROMAN_ONE = re.compile(r"(?<=[ ,(])I(?![a-zA-Z.)])|(?<=[ ,(])IV(?![a-zA-Z])")
YES_OR_NO = re.compile(
    rf"[\[({{\"“]{{0,2}}(?P<word>{WORD}|si)(?!\w)[\])}}\"”]{{0,2}}\s?(?:[.,!:;—–-]|，|،|।|。|$)", re.IGNORECASE
)


def choice_stated(sentence: str) -> str | None:
    """The choice or choices that a sentence behind "the answer is" begins with; None if it begins with none, empty if
    it goes on with another one.
    """
    sentence = _ARTICLE.sub("", sentence)
    if _SAID.fullmatch(sentence):
        return sentence.strip("()")
    if (several := _SEVERAL.match(sentence)) is not None:
        return several[0]
    if _OR.match(sentence):
        return sentence
    letter = _STATED.match(sentence)
    return None if letter is None else "" if says("choice", sentence, letter.end("letter")) else letter["letter"]


def last_choice(text: str) -> str | None:
    """The letter of a choice in the last words of a text, or several in brackets."""
    if (several := _SEVERAL_AT_END.search(text[-60:])) is not None:
        return ", ".join(re.findall(r"[A-J]", several[1]))
    choice = _AT_END.search(text[-60:]) or _IS_CORRECT.search(text[-80:])
    if choice and not says("number", text[-60:][: choice.start("letter")]) and "n't be" not in text[-60:]:
        return choice["letter"]
    return None


def first_word(text: str) -> str | None:
    """A choice's letter, those of several, yes or no at the start of a short text."""
    if len(text) <= 120 and (several := _SEVERAL.match(text)) is not None:
        return several[0]
    if (
        "\n" not in text.strip()
        and len(text) <= 120
        and (choice := _AT_START.match(text) or YES_OR_NO.match(text))
        and not begins("number-after", text, choice.end(1))
        and not says("choice", text, choice.end(1))
        and len({truth(said[0]) for said in SAID.finditer(text)}) < 2  # not "No, wait. Yes."
        and f" {chr(ord(choice[1][0]) + 1)}. " not in text[choice.end(1) :]  # A list of the choices.
    ):
        return choice[1]
    return None


def is_joined(text: str) -> bool:
    """Whether a text is letters in their order, ACD: DCBA is a word, or a rectangle."""
    return _JOINED.fullmatch(text) is not None and sorted({*text}) == [*text]


def letters(text: str, *, joined: bool = False) -> frozenset[str] | None:
    """The letters of several choices, "(A), (C)" or, with ``joined``, "AC"; None if the text is something else."""
    if joined and is_joined(text):
        return frozenset(text)
    is_list = len(text) < MAX_LETTERS and _LETTERS.fullmatch(text)
    found = re.findall(r"(?<![a-zA-Z])[A-J](?![a-zA-Z])", text) if is_list else []
    return frozenset(found) if found else None


def letter_of(mark: re.Match[str]) -> str:
    """The letter of a `MARK`."""
    return mark["inner"] or mark["letter"]


def named(text: str) -> tuple[str, str] | None:
    """A letter and what stands behind it; None if a text does not begin with one. Some prompts ask for the letter five
    times: EEEEE.
    """
    if (repeated := _REPEATED.fullmatch(text)) is not None:
        return repeated[1], ""
    if alone := _NAMED_ALONE.fullmatch(text):
        return alone[1], ""
    both = _NAMED_WITH_TEXT.fullmatch(text)
    return None if both is None else (both[2] or both[3], both[4])


def with_text_in_brackets(text: str) -> tuple[str, str] | None:
    """A letter and its text, "B (42)"; None for another text."""
    both = _TEXT_BEHIND.fullmatch(_bare(text))
    return None if both is None else (both[1], both[2])


def behind_text(text: str, *, is_named: bool = False) -> tuple[str, str] | None:
    """A letter behind its text and the text, "42 (B)" or "42, option B"; None for another text, and where ``is_named``
    asks for it for one without a word such as "option".
    """
    both = _LETTER_BEHIND.fullmatch(_bare(text))
    if both is None or (is_named and not (both["named"] or both[4])):
        return None
    return both[3] or both[4], both[1].strip()


def _bare(text: str) -> str:
    """``text`` without bold and commands for text, and with one kind of white space and of round brackets."""
    return _SPACE.sub(" ", _WRAPPED.sub(r"\1", text).replace("（", " (").replace("）", ")")).strip()


def others(text: str, of_choice: str) -> set[str]:
    """The letters that a text behind a choice offers beside it, "or C" and "42), C (44": none where the choice speaks
    of others.
    """
    text = _bare(text)
    found = set(_LETTER.findall(text)) if _OTHER.fullmatch(text) else set(_PAIR.findall(text))
    return set() if _WHOLE.search(of_choice) else found - set(_LETTER.findall(of_choice))


def with_text(text: str) -> tuple[str, str] | None:
    """A letter and its text, "(C) 42", in one spelling; None for another text, or one with another letter."""
    choice = _READ_WITH_TEXT.fullmatch(_ROMAN_ONE.sub("1", text) if "II" in text else text)
    if choice is None or _ANOTHER.search(choice[3]):
        return None
    return choice[1] or choice[2], choice[3]
