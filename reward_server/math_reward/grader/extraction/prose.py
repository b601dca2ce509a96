"""Finds the final answer of a text that has no box: `PLACES` says where it may stand, in the order that counts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from math_reward.grader.extraction.document import json_value, undressed
from math_reward.grader.extraction.phrases import ENDING, FILLER, HOPE, last_match, last_phrase
from math_reward.grader.extraction.values_at_end import (
    DENIED_AFTER,
    DENIED_BEFORE,
    DENIED_IN_CHINESE,
    FORMULA,
    NUMBER,
    formula_text,
    formulas_from,
    is_denied,
    values_at_end,
)
from math_reward.grader.extraction.whole_value import whole_of
from math_reward.grader.words.chinese_numbers import UNITS_AFTER_DIGITS
from math_reward.grader.words.functions import SPELLED, SYMPY_NAMES
from math_reward.grader.words.units import UNITS
from math_reward.grader.words.vocabulary import GREEK

WHOLE_CHARACTERS = 400
"""A longer text is never only an answer."""
_REFUSAL = re.compile(
    r"\b(?:i )?(?:do ?n[o']t|don't|cannot|can't|can not|could ?n[o']t|could not|unable to) "
    r"(?:know|determine|solve|answer|find|tell|say|compute|figure|be (?:determined|solved|found|answered))",
    re.IGNORECASE,
)
_CHOICE = re.compile(
    r"(?:\b(?:it's|it\s+is|is|be|choose|pick|select|go(?:ing)? with|[Oo]ption|[Cc]hoice|[Aa]nswer"
    r"|(?:[Rr]ichtig|[Kk]orrekt)e?(?:\s\w+)?\s(?:ist|:))|选项|选择?)"
    r"\s*[:：–—-]?\s*[(\[]?(?P<letter>[A-J])[)\]]?\s*(?:[.)。]|$|because\b|since\b|是正确|正确|is correct)"
)
_LETTER_IS = re.compile(
    r"(?<![\w\\])[(\[]?(?P<letter>[A-J])[)\]]?(?: is (?:the )?(?:correct|right|best)\b[^.\n]{0,30}|选项|(?:是"
    r"|选项)?正确的?)[.!。]?\s*$"
)
_LETTER_FIRST = re.compile(
    r"[(\[]?(?P<letter>[A-J])[)\]]?(?:(?:[.,:)]|$)(?:\s|$)|\s(?=is (?:the )?(?:correct|right)\b))"
)
_ANOTHER_LETTER = re.compile(r"\b(?:maybe|perhaps|possibly)(?: be| it is)? \(?[A-J]\b")
LETTER_ALONE = re.compile(r"\**\(?(?P<letter>[A-J])\)?\**[.)]?\**")
_YES_OR_NO = re.compile(r"(?P<word>yes|no|true|false)\b(?:[.,!:;]|$)", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[^\d\s.])\.(?=\s|$)|\. ?(?=[A-Z][a-z])|\n\n|[!?。](?=\s|$)|。")
_PROSE_WORD = re.compile(r"(?<!\\)(?<![a-zA-Z])[^\W\d_]{2,}")
_LATEX_WORD = re.compile(r"\\[a-zA-Z]+|(?<=\\begin\{)\w+|(?<=\\end\{)\w+|\\(?:text|mathrm|operatorname)\s?\{[^{}]*\}")
_WORDS_ALONE = re.compile(r"\\text\s?\{[^{}]{1,80}\}")
_VALUE_FIRST = re.compile(r"[\w$\\(){}\[\]+\-−.,/^√π%° ]{0,80}$")
_IDEOGRAPHS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_AFTER_EQUALS = re.compile(r"=([^=\u3040-\u9fff]{1,80})$")
# 小明有6个苹果: one number among words.
_COUNTED = re.compile(
    r"[\u3040-\u9fff]{1,20}(?<!第)"
    rf"(-?\d{{1,12}}(?:\.\d{{1,12}})?(?:/\d{{1,12}}|{UNITS_AFTER_DIGITS})?)(?!{UNITS_AFTER_DIGITS})[\u3040-\u9fff]{{1,8}}"
)
_ARTICLE = re.compile(r"^(?:the|la|el|le|die|der|das|l['’])\s?(?=[A-J]\W*$)")
_REASON = re.compile(r"(?<=[\w)\]}$%]),? \(?(?:since|because|which|i\.e)\b")
_QED = re.compile(
    r"\s{0,4}(?:\$\s?)?(?:\\(?:blacksquare|square|qed|Box|checkmark)(?![a-z{])|[∎■□]|Q\.?E\.?D\.?)(?:\s?\$)?\s{0,4}$"
)
# "15, not 16": the second number is denied.
_CONTRAST = re.compile(r",? (?:and )?not \$?-?[\d.]{1,12}\$?[.!\s]{0,3}$")
_ANSWER_AFTER = re.compile(
    r"(?<![\w.,/])(?P<value>-?\d[\d,]*(?:\.\d+)?(?:/\d+)?) is (?:the|our|my) (?:final "
    r"|correct )?answer\b(?! to)",
    re.IGNORECASE,
)
_TRUTH = re.compile(
    r"(?:^|[.;,\n]\s?|\b(?:so|thus|hence|therefore)\s)(?:the|this)\s(?:statement|claim|proposition|assertion|conjecture)"
    r"\sis\s(true|false)[.!\s]{0,3}$",
    re.IGNORECASE,
)
_CHOICE_AND_VALUE = re.compile(r"\(?[A-J]\) ?(?:[^A-Za-z]{1,60}|\$[^$]{1,60}\$)")
_NO_SOLUTION = re.compile(r"\bthere (?:is|are) (no (?:real |integer |such )?solutions?)[.!\s]{0,3}$", re.IGNORECASE)
_MATHEMATICS = frozenset(
    {*SPELLED, *SYMPY_NAMES, *GREEK, *UNITS, "or", "and", "pi", "infty", "oo", "inf", "Matrix", "mu", "nu"} - {"mod"}
)


class Place(NamedTuple):
    """Where the final answer of a text may stand."""

    about: str
    read: Callable[[str, re.Match[str] | None], str | None]
    """Takes the text and the last phrase that announces an answer. None: it stands not there; empty: the text says
    that it has no answer."""
    example: str
    """A text whose answer, 42, B or true, stands there."""


PLACES = (
    Place("the whole text", lambda text, phrase: _whole(text) if phrase is None else None, "6 * 7 = 42"),
    Place(
        "after a phrase that announces it",
        lambda text, phrase: announced(text, phrase) if phrase is not None else None,
        "The answer is 42. Their sum is 13.",
    ),
    Place(
        'before "is the answer"',
        lambda text, _: _found(last_match(_ANSWER_AFTER, text)),
        "42 is the answer; 13 the sum.",
    ),
    Place(
        "nowhere, as it says", lambda text, _: "" if _REFUSAL.search(text[-300:]) else None, "I can't tell: 41 or 42"
    ),
    Place(
        "the verdict on a statement at the end",
        lambda text, _: _found(_TRUTH.search(text[-60:]) or _NO_SOLUTION.search(text[-60:])),
        "Both 6 and 7 do, so the statement is true.",
    ),
    Place("the letter of a choice at the end", lambda text, _: _last_choice(text), "So I choose (B)."),
    Place("a letter, yes or no at the start", lambda text, _: _first_word(text), "B. Both 6 and 7 do."),
    Place("the last line", lambda text, _: _last_line(text), "We multiply 6 and 7 to get it:\n42"),
    Place("the value at the end", lambda text, _: values_at_end(text), "So both have 42 apples."),
)
"""The first that has an answer counts."""


def answer_in(text: str) -> str | None:
    """The final answer of a text without boxes; None if it states none."""
    hope = last_match(HOPE, text)
    text = undressed(text if hope is None else text[: hope.start()].rstrip())
    text = _QED.sub("", text).rstrip()
    text = text[:-60] + _CONTRAST.sub("", text[-60:])
    phrase = last_phrase(text)
    found = (place.read(text, phrase) for place in PLACES) if text else iter(())
    return next((answer for answer in found if answer is not None), None) or None


def _whole(text: str) -> str | None:
    if not is_bare(text) and not _WORDS_ALONE.fullmatch(text):
        return None
    return text if "\\begin" in text else text.rsplit("\n", 1)[-1].strip()


def _found(match: re.Match[str] | None) -> str | None:
    return None if match is None else match[1]


def announced(text: str, phrase: re.Match[str]) -> str | None:
    """The answer after a phrase."""
    if phrase[0].startswith('"') and (value := json_value(text[phrase.end() :])):
        return value
    rest = text[FILLER.match(text, phrase.end()).end() :].removeprefix("}")  # type: ignore[union-attr]
    return (_stated(rest) or None) if rest.strip() else None


def is_bare(text: str) -> bool:
    """Whether a text is only an answer: no words but functions, units and "or"."""
    if len(text) > WHOLE_CHARACTERS or not text:
        return False
    words = _PROSE_WORD.findall(_LATEX_WORD.sub(" ", text))
    return all(word in _MATHEMATICS or word.lower() in _MATHEMATICS for word in words)


def _last_choice(text: str) -> str | None:
    choice = _CHOICE.search(text[-60:]) or _LETTER_IS.search(text[-80:])
    if choice and not DENIED_BEFORE.search(text[-60:][: choice.start("letter")]) and "n't be" not in text[-60:]:
        return choice["letter"]
    return None


def _first_word(text: str) -> str | None:
    """A choice's letter, yes or no at the start of a short text."""
    if (
        "\n" not in text.strip()
        and len(text) <= 120
        and (choice := _LETTER_FIRST.match(text) or _YES_OR_NO.match(text))
        and not DENIED_AFTER.match(text, choice.end(1))
        and not _ANOTHER_LETTER.search(text, choice.end(1))
        and f" {chr(ord(choice[1][0]) + 1)}. " not in text[choice.end(1) :]  # A list of the choices.
    ):
        return choice[1]
    return None


def _last_line(text: str) -> str | None:
    """The last line, if it is only an answer."""
    before, _, line = text.rstrip().rpartition("\n")
    line = line.strip().strip("*").strip()
    letter = LETTER_ALONE.fullmatch(line)
    if letter:
        return letter["letter"]
    return line if before and line and is_bare(line) and _VALUE_FIRST.fullmatch(line) else None


def _stated(rest: str) -> str | None:
    """The answer at the start of the text after "the answer is"."""
    rest = rest.strip()
    formula = FORMULA.match(rest)
    if formula:
        return formulas_from(formula, rest)
    end = _SENTENCE_END.search(rest)
    if end and end[0].startswith("?"):
        return None
    sentence = (rest[: end.start()] if end else rest).strip().strip("*").strip()
    sentence = _REASON.split(sentence, maxsplit=1)[0]
    sentence = ENDING.sub("", sentence.split("\n", 1)[0].strip()).strip().strip("*")
    if len(sentence) > 200 or (len(_IDEOGRAPHS.findall(sentence)) > 6 and NUMBER.search(rest)):
        return None  # An explanation follows, and its last value counts.
    if sentence.endswith("}") and "{" not in sentence:
        sentence = sentence.rstrip('"} ')  # {answer: 15}
    sentence = undressed(sentence)
    if (said := _YES_OR_NO.match(sentence)) and sentence[said.end("word") :][:1] in (",", ".", ""):
        return said["word"]
    if _CHOICE_AND_VALUE.fullmatch(sentence):
        return f"({sentence.removeprefix('(')}"
    if "【" in sentence:
        sentence = sentence.partition("【")[0].strip()
    if _IDEOGRAPHS.search(sentence) and (counted := _COUNTED.fullmatch(sentence)):
        return None if DENIED_IN_CHINESE.search(sentence[: counted.start(1)]) else counted[1]
    if _IDEOGRAPHS.search(sentence) and (value := _AFTER_EQUALS.search(sentence)):
        return value[1]
    if re.fullmatch(r"\(?[A-J]\)?", sentence):
        return sentence.strip("()")
    sentence = _ARTICLE.sub("", sentence)
    letter = re.match(r"\(?([A-J])(?:[\s:.,)是正选，、：]|$)", sentence)
    if re.match(r"\(?[A-J]\)?,? (?:or|and)\b", sentence):
        return sentence
    if letter and (sentence.startswith("(") or re.match(r"[A-J](?:[,:.)是正选，、：]| [a-z])", sentence)):
        return None if _ANOTHER_LETTER.search(sentence, letter.end(1)) else letter[1]
    inner = last_match(FORMULA, sentence)
    if inner is not None:
        words = _PROSE_WORD.findall(sentence[inner.end() :])
        number = last_match(NUMBER, sentence[inner.end() :])
        if number is not None and words and words[-1].lower() not in ("when", "where", "for", "with", "if", "and"):
            return number["number"]  # "The largest $n$ is 34."
        return formula_text(inner) if _only_words_before(sentence, inner) else sentence  # 3 $\frac{1}{2}$
    words = re.findall(r"[A-Za-z]{2,}", sentence)
    if len(words) <= 4:
        return sentence or None
    number = last_match(NUMBER, sentence)
    if number is None or is_denied(sentence, number):
        return None
    return whole_of(sentence, number.start("number"), number.end("number"))


def _only_words_before(sentence: str, formula: re.Match[str]) -> bool:
    """False for "all integers $k \\ge 2$": there the words are a part of the answer."""
    before = sentence[: formula.start()]
    words = _PROSE_WORD.findall(before)
    if not words:
        return not before.strip()[-1:].isdigit()
    return words[0].lower() not in ("all", "every", "any", "odd", "even", "no")
