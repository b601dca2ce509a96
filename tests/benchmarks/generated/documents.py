"""Whole completions around an answer, right or wrong by construction: language, blocks, dress, retractions, hedges.

The value is a number. A completion is reasoning with numbers that mislead, then an answer in one of `SHOWN`, and
behind it what changes nothing. Each of `SPOILS` makes a completion wrong although the right value stands there.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import NamedTuple


class Document(NamedTuple):
    kind: str
    reference: str
    completion: str
    same: bool


REASONING = (
    "First, {a} + {b} = {c}.", "There are {a} boxes with {b} balls each.", "Let x = {a}, then we look at the rest.",
    "Zuerst gibt es {a} Kugeln.", "D'abord, il y a {a} personnes.", "Primero hay {a} casas.",
    "Сначала есть {a} шаров.",
    "首先有{a}个苹果。", "まず{a}人がいます。", "먼저 {a}명이 있습니다.", "- step 1: {a}\n- step 2: {b}",
    "| n | value |\n|---|---|\n| 1 | {a} |", "> Is it {a}? No, since {b} is odd.", "```python\nprint({a})\n```",
    "Statement 2 is false, so we go on.", "It is a common mistake to forget {a}; we do not.",
    "<!-- a note: {a} -->", "\\[ {a} \\cdot {b} \\ne 0 \\]", "",
)  # fmt: skip
PHRASES = (
    "The answer is {}.", "Therefore, the final answer is {}.", "**Answer:** {}", "Final answer: {}", "#### {}",
    "So the answer is {}", "Die Antwort lautet: {}", "La réponse est {}.", "La respuesta es: {}", "A resposta é {}.",
    "Ответ: {}", "答案是{}", "答えは{}です。", "정답은 {}입니다.", "Đáp án là: {}",
    "Answer: {}\n\nI hope it is correct.",
)  # fmt: skip
DRESS = ("{}", "${}$", "\\({}\\)", "**{}**", "`{}`", '"{}"', "“{}”", "*{}*", "<b>{}</b>", "「{}」", "{} ✅")
BOXES = (
    "\\boxed{{{}}}", "$\\boxed{{{}}}$", "\\[\\boxed{{{}}}\\]", "\\fbox{{{}}}", "\\framebox{{{}}}", "**\\boxed{{{}}}**",
    "<answer>\\boxed{{{}}}</answer>", "= \\boxed{{{}}}", "Answer: \\boxed{{{}}}", "Thus we get $x = \\boxed{{{}}}$",
    "\\boxed{{\\text{{{}}}}}", "\\boxed{{`{}`}}", "> \\boxed{{{}}}", "- \\boxed{{{}}}",
    "<|begin_of_box|>{}<|end_of_box|>",
)  # fmt: skip
HARMLESS = (
    "", ".", "\n", " which completes the proof.", "\n\nThe answer is {}.", "\n\nThis is the number of ways.",
    "\n\nI hope it is correct.", " (see above).", "\n<!-- \\boxed{{0}} -->", "\n% \\boxed{{0}}", ", as required.",
)  # fmt: skip
RETRACTIONS = (
    " is wrong.", " is not correct.", "? No.", " (this is incorrect)", " Scratch that, the final answer is {o}.",
    ". The answer is {o}.", " is what a careless solver gets.", " ist falsch.", " est faux.", " es incorrecto.",
    " está errado.", " — неверно.", "不正确。", "は間違いです。", "이 아니다.", " خطأ", " गलत है।", " là sai.",
    " yanlış.",
    "\n#### {o}", ". Oops, that is false.", " is a common mistake.",
)  # fmt: skip
DOUBTS = (
    "A common mistake is {}.", "Suppose the answer were {}. Contradiction.", "If we forget a case we get {}.",
    "Some people claim that {} is right.", "It is not {}.", "The answer is half of {}.",
    "The answer is not equal to {}",
    "One might think it is {}.", "The careless solver gets {}.", "n'est pas {}.", "no es {}.", "答案不是{}",
)  # fmt: skip
OPERATIONS = (
    "\\frac{{1}}{{{}}}", "2\\cdot{}", "{}^2", "1-{}", "{}\\cdot 10^3", "\\neg{}", "x<{}", "\\sqrt{{{}}}", "${} + 1$",
    "{}\\times 2", "$n - {}$",
)  # fmt: skip
HEDGES = (
    "{} or {o}", "{o} or maybe {}", "{} (or {o})", "{}或{o}", "{} oder {o}", "{o}, or else {}", "{} или {o}",
    "Option 1: {o}; option 2: {}", "{o} == {} is True", "{} ou {o}", "{o}, possibly {}",
)  # fmt: skip
COMMENTS = (
    "{o}\n% {}", "{o} <!-- {} -->", "{o} \\iffalse {} \\fi", "{o}\\begin{{comment}}{}\\end{{comment}}", "{o} /* {} */",
    "{o}\n```python\nassert x == '{}'\n```",
)  # fmt: skip

LEADS = (
    "", "so ", "So ", "Thus, ", "Hence ", "Therefore ", "then ", "We get ", "and so ", "It follows that ", "(so ",
    "This gives ", "Janet has 5 apples.\nSo ", "We know n > 3. ", "As x = 3, we have ", "x = ", "so x = ",
    "Thus the total is ", "First line\n", "• one\n• ", "⇒ ", "∴ ", "所以", "Since 2 + 2 = 4, we find that ",
)  # fmt: skip
ENDS = ("", ".", " ", "\n", " apples.", ".\n", " dollars", "。")
EQUATIONS = ("{} = {}", "${} = \\boxed{{{}}}$")
CONTRADICTIONS = (
    *EQUATIONS, "{}={}", "${}$ = ${}$", "${} = {}$", "\\({} = {}\\)", "**{} = {}**", "$\\boxed{{{} = {}}}$",
    "{} = \\boxed{{{}}}", "\\[ {} = \\boxed{{{}}} \\]", "\\boxed{{x = {} = {}}}",
)  # fmt: skip
IN_WORDS = (
    "{} equals {}",
    "{} is equal to {}",
    "{} is the same as {}",
    "{} is {}",
    "${}$ is ${}$",
    "${}$ is $\\boxed{{{}}}$",
)
"""Not behind ``x =``: "x = 41 is 42" is about x where it is 41."""


def _value(source: random.Random) -> str:
    number = Fraction(source.randrange(2, 900), source.choice((1, 1, 1, 2, 7)))
    return (
        str(number.numerator) if number.denominator == 1 else rf"\frac{{{number.numerator}}}{{{number.denominator}}}"
    )


def _box(value: str, source: random.Random) -> str:
    return source.choice(BOXES).format(value)


def _plain(value: str) -> str:
    return value.replace(r"\frac{", "").replace("}{", "/").replace("}", "")


def _said(value: str, source: random.Random) -> str:
    dress = source.choice(DRESS)
    return source.choice(PHRASES).format(dress.format(value if "$" in dress or "\\(" in dress else _plain(value)))


def _calculation(value: str, source: random.Random) -> str:
    """What has this value."""
    number, by = Fraction(_plain(value)), source.randrange(2, 99)
    if number.denominator > 1:
        return source.choice((f"{number.numerator * by}/{number.denominator * by}", value, _plain(value)))
    forms = ("{0} + {2}", "{1} - {2}", "{3}/{2}", r"{0} + \frac{{{4}}}{{2}}", r"\frac{{{3}}}{{{2}}}")
    return source.choice(forms).format(number - by, number + by, by, number * by, 2 * by)


def _equation(value: str, source: random.Random) -> str:
    text = source.choice(EQUATIONS).format(_calculation(value, source), value)
    return source.choice(LEADS) + text + source.choice(ENDS)


def _contradiction(value: str, other: str, source: random.Random) -> str:
    lead = source.choice(LEADS)
    form = source.choice(CONTRADICTIONS if lead.endswith(("= ", "is ")) else (*CONTRADICTIONS, *IN_WORDS))
    left = source.choice((other, _plain(other), _calculation(other, source)))
    return lead + form.format(left, source.choice((value, _plain(value)))) + source.choice((*ENDS, "!"))


def _in_json(value: str, source: random.Random) -> str:
    record = {"reasoning": "a: 5, b: 7", source.choice(("answer", "final_answer")): source.choice((value, [value]))}
    text = json.dumps(record, indent=source.choice((None, 4)))
    return source.choice(("{}", "```json\n{}\n```")).format(text)


def _plain_box(value: str) -> str:
    return rf"\boxed{{{value}}}"


def _spoiled(patterns: tuple[str, ...]) -> Callable[[str, str, random.Random], str]:
    def write(value: str, other: str, source: random.Random) -> str:
        return source.choice(patterns).format(_plain_box(value), o=_plain_box(other))

    return write


SHOWN: dict[str, Callable[[str, random.Random], str]] = {
    "box": _box,
    "phrase": _said,
    "json": _in_json,
    "equation": _equation,
}
SPOILS: dict[str, Callable[[str, str, random.Random], str]] = {
    "retraction": lambda value, other, source: _plain_box(value) + source.choice(RETRACTIONS).format(o=other),
    "doubt": _spoiled(DOUBTS),
    "operation": _spoiled(OPERATIONS),
    "hedge": _spoiled(HEDGES),
    "comment": _spoiled(COMMENTS),
    "contradiction": _contradiction,
}
NAMES = [*SHOWN, *(f"wrong {name}" for name in SHOWN), *SPOILS]


def documents(seed: int) -> Iterator[Document]:
    """Completions without end, the same for the same seed."""
    source = random.Random(seed)
    while True:
        value, other = _value(source), _value(source)
        if value == other:
            continue
        kind = source.choice(NAMES)
        numbers = {name: source.randrange(2, 99) for name in "abc"}
        thoughts = "\n".join(source.choice(REASONING).format(**numbers) for _ in range(source.randrange(4)))
        spoil, name = SPOILS.get(kind), kind.removeprefix("wrong ")
        if spoil is not None:
            text = spoil(value, other, source)
        else:
            stated = value if kind == name else other
            text = SHOWN[name](stated, source)
            if name == "box":
                text += source.choice(HARMLESS).format(stated)
        yield Document(kind, value, f"{thoughts}\n\n{text}" if thoughts else text, kind in SHOWN)
