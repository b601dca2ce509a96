r"""Finds the final answer of a completion: the content of its last box, or else what its last words state.

It takes the first that it finds of: a box; in lenient mode also ``<answer>`` tags; the whole completion, if it is only
an answer; the text after the last phrase such as "the answer is"; the letter of a choice; the last line, if it is only
an answer; the last formula or number, if the text ends with it.
"""

from __future__ import annotations

import dataclasses
import re

from math_reward.grader.extraction.around import sign_of
from math_reward.grader.extraction.boxes import BOX, Statement, last_boxes
from math_reward.grader.extraction.document import json_value, shown, undressed, with_boxes, without_code
from math_reward.grader.extraction.phrases import ENDING, FILLER, HOPE, last_match, last_phrase
from math_reward.grader.extraction.special_tokens import EMPHASIS, SPECIAL_TOKEN, before_next_turn
from math_reward.grader.extraction.values_at_end import whole_of
from math_reward.grader.verdict import Mode
from math_reward.grader.words.chinese_numbers import UNITS_AFTER_DIGITS
from math_reward.grader.words.functions import SPELLED, SYMPY_NAMES
from math_reward.grader.words.number_words import number_in_words
from math_reward.grader.words.units import UNITS
from math_reward.grader.words.vocabulary import GREEK

SCANNED_CHARACTERS = 100_000
"""How much of a completion's end is searched for a box."""
TAIL_CHARACTERS = 3_000
"""How much of the end is searched for an answer that is not in a box."""
MAX_JOINED = 8
"""How many formulas can be one answer together."""
WHOLE_CHARACTERS = 400
"""A longer text is never only an answer."""

_TOKENS = re.compile(SPECIAL_TOKEN)
_TAG = re.compile(r"<(?:final_)?answer>(.{1,2000}?)</(?:final_)?answer>", re.IGNORECASE | re.DOTALL)
_FORMULA = re.compile(
    # A dollar sign beside a space or before a digit is a currency: "$5 + $6 = $11".
    r"\$\$(?P<display>.+?)\$\$|(?<!\\)\$(?P<inline>(?=\S)(?:[^$\n]|\\\$)+?(?<=[^\s\\])|(?=\s)[^$\n]+?\s)\$(?!\d)"
    # No formula begins within another, else a text of openings alone takes quadratic time; a matrix has \\( and \\[.
    r"|\\\((?P<round>(?:(?!(?<!\\)\\\().)+?)\\\)|\\\[(?P<square>(?:(?!(?<!\\)\\\[).)+?)\\\]",
    re.DOTALL,
)
_NUMBER = re.compile(
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
_REFUSAL = re.compile(
    r"\b(?:i )?(?:do ?n[o']t|don't|cannot|can't|can not|could ?n[o']t|could not|unable to) "
    r"(?:know|determine|solve|answer|find|tell|say|compute|figure|be (?:determined|solved|found|answered))",
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
_DENIED_BEFORE = re.compile(
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
_DENIED_IN_CHINESE = re.compile(
    r"(?:不(?:是|等于|为|到|超过|足|可能是)|[大小多少]于|超过|可能是|至[少多]|最[少多]|或者?是?)\s?$"
)
_DENIED_AFTER = re.compile(
    r"[$\\) ]{0,6}(?:it )?(?:is|was|are|were|does|do|be)?"
    r" ?(?:an? |the )?(?:(?:a |just a |my )guess\b|not\b|n't\b|wrong\b|incorrect\b|fails?\b|impossible\b|too )",
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
_LETTER_ALONE = re.compile(r"\**\(?(?P<letter>[A-J])\)?\**[.)]?\**")
_YES_OR_NO = re.compile(r"(?P<word>yes|no|true|false)\b(?:[.,!:;]|$)", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[^\d\s.])\.(?=\s|$)|\. ?(?=[A-Z][a-z])|\n\n|[!?。](?=\s|$)|。")
_PROSE_WORD = re.compile(r"(?<!\\)(?<![a-zA-Z])[^\W\d_]{2,}")
_LATEX_WORD = re.compile(r"\\[a-zA-Z]+|(?<=\\begin\{)\w+|(?<=\\end\{)\w+|\\(?:text|mathrm|operatorname)\s?\{[^{}]*\}")
_WORDS_ALONE = re.compile(r"\\text\s?\{[^{}]{1,80}\}")
_VALUE_FIRST = re.compile(r"[\w$\\(){}\[\]+\-−.,/^√π%° ]{0,80}$")
# A comma after a word divides no list: "Therefore, $x = 1$".
_OPERATOR_AT_END = re.compile(r"(?:[-+*/^<>(\[]|(?<![a-zA-Z]{2}),)\s?$")
_OPERATOR_AT_BEGIN = re.compile(r"\s?[-+*/^=<>)\]]")
_IDEOGRAPHS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_AFTER_EQUALS = re.compile(r"=([^=\u3040-\u9fff]{1,80})$")
# 小明有6个苹果: one number among words.
_COUNTED = re.compile(
    r"[\u3040-\u9fff]{1,20}(?<!第)"
    rf"(-?\d{{1,12}}(?:\.\d{{1,12}})?(?:/\d{{1,12}}|{UNITS_AFTER_DIGITS})?)(?!{UNITS_AFTER_DIGITS})[\u3040-\u9fff]{{1,8}}"
)
_NUMBER_WORDS = re.compile(
    r"(?:\bis|\bare|\bequals|=)\s+(?:(?:therefore|thus|then|only|just"
    r"|exactly)\s+)?([a-z]+(?:[ -][a-z]+){0,5})[.!\s]{0,4}$",
    re.IGNORECASE,
)
_ARTICLE = re.compile(r"^(?:the|la|el|le|die|der|das|l['’])\s?(?=[A-J]\W*$)")
_FENCE = re.compile(r"```\w{0,12}")
_REASON_IN_BOX = re.compile(r"(?<=[\w)\]}$%]),? ?\\text ?\{,? ?(?:since|because)\b")
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
_CONDITION = re.compile(r"\b(?:for some|for all|for any|for|where|with|when|if|when divided by)\s?$", re.IGNORECASE)
# "1/4 (or 0.25)": both have to be the answer.
_ALTERNATIVE = re.compile(r",? ?\(?\bor \$?(?P<value>-?[\d.,]{0,12}\d(?:/\d{1,9})?\s?\\?%?)\$?\)?[.\s]{0,3}$")
_OUT_OF = re.compile(r"\d{1,9} out of $")
_NO_SOLUTION = re.compile(r"\bthere (?:is|are) (no (?:real |integer |such )?solutions?)[.!\s]{0,3}$", re.IGNORECASE)
_MATHEMATICS = frozenset(
    {*SPELLED, *SYMPY_NAMES, *GREEK, *UNITS, "or", "and", "pi", "infty", "oo", "inf", "Matrix", "mu", "nu"} - {"mod"}
)


def final_answer(completion: str, mode: Mode = Mode.LENIENT) -> Statement | None:
    r"""The final answer of a completion, or None if it has none.

    Text before the last ``</think>`` and after the next message of the user does not count. A box that is never closed
    was cut off, so there is no answer.
    """
    text = shown(completion[_read_part(completion)])
    tag = last_match(_TAG, text, max(0, len(text) - TAIL_CHARACTERS)) if mode is Mode.LENIENT else None
    if tag is not None and tag[1].strip() and not BOX.search(text, tag.end()) and "begin_of_box" not in text:
        text = tag[1].strip()  # What stands last counts; a box in it is the answer.
    boxed = last_boxes(text if mode is Mode.STRICT else with_boxes(text))
    if boxed is not None:
        content = json_value(boxed.text) if boxed.text[:2] == '["' else None
        content = content or _without_phrase(undressed(_without_reason(boxed.text)))
        return dataclasses.replace(boxed, text=_signed(sign_of(boxed), content)) if content else None
    if mode is Mode.STRICT or BOX.search(text):
        return None
    text = without_code(_FENCE.sub("\n", text) if "```" in text else text)
    text = EMPHASIS.sub(r"\1", _TOKENS.sub(" ", text).strip()[-TAIL_CHARACTERS:])
    answer = _in_prose(text)
    if not answer:
        return None
    before, _, after = text.rpartition(answer)
    return Statement(answer, boxed=False, before=before, after=after)


def _without_reason(text: str) -> str:
    r"""A box's content up to its reason, ``42\text{ since }6\cdot7=42``, its paragraphs as a list."""
    text = _REASON_IN_BOX.split(text, maxsplit=1)[0]
    lines = [line.strip() for line in text.split("\n\n")] if "\n\n" in text and "\\begin" not in text else []
    return ", ".join(filter(None, lines)) if lines and all(map(is_bare, filter(None, lines))) else text


def _without_phrase(text: str) -> str:
    r"""The answer in a box that repeats its phrase: ``\text{The answer is B}``."""
    words = re.fullmatch(r"\\text\s?\{([^{}]*)\}", text)
    plain = text if words is None else words[1]
    phrase = last_phrase(plain) if " " in plain and "\\" not in plain else None
    return text if phrase is None or phrase.start() > 4 else _announced(plain, phrase) or text


def _signed(sign: str, text: str) -> str:
    return text if not sign else f"-{text}" if text.replace(".", "", 1).isalnum() else f"-({text})"


def _read_part(completion: str) -> slice:
    """The part of a completion that is searched for an answer."""
    begin = completion.rfind("</think>") + len("</think>") if "</think>" in completion else 0
    text = completion[begin:].partition("<think>")[0]  # A thought that never ends has no answer.
    end = begin + len(text)
    begin = max(begin, end - SCANNED_CHARACTERS)
    return slice(begin, begin + len(before_next_turn(completion[begin:end])))


def span_of(said: Statement, completion: str) -> tuple[int, int] | None:
    """Where an answer stands in its completion: its first character and the one after its last, the box's braces not
    among them. None where it is put together from several places, or stands there in other words.

    Args:
        said: of `final_answer`.
        completion: the same.
    """
    part, text = _read_part(completion), said.text
    begin, end = part.start, part.stop
    while text and (place := completion.rfind(text, begin, end)) >= 0:
        after = place + len(text)
        if not said.boxed or (
            _OPENED.search(completion, max(begin, place - 80), place) and _CLOSED.match(completion, after)
        ):
            return place, after
        end = after - 1
    return None


_OPENED = re.compile(rf"(?:{BOX.pattern}|<\|begin_of_box\|>)[\s\"'`*_“「$]*\Z")
_CLOSED = re.compile(r"[\s\"'`*_”」$]*(?:\}|<\|end_of_box)")

# ", or 13" and "I made a mistake; it should be 13" behind a box
_VALUE = r"[\s$\\(]{0,4}(?P<value>-?\d[\d,]*(?:\.\d+)?(?:/\d+)?)"
_ALSO = re.compile(
    rf"[\s$.)\]}}]{{0,8}},?\s{{0,4}}\(?(?:or|oder|ou|o|或|или)\s(?:(?:maybe|perhaps|possibly"
    rf"|else)\s)?{_VALUE}",
    re.IGNORECASE,
)
_CORRECTED = re.compile(
    r"\b(?:mistakes?|error|wrong|sorry|oops|actually|wait|guess)\b[^\n]{0,60}?"
    r"(?:\b(?:it|this|that|the (?:answer|result|value))(?:'s| is| was)|\b(?:should|must|ought to)(?: be| have been))"
    r"(?=[\s$\\(])" + _VALUE,
    re.IGNORECASE,
)


def later_answer(said: Statement) -> str | None:
    """Another answer that the text after a box states: "... The answer is 43."; None if it states none."""
    text = _TOKENS.sub(" ", said.after[:TAIL_CHARACTERS])
    if not said.boxed:
        return None
    if (other := _ALSO.match(text) or _CORRECTED.search(text[:400])) is not None:
        return other["value"]
    phrase = last_phrase(text)
    stated = None if phrase is None else _announced(text, phrase)
    if not stated or not is_bare(stated) or not re.search(r"\d|^[A-J]$", stated):
        return None
    is_letter = _LETTER_ALONE.fullmatch(stated) is not None
    has_letter = any(letter in said.text for letter in "ABCDEFGHIJ")
    return stated if is_letter == has_letter else None  # A choice's letter and its value are no two answers.


def last_boxed(text: str) -> str | None:
    """The content of the last boxes; None if no box is closed."""
    boxed = last_boxes(text[-SCANNED_CHARACTERS:])
    return None if boxed is None else boxed.text


def _in_prose(text: str) -> str | None:
    hope = last_match(HOPE, text)
    if hope is not None:
        text = text[: hope.start()].rstrip()
    text = undressed(text)
    if not text:
        return None
    text = _QED.sub("", text).rstrip()
    text = text[:-60] + _CONTRAST.sub("", text[-60:])
    phrase = last_phrase(text)
    if phrase is None and (is_bare(text) or _WORDS_ALONE.fullmatch(text)):
        return text.rsplit("\n", 1)[-1].strip() if "\\begin" not in text else text
    stated = None if phrase is None else _announced(text, phrase)
    if stated:
        return stated
    if (named := last_match(_ANSWER_AFTER, text)) is not None:
        return named["value"]
    if _REFUSAL.search(text[-300:]):
        return None
    if truth := _TRUTH.search(text[-60:]) or _NO_SOLUTION.search(text[-60:]):
        return truth[1]
    return _choice(text) or _last_line(text) or _values_at_end(text)


def _announced(text: str, phrase: re.Match[str]) -> str | None:
    """The answer after a phrase."""
    if phrase[0].startswith('"') and (value := json_value(text[phrase.end() :])):
        return value
    rest = text[FILLER.match(text, phrase.end()).end() :].removeprefix("}")  # type: ignore[union-attr]
    return _stated(rest) if rest.strip() else None


def is_bare(text: str) -> bool:
    """Whether a text is only an answer: no words but functions, units and "or"."""
    if len(text) > WHOLE_CHARACTERS or not text:
        return False
    words = _PROSE_WORD.findall(_LATEX_WORD.sub(" ", text))
    return all(word in _MATHEMATICS or word.lower() in _MATHEMATICS for word in words)


def _choice(text: str) -> str | None:
    """The letter of a choice at the end; or a letter, yes or no at the start of a short text."""
    choice = _CHOICE.search(text[-60:]) or _LETTER_IS.search(text[-80:])
    if choice and not _DENIED_BEFORE.search(text[-60:][: choice.start("letter")]) and "n't be" not in text[-60:]:
        return choice["letter"]
    if (
        "\n" not in text.strip()
        and len(text) <= 120
        and (choice := _LETTER_FIRST.match(text) or _YES_OR_NO.match(text))
        and not _DENIED_AFTER.match(text, choice.end(1))
        and not _ANOTHER_LETTER.search(text, choice.end(1))
        and f" {chr(ord(choice[1][0]) + 1)}. " not in text[choice.end(1) :]  # A list of the choices.
    ):
        return choice[1]
    return None


def _last_line(text: str) -> str | None:
    """The last line, if it is only an answer."""
    before, _, line = text.rstrip().rpartition("\n")
    line = line.strip().strip("*").strip()
    letter = _LETTER_ALONE.fullmatch(line)
    if letter:
        return letter["letter"]
    return line if before and line and is_bare(line) and _VALUE_FIRST.fullmatch(line) else None


def _values_at_end(text: str) -> str | None:
    """The value at the end, and the one before it if "or" joins them."""
    other = _ALTERNATIVE.search(text[-60:])
    if other is None:
        return _value_at_end(text)
    value = _value_at_end(text[: len(text) - len(other[0])])
    return None if value is None else rf"{value} \text{{ or }} {other['value']}"


def _value_at_end(text: str) -> str | None:
    formula = last_match(_FORMULA, text)
    if formula is not None and _CONDITION.search(text[max(0, formula.start() - 16) : formula.start()]):
        formula = last_match(_FORMULA, text[: formula.start()])
        if formula is not None:
            return _from_formula(formula)
    number = _last_number(text)
    last = max((match for match in (formula, number) if match), key=lambda match: match.end(), default=None)
    if last is not None and _is_denied(text, last):
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


def _is_denied(text: str, value: re.Match[str]) -> bool:
    """Whether the text around a value denies or doubts it: "not 42", "more than 42", "42?", "42 is wrong"."""
    before = text[max(0, value.start() - 40) : value.start()].rstrip()
    return (
        text[value.end() : value.end() + 1] in ("?", "吗")
        or _DENIED_IN_CHINESE.search(before[-8:]) is not None
        or _DENIED_BEFORE.search(before + " ") is not None
        or _DENIED_AFTER.match(text, value.end()) is not None
        or _CHANGED_BEFORE.search(before + " ") is not None
        or _CHANGED_AFTER.match(text, value.end()) is not None
    )


def _joined(text: str, formula: re.Match[str]) -> str | None:
    """The last formula and those that "and", "or" or commas join to it: "$x = 1$ and $x = 2$"."""
    parts = [_from_formula(formula)]
    start = formula.start()
    for before in reversed(list(_FORMULA.finditer(text, 0, start))[-MAX_JOINED:]):
        gap = _BETWEEN.match(text, before.end())
        if gap is None or gap.end() != start:
            break
        parts.append(r"\text{ or }" if gap["alternative"] else ",")
        parts.append(_from_formula(before))
        start = before.start()
    return None if None in parts else " ".join(part for part in reversed(parts) if part)


def _last_number(text: str) -> re.Match[str] | None:
    number = last_match(_NUMBER, text)
    if number is None:
        return None
    line = text.rfind("\n", 0, number.start()) + 1
    result = last_match(_RESULT, text, line)
    calculated = _NUMBER.match(text, result.end()) if result else None
    if calculated and not _CLAUSE.search(text, calculated.end()):
        return calculated
    return number


def _stated(rest: str) -> str | None:
    """The answer at the start of the text after "the answer is"."""
    rest = rest.strip()
    formula = _FORMULA.match(rest)
    if formula:
        return _formulas(formula, rest)
    end = _SENTENCE_END.search(rest)
    if end and end[0].startswith("?"):
        return None
    sentence = (rest[: end.start()] if end else rest).strip().strip("*").strip()
    sentence = _REASON.split(sentence, maxsplit=1)[0]
    sentence = ENDING.sub("", sentence.split("\n", 1)[0].strip()).strip().strip("*")
    if len(sentence) > 200 or (len(_IDEOGRAPHS.findall(sentence)) > 6 and _NUMBER.search(rest)):
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
        return None if _DENIED_IN_CHINESE.search(sentence[: counted.start(1)]) else counted[1]
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
    inner = last_match(_FORMULA, sentence)
    if inner is not None:
        words = _PROSE_WORD.findall(sentence[inner.end() :])
        number = last_match(_NUMBER, sentence[inner.end() :])
        if number is not None and words and words[-1].lower() not in ("when", "where", "for", "with", "if", "and"):
            return number["number"]  # "The largest $n$ is 34."
        return _from_formula(inner) if _only_words_before(sentence, inner) else sentence  # 3 $\frac{1}{2}$
    words = re.findall(r"[A-Za-z]{2,}", sentence)
    if len(words) <= 4:
        return sentence or None
    number = last_match(_NUMBER, sentence)
    if number is None or _is_denied(sentence, number):
        return None
    return whole_of(sentence, number.start("number"), number.end("number"))


def _only_words_before(sentence: str, formula: re.Match[str]) -> bool:
    """False for "all integers $k \\ge 2$": there the words are a part of the answer."""
    before = sentence[: formula.start()]
    words = _PROSE_WORD.findall(before)
    if not words:
        return not before.strip()[-1:].isdigit()
    return words[0].lower() not in ("all", "every", "any", "odd", "even", "no")


def _formulas(first: re.Match[str], text: str) -> str | None:
    """A formula and those that "or", "and" or commas join to it: "$x = 3$ or $x = 4$" is not $x = 3$."""
    answer = _from_formula(first, tail=text[first.end() :])
    end = first.end()
    while (gap := _BETWEEN.match(text, end)) and (following := _FORMULA.match(text, gap.end())):
        joint = r" \text{ or } " if gap["alternative"] else ", "
        answer = f"{answer}{joint}{_from_formula(following)}"
        end = following.end()
    return answer


def _from_formula(match: re.Match[str], tail: str = "") -> str | None:
    content = next((part for part in match.groups() if part is not None), "").strip()
    # "$28$ %" and "$28$ percent" are 28 percent.
    unit = re.match(r"\s?(\\?%|percent\b|pct\b)", tail)
    return f"{content} {unit[1]}" if unit and content else content or None
