"""Finds the final answer of a text that has no box: `PLACES` says where it may stand, in the order that counts."""

from __future__ import annotations

import re
from functools import cached_property
from typing import NamedTuple

from math_reward.grader.extraction.afterwards import AFTERWARDS, corrects, without_remark
from math_reward.grader.extraction.bare import IDEOGRAPHS, PROSE_WORD, is_bare
from math_reward.grader.extraction.denials import denied_after, denied_at, denied_before, is_denied
from math_reward.grader.extraction.document import json_object, json_value, last_row, undressed
from math_reward.grader.extraction.equation_at_end import equation_at_end
from math_reward.grader.extraction.phrases import ENDING, FILLER, HOPE, first_group, last_match, last_phrase
from math_reward.grader.extraction.places import Place, first
from math_reward.grader.extraction.values_at_end import (
    FORMULA,
    NUMBER,
    formula_text,
    formulas_from,
    is_part,
    unit_after,
    values_at_end,
    with_factor,
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
from math_reward.grader.words.doubts import says
from math_reward.grader.words.letters import (
    IN_BRACKETS,
    WITH_VALUE,
    YES_OR_NO,
    choice_stated,
    first_word,
    is_joined,
    last_choice,
)

# "The chef used 1 apple"
_SENTENCE_WITH_NUMBER = re.compile(r"(?:the|he|she|they|it|we|i|there|john|a|an)\s(?:[a-z']+\s){1,4}\d", re.IGNORECASE)
_OR_A_NUMBER = re.compile(r"\bor \$?-?\d")
# "56, though ...", "42, because 6 * 7 = 42"
_VALUE_AND_CLAUSE = re.compile(r"(\$?-?\d[\d,]*(?:\.\d+)?(?:/\d+)?\s?%?)\s?[,;]\s(?=[a-zA-Z])(?!(?:or|and)\b)")
_TWO_LETTERS = re.compile(r"[A-Za-z]{2}")  # kt, II
# "42. I am sure.", and not "42. I was wrong, it is 43."
_I = (
    r"I (?!(?:was|made|forgot|now|think|don|doubt|reject|guess|see|could|am not)\b)[a-z]|I['’]m (?!not)"
    r"|A (?!correction)[a-z]"
)
_SENTENCE_END = re.compile(rf"(?<=[^\d\s.])\.(?=\s|$)|\. ?(?=[A-Z][a-z])|\. (?={_I})|\n\n|[!?。](?=\s|$)|。")
_WORDS_ALONE = re.compile(r"\\text\s?\{[^{}]{1,80}\}")
_VALUE_FIRST = re.compile(r"[\w$\\(){}\[\]+\-−.,/^√π%° ]{0,80}$")
_AFTER_EQUALS = re.compile(r"=([^=\u3040-\u9fff]{1,80})$")
# 小明有6个苹果: one number among words.
_COUNTED = re.compile(
    r"[\u3040-\u9fff]{1,20}(?<!第)"
    rf"(-?\d{{1,12}}(?:\.\d{{1,12}})?(?:/\d{{1,12}}|{UNITS_AFTER_DIGITS})?)(?!{UNITS_AFTER_DIGITS})[\u3040-\u9fff]{{1,8}}"
)
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
_BOLD = re.compile(r"(?<![\w*])\*\*(?!\s)([^*\n]{1,80}?)\*\*(?![\w*])")
# The end of an object that is not JSON, since its quotes or backslashes are not escaped.
_JSON_END = re.compile(r'\.?"[\s\]]{0,20}\}[\s`]{0,12}\Z')
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


PLACES: tuple[Place[Told], ...] = (
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
        lambda told: "" if says("unknown", told.text[-300:].lower()) else None,
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
        text = _JSON_END.sub(".", text)
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
    return first(PLACES, Told(text, last_phrase(text), bold)) if text else None


def _whole(text: str) -> str | None:
    if is_joined(text):
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
    return first(STATED, Behind(rest.strip())) if rest.strip() else None


def _value_with_reason(text: str) -> str | None:
    """The value at the start of a text of one line that goes on with its reason."""
    said = _REASON_AFTER.fullmatch(text)
    if said is None or says("reason", text, said.end("value")) or denied_after(text[said.end("value") :]):
        return None
    return said["value"] if is_bare(said["value"]) and any(map(str.isdigit, said[1])) else None


def _last_line(text: str) -> str | None:
    """The last line, if it is only an answer."""
    before, _, line = text.rstrip().rpartition("\n")
    line = line.strip()
    if line.startswith("- ") and before.rpartition("\n")[2].lstrip().startswith("- "):
        line = line[2:]
    line = line.strip("*").strip()
    letter = IN_BRACKETS.fullmatch(line)
    if letter:
        return letter["letter"]
    if (said := YES_OR_NO.fullmatch(line)) is not None:
        return said["word"]
    return line if before and line and is_bare(line) and _VALUE_FIRST.fullmatch(line) else None


class Behind:
    """A text behind "the answer is". Its first sentence is read when it is first asked for."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def _end(self) -> re.Match[str] | None:
        return _SENTENCE_END.search(self.text)

    @cached_property
    def _said(self) -> str:
        sentence = (self.text[: self._end.start()] if self._end else self.text).strip().strip("*").strip()
        sentence = _REASON.split(sentence, maxsplit=1)[0]
        return ENDING.sub("", sentence.split("\n", 1)[0].strip()).strip().strip("*")

    @property
    def is_question(self) -> bool:
        return self._end is not None and self._end[0].startswith("?")

    @property
    def is_explained(self) -> bool:
        """Whether an explanation follows; its last value counts."""
        said = self._said
        return len(said) > 200 or bool(len(IDEOGRAPHS.findall(said)) > 6 and NUMBER.search(self.text))

    @cached_property
    def sentence(self) -> str:
        """The first sentence, without its reason, quotes and what a language puts behind an answer."""
        is_broken = self._said.endswith("}") and "{" not in self._said  # {answer: 15}
        return undressed(self._said.rstrip('"} ') if is_broken else self._said).partition("【")[0].strip()

    @cached_property
    def words(self) -> list[str]:
        return re.findall(r"[A-Za-z]{2,}", self.sentence)

    @cached_property
    def formula(self) -> re.Match[str] | None:
        """The last formula of the sentence."""
        return last_match(FORMULA, self.sentence)


def _yes_or_no(behind: Behind) -> str | None:
    said = YES_OR_NO.match(behind.sentence)
    is_whole = said is not None and behind.sentence[said.end("word") :][:1] in (",", ".", "", "]", "}", ")")
    return said["word"] if said is not None and is_whole else None


def _counted(behind: Behind) -> str | None:
    counted = _COUNTED.fullmatch(behind.sentence)
    if counted is None:
        return None
    is_denied = says("chinese", behind.sentence[: counted.start(1)])
    return "" if is_denied else counted[1] + unit_after(behind.sentence, counted.end(1))


def _number_behind_formula(behind: Behind) -> str | None:
    after = "" if behind.formula is None else behind.sentence[behind.formula.end() :]
    words, number = PROSE_WORD.findall(after), last_match(NUMBER, after)
    is_condition = not words or words[-1].lower() in ("when", "where", "for", "with", "if", "and")
    return None if number is None or is_condition else number["number"]


def _formula(behind: Behind) -> str | None:
    if behind.formula is None:
        return None
    if (signed := with_factor(behind.sentence, behind.formula)) is not None:
        return signed
    is_alone = _only_words_before(behind.sentence, behind.formula) and not is_part(behind.sentence, behind.formula)
    return (formula_text(behind.formula) if is_alone else behind.sentence) or ""  # 3 $\frac{1}{2}$


def _value_before_clause(behind: Behind) -> str | None:
    value = _VALUE_AND_CLAUSE.match(behind.sentence) if len(behind.words) > 4 else None
    return None if value is None or _OR_A_NUMBER.search(behind.sentence) else value[1]


def _few_words(behind: Behind) -> str | None:
    is_long = len(behind.words) > 4 or _SENTENCE_WITH_NUMBER.match(behind.sentence)
    return None if is_long else with_digits(behind.sentence)


def _last_number(behind: Behind) -> str | None:
    number = last_match(NUMBER, behind.sentence)
    if number is None or is_denied(behind.sentence, number):
        return None
    whole = whole_of(behind.sentence, number.start("number"), number.end("number"))
    return None if whole is None or denied_at(behind.sentence, *whole) else behind.sentence[whole[0] : whole[1]]


def _formulas_first(behind: Behind) -> str | None:
    formula = FORMULA.match(behind.text)
    if formula is None:
        return None
    return behind.sentence if is_part(behind.text, formula) else formulas_from(formula, behind.text) or ""


STATED: tuple[Place[Behind], ...] = (
    Place(
        "a formula, with those joined to it",
        _formulas_first,
        "The answer is $41$ or $42$, not $13$.",
    ),
    Place("nowhere, as it is asked", lambda behind: "" if behind.is_question else None, "Is the answer is 42? No."),
    Place(
        "nowhere, as it is explained",
        lambda behind: "" if behind.is_explained else None,
        "答案是这个问题有13个不同的。所以有42个",
    ),
    Place("yes or no", _yes_or_no, "The answer is no, it is not."),
    Place(
        "a choice with its value",
        lambda behind: f"({behind.sentence.removeprefix('(')}" if WITH_VALUE.fullmatch(behind.sentence) else None,
        "The answer is B) 42.",
    ),
    Place("a counted thing in Chinese", _counted, "答案是小明有6个苹果"),
    Place(
        "behind an equals sign in Chinese",
        lambda behind: (
            first_group(_AFTER_EQUALS.search(behind.sentence)) if IDEOGRAPHS.search(behind.sentence) else None
        ),
        "答案是因此x=42",
    ),
    Place("a choice", lambda behind: choice_stated(behind.sentence), "The answer is B: they are 13."),
    Place("a number behind a formula", _number_behind_formula, "The answer is that the largest $n$ is 42."),
    Place("the last formula", _formula, r"The answer is all the integers $k \ge 2$ that there are."),
    Place("a value before a clause", _value_before_clause, "The answer is 42, though one may well ask for 13 more."),
    Place("a few words", _few_words, "The answer is green. There are 13."),
    Place(
        "the last number", _last_number, "The answer is that there are as many as 42 in all of them. It was 13 before."
    ),
)
"""Where the answer may stand behind a phrase."""


def _only_words_before(sentence: str, formula: re.Match[str]) -> bool:
    """False for "all integers $k \\ge 2$": there the words are a part of the answer."""
    before = sentence[: formula.start()]
    words = PROSE_WORD.findall(before)
    if not words:
        return not before.strip()[-1:].isdigit()
    return words[0].lower() not in ("all", "every", "any", "odd", "even", "no")
