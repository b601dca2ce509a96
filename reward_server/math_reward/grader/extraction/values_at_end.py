"""Finds the value at the end of a text: the last formula or number, with those that commas, "and" or "or" join to it.

A value that the text denies, doubts, changes or only names ("question 42") is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from math_reward.grader.extraction.bare import is_bare
from math_reward.grader.extraction.denials import denied_at, is_denied
from math_reward.grader.extraction.document import last_row
from math_reward.grader.extraction.phrases import first_group, last_match
from math_reward.grader.extraction.places import Place, first
from math_reward.grader.extraction.unit_after import unit_after
from math_reward.grader.extraction.whole_value import whole_of
from math_reward.grader.words.chinese_numbers import UNITS_AFTER_DIGITS
from math_reward.grader.words.number_words import number_in_words
from math_reward.grader.words.unit_expressions import quantity_at_end

LIST_CHARACTERS = 200
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
    r"(?:\s?/\s?\d+(?:\.\d+)?)?(?:\s?\\?%|\s?‰|\s?percent|\s?°|\^\\circ|\^\{\\circ\})?)"
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
_JOINT_BEFORE = re.compile(r"(?:,\s|,?\s(?:or|and)\s|\s?(?:∪|\bU\b|\\cup)\s?)\Z")
_SHAPE = re.compile(r"\s?(?:[(\[][^()\[\]]{1,60}[)\]]|[^<>≤≥()]{0,30}[<>≤≥][^()]{1,30})")
_PART_BEFORE = re.compile(
    r"(?:\d|(?:^|[\s:(=])[-−–]|(?:[\d)}$]|(?<![a-zA-Z])[a-zA-Z])[ ]?[-−–+*/^×·][ ]?|[/^×·][ ]?"
    r"|\b(?:minus|negative|plus|times|over|twice|(?:half|square|cube|root|double|triple)(?: of)?)[ ]?)\Z"
)
_OPERAND = r"[ ]?(?:\$?-?\d|\\[a-zA-Z(]|\$|\(|(?!a\s|I\s|i\.e)[a-zA-Z](?![a-zA-Z'’]))"
_PART_AFTER = re.compile(
    rf"[ ]?[-−–+*^×·]{_OPERAND}|/{_OPERAND}|[ ]?(?:π|√(?=[\d($]))|\$?[ ]?\$\\(?:sqrt|pi|d?frac)"
    r"|(?:[KMBi]|pi|e\d+|x(?!-))(?![a-zA-Z])|:\$?\d"
    rf"|[ ](?:times|over|plus|minus|out of|R|remainder){_OPERAND.replace('[ ]?', '[ ]', 1)}"
    r"|[ ](?:squared|cubed|dozen|or (?:more|less|fewer|greater|higher)|and an? (?:half|quarter|third))\b"
    r"|[ ]at (?:least|most)[.\s]*\Z"
)
_FACTOR = re.compile(r"(?:\A|[^\W\d_]{2} |[:=] )(?P<factor>[-−]?\d{1,9}(?:\.\d{1,9})?|[-−])\Z")
_FACTORS = re.compile(r"\\(?:d?frac|sqrt|pi|ln|log)(?![a-z])")
_NO_FACTOR = re.compile(
    r"\b(?:and|or|between|by|than|half of|twice|step|case|part|day|method|problem|theorem) \Z", re.I
)
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
# A date and a ratio may have "between them" or "can be" before them, which make a number doubtful.
_NOT = re.compile(r"(?:\bnot|n['’]t) (?:[a-z]+ ){0,1}\Z")
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


def _listed(text: str) -> str | None:
    tail = text[-LIST_CHARACTERS:]
    listed = _LIST.search(tail) or _LABELLED_PAIR.search(tail)
    is_right_side = listed is not None and tail[listed.start()] == "=" and "=" in listed["items"]  # 2x = 10, x = 5
    if listed is None or is_right_side or is_denied(tail, listed):
        return None
    return _JOINTS.sub(lambda joint: " or " if joint[0].strip(" ,") in ("or", "oder") else ", ", listed["items"])


def _day(text: str) -> str | None:
    tail = text[-LIST_CHARACTERS:]
    day = _DATE.search(tail) or _DURATION.search(tail)
    return None if day is None else "" if _NOT.search(tail, 0, day.start()) else day[0]


def _ratio(text: str) -> str | None:
    tail = text[-LIST_CHARACTERS:]
    ratio = _RATIO.search(tail)
    return None if ratio is None else "" if _NOT.search(tail, 0, ratio.start(1)) else f"{ratio[1]}:{ratio[2]}"


def _quantity(text: str) -> str | None:
    quantity = quantity_at_end(text[-LIST_CHARACTERS:])
    denied = quantity is None or is_denied(text[-LIST_CHARACTERS:], quantity)
    return None if quantity is None or denied else quantity["value"].strip()


def _with_alternative(text: str) -> str | None:
    other = _ALTERNATIVE.search(text[-60:])
    value = None if other is None else first(VALUES, _End(text[: len(text) - len(other[0])]))
    return None if other is None else "" if value is None else rf"{value} \text{{ or }} {other['value']}"


ENDINGS: tuple[Place[str], ...] = (
    Place("a list", _listed, "The values are 0.1, 4, and 2."),
    Place("a date or a duration", _day, "So it is 1 May 2019."),
    Place("a ratio in words", _ratio, "The ratio is 3 to 4."),
    Place("a number with its units", _quantity, "Its speed is 9.8 m/s^2"),
    Place("a value with another one", _with_alternative, "It is 1/4 (or 0.25)."),
    Place("the last formula or number", lambda text: first(VALUES, _End(text)), "So both have 42 apples."),
)
"""The first that a text ends with counts."""


def values_at_end(text: str) -> str | None:
    """The value at the end, with those of its list, or the one before it if "or" joins them."""
    return first(ENDINGS, text)


class _End:
    """The last formula and the last number of a text. A formula behind "for all" is a condition, and no value."""

    def __init__(self, text: str) -> None:
        self.text = text
        formula, self.number = last_match(FORMULA, text), _last_number(text)
        is_condition = formula is not None and _CONDITION.search(text[max(0, formula.start() - 40) : formula.start()])
        self.condition = formula if is_condition else None
        self.formula = None if is_condition else formula
        ends = [match for match in (self.formula, self.number) if match is not None]
        self.last = max(ends, key=lambda match: match.end(), default=None)

    def before_number(self, characters: int) -> str:
        """What stands before the last number; nothing without one."""
        return "" if self.number is None else self.text[max(0, self.number.start() - characters) : self.number.start()]

    @property
    def is_result(self) -> bool:
        """Whether the last number follows an equals sign."""
        return self.before_number(2).endswith(("=", "= "))


def _before_condition(end: _End) -> str | None:
    earlier = None if end.condition is None else last_match(FORMULA, end.text[: end.condition.start()])
    if end.condition is None or earlier is None:
        return None
    said = formula_text(earlier)
    return (formula_text(end.condition) if said is not None and len(said) == 1 and said.isalpha() else said) or ""


def _is_denied(end: _End) -> bool:
    if end.last is None:
        return False
    joined = [before for before, _ in _joined_to(end.text, end.last)] if end.last is end.formula else []
    return is_denied(end.text, joined[-1] if joined else end.last, end.last)


def _formula(end: _End) -> str | None:
    formula, text = end.formula, end.text
    if formula is None or (end.number is not None and end.number.start() >= formula.end()):
        return None
    if (signed := with_factor(text, formula)) is not None:
        return signed
    before = text[max(0, formula.start() - 4) : formula.start()]
    is_operand = _OPERATOR_AT_END.search(before) or _OPERATOR_AT_BEGIN.match(text, formula.end())
    return "" if is_operand or is_part(text, formula) else _joined(text, formula) or ""


def is_part(text: str, formula: re.Match[str]) -> bool:
    """Whether what stands beside a formula calculates with it or says more: "2 + $5$", "$5$ dozen"."""
    before = text[max(0, formula.start() - 24) : formula.start()]
    return (_PART_BEFORE.search(before) or _PART_AFTER.match(text, formula.end())) is not None


def with_factor(text: str, formula: re.Match[str]) -> str | None:
    r"""A formula with the sign or the number that stands just before it: "-$5$", "9$\pi$"; None without one."""
    before = text[max(0, formula.start() - 40) : formula.start()]
    factor, said = _FACTOR.search(before), formula_text(formula)
    if factor is None or not said or _PART_AFTER.match(text, formula.end()):
        return None
    if _NO_FACTOR.search(before, 0, factor.start("factor")):
        return None
    is_number = factor["factor"][-1].isdigit()
    start = formula.start() - len(factor["factor"])
    is_sum = not {*"+-="}.isdisjoint(said[1:])
    if (is_number and not _FACTORS.match(said)) or is_sum or denied_at(text, start, formula.end()):
        return None
    return factor["factor"] + said


def _in_words(end: _End) -> str | None:
    spelled = _NUMBER_WORDS.search(end.text[-80:]) if end.last is None else None
    return spelled[1] if spelled is not None and number_in_words(spelled[1].lower()) is not None else None


def _goes_elsewhere(end: _End) -> bool:
    """Whether another clause follows the last number: "In 42 steps we find the answer"."""
    if end.number is None or end.is_result:
        return False
    behind = end.number.end()
    return _GOES_ELSEWHERE.search(end.text, behind) is not None and _NAMES_IT.match(end.text, behind) is None


def _out_of(end: _End) -> str | None:
    out_of = _OUT_OF.search(end.before_number(20))
    return None if out_of is None or end.number is None else f"{out_of[0]}{end.number['number']}"


def _number(end: _End) -> str | None:
    number, text = end.number, end.text
    whole = None if number is None else whole_of(text, number.start("number"), number.end("number"))
    whole = None if whole is None else _with_joined(text, *whole)
    value = "" if whole is None else text[whole[0] : whole[1]]
    if number is None or whole is None or _CALCULATION.fullmatch(value):
        return None
    if whole[0] < number.start("number") and denied_at(text, *whole):
        return ""
    exact = _APPROXIMATED.search(text[max(0, number.start() - 60) : number.start("number")])
    if exact is not None and is_bare(exact["value"]):
        return rf"{exact['value']} \approx {value}"  # 6/36 = 1/6 ≈ 16.7%
    unit = unit_after(text, number.end("number")) if value.endswith(number["number"].strip()) else ""
    # "= 15 liters of the 24" is about what it calculates.
    has_unit = not end.is_result or not text[number.end("number") + len(unit) :].startswith((" of ", " from "))
    return value + (unit if has_unit else "")


def _with_joined(text: str, begin: int, end: int) -> tuple[int, int]:
    """Where the intervals, points and inequalities begin and end that are joined to the last: "x < 2 or x > 5"."""
    for _ in range(MAX_JOINED):
        joint = _JOINT_BEFORE.search(text, max(0, begin - 12), begin)
        if joint is None or not _SHAPE.fullmatch(text, begin, end):
            break
        number = last_match(NUMBER, text[: joint.start()], max(0, joint.start() - 40))
        earlier = None if number is None else whole_of(text[: joint.start()], *number.span("number"))
        if earlier is None or earlier[1] != joint.start() or not _SHAPE.fullmatch(text, *earlier):
            break
        begin = earlier[0]
    return begin, end


def _nowhere(is_so: Callable[[_End], object]) -> Callable[[_End], str | None]:
    """The text has no value where this is so."""
    return lambda end: "" if is_so(end) else None


VALUES: tuple[Place[_End], ...] = (
    Place("a formula before its condition", _before_condition, "So it is $3k$ for all $k$."),
    Place(
        "nowhere, as it is cut off",
        _nowhere(
            lambda end: end.last and (_CUT_OFF.match(end.text, end.last.end()) or _IN_OPEN_FORMULA.search(end.text))
        ),
        "$x = 42$. However, we are only interested in those of them that can be divided by",
    ),
    Place("nowhere, as it is denied or doubted", _nowhere(_is_denied), "So it is not $42$"),
    Place("the last formula, with those joined to it", _formula, "So they are $41$ and $42$."),
    Place("a number in words", _in_words, "So the number is forty-two."),
    Place(
        "nowhere: it names a question",
        _nowhere(lambda end: _NAMED.search(end.before_number(24))),
        "This is question 42",
    ),
    Place(
        "nowhere: it is a condition", _nowhere(lambda end: _IN_A_CONDITION.search(end.before_number(60))), "If n is 42"
    ),
    Place(
        "nowhere: it goes on",
        _nowhere(lambda end: end.number and _GOES_ON.match(end.text, end.number.end())),
        "So we get 42 ...",
    ),
    Place("nowhere: another clause follows", _nowhere(_goes_elsewhere), "In 42 steps we find it."),
    Place(
        "what is made of something",
        lambda end: first_group(_MADE.search(end.text[-160:])),
        "So we can make 42 cakes from the 13 eggs.",
    ),
    Place("a number out of another", _out_of, "So it is 6 out of 42"),
    Place("the last number, with its unit", _number, "So both have 42 apples."),
)
"""The last formula or number of a text, with what belongs to it; the first place counts."""


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


def _joined_to(text: str, formula: re.Match[str]) -> Iterator[tuple[re.Match[str], re.Match[str]]]:
    """The formulas that "and", "or" or commas join to this one, the nearest first, and what joins each."""
    for before in reversed(list(FORMULA.finditer(text, 0, formula.start()))[-MAX_JOINED:]):
        gap = _BETWEEN.match(text, before.end())
        if gap is None or gap.end() != formula.start():
            return
        yield before, gap
        formula = before


def _joined(text: str, formula: re.Match[str]) -> str | None:
    """The last formula and those that are joined to it: "$x = 1$ and $x = 2$"."""
    is_result = text[: formula.start()].rstrip().endswith("=")
    parts = [formula_text(formula, tail="" if is_result else text[formula.end() : formula.end() + 24])]
    for before, gap in _joined_to(text, formula):
        parts += [r"\text{ or }" if gap["alternative"] else ",", formula_text(before)]
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


def formulas_from(begin: re.Match[str], text: str) -> str | None:
    """A formula and those that "or", "and" or commas join to it: "$x = 3$ or $x = 4$" is not $x = 3$."""
    answer = formula_text(begin, tail=text[begin.end() :])
    end = begin.end()
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
