"""Finds the value at the end of a text: the last formula or number, with those that commas, "and" or "or" join to it.

A value that the text denies, doubts, changes or only names ("question 42") is none.
"""

from __future__ import annotations

import re

from math_reward.grader.extraction.phrases import last_match
from math_reward.grader.extraction.whole_value import whole_of
from math_reward.grader.words.chinese_numbers import UNITS_AFTER_DIGITS
from math_reward.grader.words.number_words import number_in_words

MAX_JOINED = 8
"""How many formulas can be one answer together."""
FORMULA = re.compile(
    # A dollar sign beside a space or before a digit is a currency: "$5 + $6 = $11".
    r"\$\$(?P<display>.+?)\$\$|(?<!\\)\$(?P<inline>(?=\S)(?:[^$\n]|\\\$)+?(?<=[^\s\\])|(?=\s)[^$\n]+?\s)\$(?!\d)"
    # No formula begins within another, else a text of openings alone takes quadratic time; a matrix has \\( and \\[.
    r"|\\\((?P<round>(?:(?!(?<!\\)\\\().)+?)\\\)|\\\[(?P<square>(?:(?!(?<!\\)\\\[).)+?)\\\]",
    re.DOTALL,
)
NUMBER = re.compile(
    r"(?<![^\W\u3040-\u9fff\uac00-\ud7af])(?<!\.)(?P<number>[-−–]?\s?\\?[$€£]?\s?(?:\d{1,3}(?:,\d{3})+(?![\d,])(?:\.\d+)?|\d+,\d{1,2}(?![\d,.])|\d+(?:\.\d+)?|\.\d+)"
    rf"(?:{UNITS_AFTER_DIGITS})?"
    r"(?:\s?/\s?\d+(?:\.\d+)?)?(?:\s?\\?%|\s?percent|\s?°|\^\\circ|\^\{\\circ\})?)"
    # A unit may follow without a space, but no other letter and no more of the number.
    r"(?![.,]?\d)(?=[^a-zA-Z_]|$|(?:[cmk]?m|[km]?[gl]|s|h|ft|in|[ap]m|mph|[KMGkm]?[Bb]|th|st|nd|rd)(?![a-zA-Z]))"
)
# "Question 42" names a question.
_NAMED = re.compile(
    r"(?:question|problem|exercise|step|case|part|example|figure|fig|equation|eq|page|chapter|section|line|item|no"
    r"|number|option|method|approach|version|theorem|lemma|day|q)\.?\s?[#(]?\s?$",
    re.IGNORECASE,
)
# "... 9 + 6 = 15 liters of the 24 liters": the result of the last calculation, unless another clause follows it.
_RESULT = re.compile(r"= ?")
_CLAUSE = re.compile(
    r"[,;:=]|\b(?:so|then|we|is|are|gives?|gets?|because|since|but|and|thus|hence|which|there)\b", re.IGNORECASE
)
_IN_A_CONDITION = re.compile(r"(?:^|[.;\n]\s?)(?:if|when|suppose|assume|unless)\b[^,.\n]{0,30}$", re.IGNORECASE)
_GOES_ON = re.compile(r"\s?(?:\.\.\.|…)\s*$")
# A calculation without its result, as where a text was cut off: "5 + 7 equals".
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
_BETWEEN = re.compile(r"\s*(?:,\s*)?(?:(?P<alternative>or)|and|,)\s*(?=[$\\])")
# "It is not 42", "42 is wrong": the text denies the number.
DENIED_BEFORE = re.compile(
    r"(?:\bnot|\bunsure|\bguess(?:ing)?|n't|\bnever|\bcannot|\bmaybe|\bperhaps|\bpossibly"
    r"|\b(?:might|could|may|can) be|\bor|\bno (?:\w+\s){0,2}(?:answer|solution|value)"
    r"|\bone of|\b(?:tried|tried all|checked|tested|considered)"
    r"|\beither|\bbetween|\b(?:less|more|fewer|greater|smaller|larger|other|higher|lower) than"
    r"|(?:\bis|\bare|\bbe|^) ?at (?:least|most))\s{1,9}(?:[\w.]{1,20},?\s{1,9}){0,2}[$\\( ]{0,4}$",
    re.IGNORECASE,
)
# "The square root of 42", "42 squared": the text says another value.
_CHANGED_BEFORE = re.compile(
    r"(?:\b(?:but|except|twice|double|triple|half|negative)(?: of)?|!="
    r"|\b(?:opposite|reciprocal|inverse|negation|root|square|cube|factorial|logarithm|multiple|factor|power|third|quarter"
    r"|complement|(?:divisor|factor|multiple|digit|root|power|prime|bit)s) of)\s{1,3}[$\\( ]{0,4}$",
    re.IGNORECASE,
)
_CHANGED_AFTER = re.compile(
    r"[$\\) ]{0,4}(?:squared|cubed|factorial|doubled|tripled|halved|inverted|to the (?:power|\d{1,3}(?:st|nd|rd|th))"
    r"|modulo|mod|plus|minus|divided by|multiplied by)\b",
    re.IGNORECASE,
)
DENIED_IN_CHINESE = re.compile(
    r"(?:不(?:是|等于|为|到|超过|足|可能是)|[大小多少]于|超过|可能是|至[少多]|最[少多]|或者?是?)\s?$"
)
DENIED_AFTER = re.compile(
    r"[$\\) ]{0,6}(?:it )?(?:is|was|are|were|does|do|be)?"
    r" ?(?:an? |the )?(?:(?:a |just a |my )guess\b|not\b|n't\b|wrong\b|incorrect\b|fails?\b|impossible\b|too )",
    re.IGNORECASE,
)
# A comma after a word divides no list: "Therefore, $x = 1$".
_OPERATOR_AT_END = re.compile(r"(?:[-+*/^<>(\[]|(?<![a-zA-Z]{2}),)\s?$")
_OPERATOR_AT_BEGIN = re.compile(r"\s?[-+*/^=<>)\]]")
_NUMBER_WORDS = re.compile(
    r"(?:\bis|\bare|\bequals|=)\s+(?:(?:therefore|thus|then|only|just"
    r"|exactly)\s+)?([a-z]+(?:[ -][a-z]+){0,5})[.!\s]{0,4}$",
    re.IGNORECASE,
)
_CONDITION = re.compile(r"\b(?:for some|for all|for any|for|where|with|when|if|when divided by)\s?$", re.IGNORECASE)
# "1/4 (or 0.25)": both have to be the answer.
_ALTERNATIVE = re.compile(r",? ?\(?\bor \$?(?P<value>-?[\d.,]{0,12}\d(?:/\d{1,9})?\s?\\?%?)\$?\)?[.\s]{0,3}$")
_OUT_OF = re.compile(r"\d{1,9} out of $")


def values_at_end(text: str) -> str | None:
    """The value at the end, and the one before it if "or" joins them."""
    other = _ALTERNATIVE.search(text[-60:])
    if other is None:
        return _value_at_end(text)
    value = _value_at_end(text[: len(text) - len(other[0])])
    return None if value is None else rf"{value} \text{{ or }} {other['value']}"


def _value_at_end(text: str) -> str | None:
    formula = last_match(FORMULA, text)
    if formula is not None and _CONDITION.search(text[max(0, formula.start() - 16) : formula.start()]):
        formula = last_match(FORMULA, text[: formula.start()])
        if formula is not None:
            return formula_text(formula)
    number = _last_number(text)
    last = max((match for match in (formula, number) if match), key=lambda match: match.end(), default=None)
    if last is not None and is_denied(text, last):
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
    out_of = _OUT_OF.search(text[max(0, number.start() - 20) : number.start()])
    if out_of:
        return f"{out_of[0]}{number['number']}"
    value = whole_of(text, number.start("number"), number.end("number"))
    return None if value is None or _CALCULATION.fullmatch(value) else value


def is_denied(text: str, value: re.Match[str]) -> bool:
    """Whether the text around a value denies or doubts it: "not 42", "more than 42", "42?", "42 is wrong"."""
    before = text[max(0, value.start() - 40) : value.start()].rstrip()
    return (
        text[value.end() : value.end() + 1] in ("?", "吗")
        or DENIED_IN_CHINESE.search(before[-8:]) is not None
        or DENIED_BEFORE.search(before + " ") is not None
        or DENIED_AFTER.match(text, value.end()) is not None
        or _CHANGED_BEFORE.search(before + " ") is not None
        or _CHANGED_AFTER.match(text, value.end()) is not None
    )


def _joined(text: str, formula: re.Match[str]) -> str | None:
    """The last formula and those that "and", "or" or commas join to it: "$x = 1$ and $x = 2$"."""
    parts = [formula_text(formula)]
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
    content = next((part for part in match.groups() if part is not None), "").strip()
    # "$28$ %" and "$28$ percent" are 28 percent.
    unit = re.match(r"\s?(\\?%|percent\b|pct\b)", tail)
    return f"{content} {unit[1]}" if unit and content else content or None
