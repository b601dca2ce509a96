"""Finds the value at the end of a text: the last formula or number, with those that commas, "and" or "or" join to it.

A value that the text denies, doubts, changes or only names ("question 42") is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from math_reward.grader.extraction.bare import is_bare
from math_reward.grader.extraction.denials import is_denied
from math_reward.grader.extraction.document import last_row
from math_reward.grader.extraction.phrases import last_match
from math_reward.grader.extraction.whole_value import whole_of
from math_reward.grader.words.chinese_numbers import UNITS_AFTER_DIGITS
from math_reward.grader.words.foreign_words import CHINESE_UNIT
from math_reward.grader.words.number_words import MULTIPLIERS, number_in_words
from math_reward.grader.words.unit_expressions import quantity_at_end
from math_reward.grader.words.units import is_unit

TAIL_CHARACTERS = 200
"""How much of the end is searched for a list."""
MAX_JOINED = 8
"""How many formulas can be one answer together."""


def _again(bracket: str) -> str:
    r"""Not at a \\( within ten characters of another: a formula that does not begin there does not begin here."""
    return "".join(rf"(?<!\\\{bracket}[^$)\]]{{{gap}}}\\\\\{bracket})" for gap in range(10))


FORMULA = re.compile(
    # A dollar sign beside a space or before a digit is a currency: "$5 + $6 = $11".
    r"\$\$(?P<display>.+?)\$\$|(?<!\\)\$(?P<inline>(?=\S)(?:[^$\n]|\\\$)+?(?<=[^\s\\])|(?=\s)[^$\n]+?\s)\$(?!\d)"
    # No formula begins within another, else a text of openings alone takes quadratic time; a matrix has \\( and \\[.
    rf"|\\\({_again('(')}(?P<round>(?:(?!(?<!\\)\\\().)+?)\\\)"
    rf"|\\\[{_again('[')}(?P<square>(?:(?!(?<!\\)\\\[).)+?)\\\]",
    re.DOTALL,
)
_BEGIN = r"(?<![^\W\u3040-\u9fff\uac00-\ud7af])(?<!\.)"
# 234 in 1,234,567 begins no number that 1 does not begin.
_FIRST_GROUP = rf"(?:(?!\d{{3}},)|(?<!{_BEGIN}\d,)(?<!{_BEGIN}\d\d,)(?<!{_BEGIN}\d\d\d,))"
NUMBER = re.compile(
    rf"{_BEGIN}(?P<number>[-−–]?\s?\\?[$€£]?\s?"
    rf"(?:{_FIRST_GROUP}\d{{1,3}}(?:,\d{{3}})+(?![\d,])(?:\.\d+)?"
    r"|\d{1,3}(?:\.\d{3})+,\d{1,2}(?![\d,])"
    r"|\d{1,3}(?:[ \u202f\xa0]\d{3})+(?:,\d{1,2})?(?![\d,])"
    r"|\d+,\d{1,2}(?![\d,]|\.\d)|\d+(?:\.\d+)?|\.\d+)"
    rf"(?:{UNITS_AFTER_DIGITS})?"
    r"(?:\s?/\s?\d+(?:\.\d+)?)?(?:\s?\\?%|\s?percent|\s?°|\^\\circ|\^\{\\circ\})?)"
    # A unit may follow without a space, but no other letter and no more of the number.
    r"(?![.,]?\d|-[a-zA-Z])(?=[^a-zA-Z_]|$|(?:[cmk]?m|[km]?[gl]|s|h|ft|in|[ap]m|mph|[kM]?[NJW]|[kM]?Pa|[kMG]?Hz|[KMGkm]?[Bb]|th|st|nd|rd)(?![a-zA-Z]))"
)
# "Question 42" names a question.
_NAMED = re.compile(
    r"(?:question|problem|exercise|step|case|part|example|figure|fig|equation|eq|page|chapter|section|line|item|no"
    r"|(?<!mal )(?<!ary )(?<!tal )(?<!ole )(?<!ime )(?<!est )number"  # the decimal, binary, whole number 42
    r"|option|method|approach|version|theorem|lemma|day|q)\.?\s?[#(]?\s?$",
    re.IGNORECASE,
)
# "... 9 + 6 = 15 liters of the 24 liters": the result of the last calculation, unless another clause follows it.
_RESULT = re.compile(r"[=≈] ?")
_CLAUSE = re.compile(
    r"[,;:=]|\b(?:so|then|we|is|are|gives?|gets?|because|since|but|and|thus|hence|which|there)\b", re.IGNORECASE
)
_IN_A_CONDITION = re.compile(r"(?:^|[.;\n]\s?)(?:if|when|suppose|assume|unless)\b[^,.\n]{0,30}$", re.IGNORECASE)
_GOES_ON = re.compile(r"\s?(?:\.\.\.|…)\s*$")
# A calculation without its result, as where a text was cut off: "5 + 7 equals".
_APPROXIMATED = re.compile(r"(?:^|[\s=:])(?P<value>[^\s=≈:]{0,30}[/√π^][^\s=≈:]{1,30}|√\d{1,9}|π)\s?≈\s?\Z")
# "$x = 42$. However, we are only interested in those of them that can be divided by"
_CUT_OFF = re.compile(r"[^a-zA-Z]{0,12}[.\n]\s{1,4}[A-Z](?:[^\s\d]+\s+){8,60}[a-z]{2,12}\s{0,3}\Z")
_IN_OPEN_FORMULA = re.compile(r"[a-z*]\s\$\s?[a-zA-Z]\s[^$\n]{1,40}\Z")
_CALCULATION = re.compile(r"(?=.*\d\s?[-+*×·−]\s?\d)[\d\s.,+*×·()−/-]+")
_NAMES_IT = re.compile(
    r"[^.,!?\n]{0,24}?,? ?(?:which )?(?:is|are) (?:now )?(?:the|our|her|his|their|its|[A-Z]\w+'s) (?:\w+ )?"
    r"(?:answer|total|result|number|sum|amount|count|value|solution)\b"
    r"|[^.,!?\n]{0,30}? (?:is|are|was|were) \w+\W*$| it is\W*$",
)
# Another clause behind a number, which is not its reason: "In 42 steps we find the answer".
_GOES_ELSEWHERE = re.compile(
    r",\s*\w+\s+\w+|[;:=]|\b(?:so|then|we|is|are|gives?|gets?|but|and|thus|hence|which|there)\b", re.IGNORECASE
)
_BETWEEN = re.compile(r"\s*(?:[,，、]\s*)?(?:(?P<alternative>or|或)|and|和|[,，、])\s*(?=[$\\])")
# A comma after a word divides no list: "Therefore, $x = 1$".
_OPERATOR_AT_END = re.compile(r"(?:[-+*/^<>(\[]|(?<![a-zA-Z]{2}),)\s?$")
_OPERATOR_AT_BEGIN = re.compile(r"\s?[-+*/^=<>)\]]")
_NUMBER_WORDS = re.compile(
    r"(?:\bis|\bare|\bequals|=)\s+(?:(?:therefore|thus|then|only|just"
    r"|exactly)\s+)?([a-z]+(?:[ -][a-z]+){0,5})[.!\s]{0,4}$",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    r"\b(?:for (?:some|all|any|every|each)|for|where|with|when|if|when divided by)"
    r"(?: (?:an? |the )?(?:arbitrary )?(?:integers?|reals?|natural|positive|whole|constant)"
    r"(?: numbers?| integers?| constant)?)?\s?$",
    re.IGNORECASE,
)
_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\.?)"
)
_DATE = re.compile(
    rf"(?:\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {_MONTH}(?:,? \d{{4}})?"
    rf"|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?)(?=[.!\s]{{0,3}}$)"
)
_DURATION = re.compile(r"\d{1,4} ?h(?:ours?|rs?)?,? (?:and )?\d{1,2} ?m(?:in(?:ute)?s?)?(?=[.!\s]{0,3}$)")
_RATIO = re.compile(r"\bratio\b[^.\n]{0,60}?\b(\d{1,9}) to (\d{1,9})[.!\s]{0,3}$")
# "1/4 (or 0.25)": both have to be the answer.
_ALTERNATIVE = re.compile(r",? ?\(?\bor \$?(?P<value>-?[\d.,]{0,12}\d(?:/\d{1,9})?\s?\\?%?)\$?\)?[.\s]{0,3}$")
# What belongs to a number behind it: "8:50 p.m.", "30 hours", "90 joules".
_HALF_OF_DAY = re.compile(r"\s?[ap]\.?\s?m\b\.?", re.IGNORECASE)
_UNIT = re.compile(
    r"\s?(?P<unit>(?![\u3040-\u9fff])[^\W\d_]{3,16}|[ckm]m|[km]g|[mM][lL]|[kMGT]?Hz|[kM]?eV|[kMG]?Pa|[kmM][JWVN]|[NJWV](?=[.,;]?(?:\s|$))|[gsmLh](?=[.!]?\s*$))(?![\w^/*-])"
)
_NAME = r"[\u0400-\u052f\u0600-\u06ff\u0900-\u097f]{1,20}"
_FOREIGN_UNIT = re.compile(rf"\s?(?P<unit>{_NAME})(?:(?:/|\sв\s|\sप्रति\s)(?P<per>{_NAME}))?")
_CHINESE_UNIT = re.compile(rf"\s?{CHINESE_UNIT}")
_PER = re.compile(r"\sper\s([A-Za-z]{1,16})(?![\w-])")
_SCALE = re.compile(r"\s(?:hundred|thousand|million|billion|trillion)(?![\w-])")
_ITEM = r"(?:[a-zA-Zα-ω](?:_?\d|[₀-₉])?\s?=\s?)?[-−]?(?:\d{1,12}(?:\.\d{1,12})?|\.\d{1,12})(?:/\d{1,9})?i?"
_JOINT = r"(?:and|or|und|oder|et|ou|y|o|e|и|или|和|或)"
# "The values are 0.1, 4, and 2", "n = 3 and n = 7"
_LIST = re.compile(
    r"(?:\b(?:are|is|be|were|be either|sind|sont|son|são)\b|[:：=得]|^)\s*\**(?P<items>"
    rf"{_ITEM}(?:,(?:\s|(?=-|\d{{1,2}}(?!\d))){_ITEM}){{1,20}}(?:,?\s{_JOINT}\s{_ITEM})?|{_ITEM}\s{_JOINT}\s{_ITEM})\**[.!。\s]{{0,3}}\Z",
    re.MULTILINE,
)
_LABELLED_PAIR = re.compile(
    r"(?P<items>[a-zA-Z]\s?=\s?-?[\d./]{1,12}\s(?:and|or)\s[a-zA-Z]\s?=\s?-?[\d./]{0,11}\d)[.!\s]{0,3}$"
)
_SENTENCE_END = re.compile(r"(?<!\d)[.!。]\s|\n|。")
_JOINTS = re.compile(rf",?\s{_JOINT}\s")
# "You can make 1 candle with 500 grams of wax and 3 wicks."
_MADE = re.compile(
    r"\b(?:make|bake|build|buy|fill|get|produce|serve)s? (?:only |at most |exactly )?(\d{1,9}) [a-z]+"
    r" (?:with|from|using|out of)\s(?:\d|the|these|this|his|her|their)[^.\n=]{0,80}[.!\s]{0,3}\Z"
)
_OUT_OF = re.compile(r"\d{1,9} out of $")


class Ending(NamedTuple):
    """What a text may end with that is a value."""

    about: str
    read: Callable[[str], str | None]
    """None: the text does not end so; empty: it does, and has no value there."""
    example: str
    """A text that ends so."""


def _listed(text: str) -> str | None:
    tail = text[-TAIL_CHARACTERS:]
    listed = _LIST.search(tail) or _LABELLED_PAIR.search(tail)
    is_right_side = listed is not None and tail[listed.start()] == "=" and "=" in listed["items"]  # 2x = 10, x = 5
    if listed is None or is_right_side or is_denied(tail, listed):
        return None
    return _JOINTS.sub(lambda joint: " or " if joint[0].strip(" ,") in ("or", "oder") else ", ", listed["items"])


def _day(text: str) -> str | None:
    day = _DATE.search(text[-TAIL_CHARACTERS:]) or _DURATION.search(text[-TAIL_CHARACTERS:])
    return None if day is None else day[0]


def _ratio(text: str) -> str | None:
    ratio = _RATIO.search(text[-TAIL_CHARACTERS:])
    return None if ratio is None else f"{ratio[1]}:{ratio[2]}"


def _quantity(text: str) -> str | None:
    quantity = quantity_at_end(text[-TAIL_CHARACTERS:])
    denied = quantity is None or is_denied(text[-TAIL_CHARACTERS:], quantity)
    return None if quantity is None or denied else quantity["value"].strip()


def _with_alternative(text: str) -> str | None:
    other = _ALTERNATIVE.search(text[-60:])
    value = None if other is None else _value_at_end(text[: len(text) - len(other[0])])
    return None if other is None else "" if value is None else rf"{value} \text{{ or }} {other['value']}"


ENDINGS = (
    Ending("a list", _listed, "The values are 0.1, 4, and 2."),
    Ending("a date or a duration", _day, "So it is 1 May 2019."),
    Ending("a ratio in words", _ratio, "The ratio is 3 to 4."),
    Ending("a number with its units", _quantity, "Its speed is 9.8 m/s^2"),
    Ending("a value with another one", _with_alternative, "It is 1/4 (or 0.25)."),
    Ending("the last formula or number", lambda text: _value_at_end(text), "So both have 42 apples."),
)
"""The first that a text ends with counts."""


def values_at_end(text: str) -> str | None:
    """The value at the end, with those of its list, or the one before it if "or" joins them."""
    found = (ending.read(text) for ending in ENDINGS)
    return next((value for value in found if value is not None), None) or None


def _value_at_end(text: str) -> str | None:
    formula = last_match(FORMULA, text)
    if formula is not None and _CONDITION.search(text[max(0, formula.start() - 40) : formula.start()]):
        earlier = last_match(FORMULA, text[: formula.start()])
        if earlier is not None:
            said = formula_text(earlier)
            return formula_text(formula) if said is not None and len(said) == 1 and said.isalpha() else said
        formula = None
    number = _last_number(text)
    last = max((match for match in (formula, number) if match), key=lambda match: match.end(), default=None)
    if last is not None and (_CUT_OFF.match(text, last.end()) or _IN_OPEN_FORMULA.search(text)):
        return None
    if last is not None and is_denied(text, _first_of(text, last) if last is formula else last, last):
        return None
    if formula is not None and (number is None or number.start() < formula.end()):
        if _OPERATOR_AT_END.search(text[max(0, formula.start() - 4) : formula.start()]) or _OPERATOR_AT_BEGIN.match(
            text, formula.end()
        ):
            return None  # The formula is part of a larger expression.
        return _joined(text, formula)
    spelled = _NUMBER_WORDS.search(text[-80:]) if last is None else None
    if spelled is not None and number_in_words(spelled[1].lower()) is not None:
        return spelled[1]
    if number is None or _NAMED.search(text[max(0, number.start() - 24) : number.start()]):
        return None
    if _IN_A_CONDITION.search(text[max(0, number.start() - 60) : number.start()]):
        return None
    if _GOES_ON.match(text, number.end()):
        return None
    is_result = text[: number.start()].endswith(("=", "= "))
    if not is_result and _GOES_ELSEWHERE.search(text, number.end()) and not _NAMES_IT.match(text, number.end()):
        return None  # In 42 steps we find the answer.
    if (made := _MADE.search(text[-160:])) is not None:
        return made[1]
    out_of = _OUT_OF.search(text[max(0, number.start() - 20) : number.start()])
    if out_of:
        return f"{out_of[0]}{number['number']}"
    value = whole_of(text, number.start("number"), number.end("number"))
    if value is None or _CALCULATION.fullmatch(value):
        return None
    exact = _APPROXIMATED.search(text[max(0, number.start() - 60) : number.start("number")])
    if exact is not None and is_bare(exact["value"]):
        return rf"{exact['value']} \approx {value}"  # 6/36 = 1/6 ≈ 16.7%
    unit = unit_after(text, number.end("number")) if value.endswith(number["number"].strip()) else ""
    # "= 15 liters of the 24" is about what it calculates.
    has_unit = not is_result or not text[number.end("number") + len(unit) :].startswith((" of ", " from "))
    return value + (unit if has_unit else "")


def unit_after(text: str, end: int) -> str:
    """The unit that stands behind a number, with the space before it; or nothing."""
    half = _HALF_OF_DAY.match(text, end) if ":" in text[max(0, end - 6) : end] else None
    if half is not None:
        return half[0].rstrip(".")
    scale = _SCALE.match(text, end)
    if scale is not None:
        return scale[0] + unit_after(text, scale.end())
    if (chinese := _CHINESE_UNIT.match(text, end)) is not None:
        return chinese[0]
    foreign = _FOREIGN_UNIT.match(text, end)
    if foreign is not None:
        names = [name.lower() for name in foreign.groups() if name is not None]
        return foreign[0] if all(is_unit(name) or name in MULTIPLIERS for name in names) else ""
    unit = _UNIT.match(text, end)
    rate = None if unit is None else _PER.match(text, unit.end())
    if rate is not None and unit is not None and is_unit(unit["unit"].lower()) and is_unit(rate[1].lower()):
        return text[end : rate.end()]
    known = unit is not None and (is_unit(unit["unit"]) or is_unit(unit["unit"].lower()))
    return unit[0] if unit is not None and known else ""


def values_in_last_sentence(text: str) -> list[str]:
    """All formulas and numbers of the last sentence, in their order."""
    sentence = _SENTENCE_END.split(text.rstrip(" .。\n"))[-1]
    found: list[str] = []
    end = 0
    while (match := FORMULA.search(sentence, end)) or (match := NUMBER.search(sentence, end)):
        number = NUMBER.search(sentence, end)
        if number is not None and number.start() < match.start():
            match = number
        value = formula_text(match) if match.re is FORMULA else match["number"]
        found += [value.strip().removeprefix("=").strip()] if value else []
        end = match.end()
    return found


def _first_of(text: str, formula: re.Match[str]) -> re.Match[str]:
    """The first of the formulas that are joined to this one: "$x = 1$ or $x = 2$"."""
    for before in reversed(list(FORMULA.finditer(text, 0, formula.start()))[-MAX_JOINED:]):
        gap = _BETWEEN.match(text, before.end())
        if gap is None or gap.end() != formula.start():
            break
        formula = before
    return formula


def _joined(text: str, formula: re.Match[str]) -> str | None:
    """The last formula and those that "and", "or" or commas join to it: "$x = 1$ and $x = 2$"."""
    is_result = text[: formula.start()].rstrip().endswith("=")
    parts = [formula_text(formula, tail="" if is_result else text[formula.end() : formula.end() + 24])]
    start = formula.start()
    for before in reversed(list(FORMULA.finditer(text, 0, start))[-MAX_JOINED:]):
        gap = _BETWEEN.match(text, before.end())
        if gap is None or gap.end() != start:
            break
        parts.append(r"\text{ or }" if gap["alternative"] else ",")
        parts.append(formula_text(before))
        start = before.start()
    return None if None in parts else " ".join(part for part in reversed(parts) if part)


def _last_number(text: str) -> re.Match[str] | None:
    number = last_match(NUMBER, text)
    if number is None:
        return None
    line = text.rfind("\n", 0, number.start()) + 1
    result = last_match(_RESULT, text, line)
    calculated = NUMBER.match(text, result.end()) if result else None
    if calculated and not _CLAUSE.search(text, calculated.end()):
        return calculated
    return number


def formulas_from(first: re.Match[str], text: str) -> str | None:
    """A formula and those that "or", "and" or commas join to it: "$x = 3$ or $x = 4$" is not $x = 3$."""
    answer = formula_text(first, tail=text[first.end() :])
    end = first.end()
    while (gap := _BETWEEN.match(text, end)) and (following := FORMULA.match(text, gap.end())):
        joint = r" \text{ or } " if gap["alternative"] else ", "
        answer = f"{answer}{joint}{formula_text(following)}"
        end = following.end()
    return answer


def formula_text(match: re.Match[str], tail: str = "") -> str | None:
    content = last_row(next((part for part in match.groups() if part is not None), "").strip())
    # "$28$ %" and "$28$ percent" are 28 percent.
    percent = re.match(r"\s?(\\?%|percent\b|pct\b)", tail)
    if percent and content:
        return f"{content} {percent[1]}"
    unit = unit_after(tail, 0) if content and content[-1] in "0123456789}" else ""
    return f"{match[0]}{unit}" if unit else content or None
