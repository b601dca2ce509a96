"""Finds the final answer of a text that has no box: `PLACES` says where it may stand, in the order that counts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from math_reward.grader.extraction.afterwards import AFTERWARDS, corrects, without_remark
from math_reward.grader.extraction.bare import IDEOGRAPHS, PROSE_WORD, is_bare
from math_reward.grader.extraction.denials import DENIED_IN_CHINESE, denied_after, denied_before, is_denied
from math_reward.grader.extraction.document import json_object, json_value, last_row, undressed
from math_reward.grader.extraction.equation_at_end import equation_at_end
from math_reward.grader.extraction.letters import (
    ANOTHER_LETTER,
    LETTER_ALONE,
    SEVERAL_LETTERS,
    YES_OR_NO,
    first_word,
    last_choice,
)
from math_reward.grader.extraction.phrases import ENDING, FILLER, HOPE, first_group, last_match, last_phrase
from math_reward.grader.extraction.values_at_end import (
    FORMULA,
    NUMBER,
    formula_text,
    formulas_from,
    unit_after,
    values_at_end,
)
from math_reward.grader.extraction.whole_value import whole_of
from math_reward.grader.extraction.words_at_end import (
    FEW_WORDS,
    counted_in_words,
    last_word,
    verdict_at_end,
    with_digits,
    words_alone,
)
from math_reward.grader.words.chinese_numbers import UNITS_AFTER_DIGITS

_REFUSAL = re.compile(
    r"(?:n['o]t|not|unable to) (?:know|determine|solve|answer|find|tell|say|compute|figure|verify"
    r"|be (?:determined|solved|found|answered))|(?:tell whether|without (?:reaching|finding))\b"
    r"|(?:it|this) to the reader"
    r"|\b(?:non (?:lo )?so|no (?:lo )?sé|je (?:ne sais|laisse)|weiß (?:ich |es )?nicht|nevím|nie wiem|não sei)\b"
    r"|не знаю|不知道|わかりません|모르겠",
)
# "The chef used 1 apple"
_SENTENCE_WITH_NUMBER = re.compile(r"(?:the|he|she|they|it|we|i|there|john|a|an)\s(?:[a-z']+\s){1,4}\d", re.IGNORECASE)
_OR_A_NUMBER = re.compile(r"\bor \$?-?\d")
# "56, though ...", "42, because 6 * 7 = 42"
_VALUE_AND_CLAUSE = re.compile(r"(\$?-?\d[\d,]*(?:\.\d+)?(?:/\d+)?\s?%?)\s?[,;]\s(?=[a-zA-Z])(?!(?:or|and)\b)")
_TWO_LETTERS = re.compile(r"[A-Za-z]{2}")  # kt, II
_JOINED_LETTERS = re.compile(r"[A-J]{2,6}")
_SENTENCE_END = re.compile(r"(?<=[^\d\s.])\.(?=\s|$)|\. ?(?=[A-Z][a-z])|\n\n|[!?。](?=\s|$)|。")
_WORDS_ALONE = re.compile(r"\\text\s?\{[^{}]{1,80}\}")
_VALUE_FIRST = re.compile(r"[\w$\\(){}\[\]+\-−.,/^√π%° ]{0,80}$")
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
_JUDGEMENT = re.compile(r"[\s*]{0,4}(?:correct|right|wrong|incorrect|the same|consistent|reasonable)\b", re.IGNORECASE)
_ANSWER_AFTER = re.compile(
    r"(?<![\w.,/])(?P<value>-?\d[\d,]*(?:\.\d+)?(?:/\d+)?) is (?:the|our|my) (?:final "
    r"|correct )?answer\b(?! to)",
    re.IGNORECASE,
)
_CHOICE_AND_VALUE = re.compile(r"\(?[A-J]\) ?(?:[^A-Za-z]{1,60}|\$[^$]{1,60}\$)")
_BOLD = re.compile(r"(?<![\w*])\*\*(?!\s)([^*\n]{1,80}?)\*\*(?![\w*])")
# The end of an object that is not JSON, since its quotes or backslashes are not escaped.
_JSON_END = re.compile(r'\.?"[\s\]]{0,20}\}[\s`]{0,12}\Z')
_RETRACTED = re.compile(
    r"\b(?:wrong|incorrect|false|mistakes?|mistaken|errors?|erred|forgot\w*|should|really|actually|however|but|instead|no|not"
    r"|students?|naive|guess\w*|wait|sorry)\b|n't\b",
    re.IGNORECASE,
)
# "8. Note that 9 is odd.", "-2, because y = -2x + 3"
_REASON_AFTER = re.compile(
    r"(?P<value>[^\n]{1,60}?)(?:[.,;:] ?| )(?:(?:because|since)\b|(?<=[.;] )(?:Note|Notice|Because|Since|Indeed|Reason"
    r"|Completing|Explanation|Here|This|We|By|Using)\b)[^\n]*"
)
# The white space behind a bullet is taken whole: else a line could be divided in many ways, and a list in all of them.
_BULLETS = re.compile(r"(?:^|\n)((?:[ \t]*[-*•](?:[ \t]+(?![ \t])[^\n]{1,80}|[ \t]{2,})(?:\n|$)){2,12})\s*$")
_STEP = re.compile(r"\d\s?[+*×·]\s?\d|\d\s[-−]\s\d|=.*=")


class Told(NamedTuple):
    """A text that is searched for its answer."""

    text: str
    phrase: re.Match[str] | None
    """The last phrase that announces an answer."""
    bold: str | None
    """The only text in bold type in the last paragraph."""


class Place(NamedTuple):
    """Where the final answer of a text may stand."""

    about: str
    read: Callable[[Told], str | None]
    """None: it stands not there; empty: the text says that it has no answer."""
    example: str
    """A text whose answer, 42, B or true, stands there."""


PLACES = (
    Place("the whole text", lambda told: _whole(told.text) if told.phrase is None else None, "6 * 7 = 42"),
    Place(
        "after a phrase that announces it",
        lambda told: _last_verdict(told) or announced(told.text, told.phrase) if told.phrase is not None else None,
        "The answer is 42. Their sum is 13.",
    ),
    Place(
        'before "is the answer"',
        lambda told: first_group(last_match(_ANSWER_AFTER, told.text)),
        "42 is the answer; 13 the sum.",
    ),
    Place(
        "nowhere, as it says",
        lambda told: "" if _REFUSAL.search(told.text[-300:].lower()) else None,
        "I can't tell: 41 or 42",
    ),
    Place(
        "the verdict on a statement at the end",
        lambda told: verdict_at_end(told.text),
        "If both are even numbers hence the statement is true.",
    ),
    Place("the letter of a choice at the end", lambda told: last_choice(told.text), "So I choose (B)."),
    Place("a letter, yes or no at the start", lambda told: first_word(told.text), "B. Both 6 and 7 do."),
    Place(
        "at the start, with its reason behind it",
        lambda told: _value_with_reason(told.text) if told.phrase is None else None,
        "42, because 6 * 8 = 48",
    ),
    Place("the items of a list at the end", lambda told: _items(told.text), "The solutions are\n- $x = 6$\n- $x = 7$"),
    Place("the last line", lambda told: _last_line(told.text), "We multiply 6 and 7 to get it:\n42"),
    Place("what alone is bold", lambda told: told.bold, "There are **42** of them, and in 2 days there will be 13."),
    Place("the equation at the end", lambda told: equation_at_end(told.text), "3x is 6, so in all y = 6x."),
    Place(
        "a number in words in the last sentence",
        lambda told: counted_in_words(told.text),
        "The graph of $y=2$ has two asymptotes.",
    ),
    Place("the value at the end", lambda told: values_at_end(told.text), "So both have 42 apples."),
    Place("a word at the end", lambda told: last_word(told.text), "All sides are equal, so it is a square."),
)
"""The first that has an answer counts."""


def answer_in(text: str, bold: str | None = None) -> str | None:
    """The final answer of a text without boxes; None if it states none. ``bold`` is of `emphasised`."""
    while text.startswith("{"):
        said, rest = json_object(text)
        if said is None:
            break
        if not rest.startswith("{") and last_phrase(rest) is None:
            return said
        text = rest
    if '"}' in "".join(text[-40:].split()) and last_phrase(text) is None:
        text = _JSON_END.sub(".", text, count=1)
    text = without_remark(text)
    hope = last_match(HOPE, text)
    text = undressed(text if hope is None else text[: hope.start()].rstrip())
    if AFTERWARDS.search(text):
        phrase = last_phrase(text)
        afterwards = AFTERWARDS.search(text, 0 if phrase is None else phrase.end())
        early = None if afterwards is None else _first_of(text[: afterwards.start() + 1], bold)
        if afterwards is not None and early and not corrects(text[afterwards.end() :], early):
            return early
    return _first_of(text, bold)


def emphasised(text: str) -> str | None:
    """The only text in bold type in the last paragraph, if it is a value."""
    paragraph = text.rstrip().rpartition("\n\n")[2]
    found = _BOLD.findall(paragraph)
    if len(found) != 1 or found[0].endswith((":", "：")):
        return None
    is_word = FEW_WORDS.fullmatch(found[0]) and (
        not any(map(str.isdigit, paragraph)) or paragraph.rstrip(" .!").endswith("**") or YES_OR_NO.fullmatch(found[0])
    )
    return str(found[0]) if is_bare(found[0]) or is_word else None


def _first_of(text: str, bold: str | None) -> str | None:
    text = _QED.sub("", text).rstrip()
    text = text[:-60] + _CONTRAST.sub("", text[-60:])
    told = Told(text, last_phrase(text), bold)
    found = (place.read(told) for place in PLACES) if text else iter(())
    return next((answer for answer in found if answer is not None), None) or None


def _whole(text: str) -> str | None:
    if _JOINED_LETTERS.fullmatch(text) and sorted({*text}) == [*text]:
        return text
    if _TWO_LETTERS.fullmatch(text) and YES_OR_NO.fullmatch(text) is None:
        return text
    if not is_bare(text) and not _WORDS_ALONE.fullmatch(text):
        return words_alone(text)
    line = last_row(text) if "\\begin" in text else text.rsplit("\n", 1)[-1].strip()
    before, arrow, after = line.rpartition(" → ")
    return after if arrow and "=" in before and is_bare(after) else line


def _last_verdict(told: Told) -> str | None:
    """The yes or no that is a whole line below the phrase."""
    start = told.text.rfind("\n") + 1
    said = YES_OR_NO.fullmatch(told.text[start:].strip()) if told.phrase is not None else None
    return said["word"] if said is not None and told.phrase is not None and told.phrase.end() <= start else None


def _items(text: str) -> str | None:
    """The items of a list, if each is a value or names one: not the steps of a calculation."""
    bullets = _BULLETS.search(text)
    if bullets is None:
        return None
    items = [line.strip().lstrip("-*•").strip().strip("*.;,") for line in bullets[1].strip().split("\n")]
    if not all(map(is_bare, items)) or any(map(_STEP.search, items)):
        return None
    return ", ".join(item.strip("$") for item in items)


def announced(text: str, phrase: re.Match[str]) -> str | None:
    """The answer after a phrase."""
    if phrase[0].startswith('"') and (value := json_value(text[phrase.end() :])):
        return value
    begin = FILLER.match(text, phrase.end()).end()  # type: ignore[union-attr]
    if denied_before(text[:begin]):
        return None  # "Suppose the answer is 28."
    rest = text[begin:].removeprefix("}")
    if phrase[0].lower().endswith(("is", "are")) and _JUDGEMENT.match(rest):
        return None  # "I am sure that the answers are correct."
    return (_stated(rest) or None) if rest.strip() else None


def _value_with_reason(text: str) -> str | None:
    """The value at the start of a text of one line that goes on with its reason."""
    said = _REASON_AFTER.fullmatch(text)
    if said is None or _RETRACTED.search(text, said.end("value")) or denied_after(text[said.end("value") :]):
        return None
    return said["value"] if is_bare(said["value"]) and any(map(str.isdigit, said[1])) else None


def _last_line(text: str) -> str | None:
    """The last line, if it is only an answer."""
    before, _, line = text.rstrip().rpartition("\n")
    line = line.strip()
    if line.startswith("- ") and before.rpartition("\n")[2].lstrip().startswith("- "):
        line = line[2:]
    line = line.strip("*").strip()
    letter = LETTER_ALONE.fullmatch(line)
    if letter:
        return letter["letter"]
    if (said := YES_OR_NO.fullmatch(line)) is not None:
        return said["word"]
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
    if len(sentence) > 200 or (len(IDEOGRAPHS.findall(sentence)) > 6 and NUMBER.search(rest)):
        return None  # An explanation follows, and its last value counts.
    if sentence.endswith("}") and "{" not in sentence:
        sentence = sentence.rstrip('"} ')  # {answer: 15}
    sentence = undressed(sentence)
    if (said := YES_OR_NO.match(sentence)) and sentence[said.end("word") :][:1] in (",", ".", "", "]", "}", ")"):
        return said["word"]
    if _CHOICE_AND_VALUE.fullmatch(sentence):
        return f"({sentence.removeprefix('(')}"
    if "【" in sentence:
        sentence = sentence.partition("【")[0].strip()
    if IDEOGRAPHS.search(sentence) and (counted := _COUNTED.fullmatch(sentence)):
        denied = DENIED_IN_CHINESE.search(sentence[: counted.start(1)])
        return None if denied else counted[1] + unit_after(sentence, counted.end(1))
    if IDEOGRAPHS.search(sentence) and (value := _AFTER_EQUALS.search(sentence)):
        return value[1]
    if re.fullmatch(r"\(?[A-J]\)?|\(?[a-j]\)", sentence):
        return sentence.strip("()")
    sentence = _ARTICLE.sub("", sentence)
    letter = re.match(r"\(?([A-J])(?:[\s:.,)是正选，、：]|$)", sentence)
    if (several := SEVERAL_LETTERS.match(sentence)) is not None:
        return several[0]
    if re.match(r"\(?[A-J]\)?,? or\b", sentence):
        return sentence
    if letter and (sentence.startswith("(") or re.match(r"(?!I [a-z])[A-J](?:[,:.)是正选，、：]| [a-z])", sentence)):
        return None if ANOTHER_LETTER.search(sentence, letter.end(1)) else letter[1]
    inner = last_match(FORMULA, sentence)
    if inner is not None:
        words = PROSE_WORD.findall(sentence[inner.end() :])
        number = last_match(NUMBER, sentence[inner.end() :])
        if number is not None and words and words[-1].lower() not in ("when", "where", "for", "with", "if", "and"):
            return number["number"]  # "The largest $n$ is 34."
        return formula_text(inner) if _only_words_before(sentence, inner) else sentence  # 3 $\frac{1}{2}$
    words = re.findall(r"[A-Za-z]{2,}", sentence)
    first = _VALUE_AND_CLAUSE.match(sentence) if len(words) > 4 else None
    if first is not None and not _OR_A_NUMBER.search(sentence):
        return first[1]
    if len(words) <= 4 and not _SENTENCE_WITH_NUMBER.match(sentence):
        return with_digits(sentence) or None
    number = last_match(NUMBER, sentence)
    if number is None or is_denied(sentence, number):
        return None
    return whole_of(sentence, number.start("number"), number.end("number"))


def _only_words_before(sentence: str, formula: re.Match[str]) -> bool:
    """False for "all integers $k \\ge 2$": there the words are a part of the answer."""
    before = sentence[: formula.start()]
    words = PROSE_WORD.findall(before)
    if not words:
        return not before.strip()[-1:].isdigit()
    return words[0].lower() not in ("all", "every", "any", "odd", "even", "no")
