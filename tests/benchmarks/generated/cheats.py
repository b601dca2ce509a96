r"""Answers that are wrong by construction, of kinds that an attack on the grader once found paid.

Kinds in which the number that is drawn does not matter are rows of ``tests/reward_server/grader/cheats.jsonl``.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from math_reward.grader.words.vocabulary import NO_LABELS

Drawn = tuple[str, list[str]]
"""A reference, and answers that differ from it."""


def brackets(source: random.Random) -> Drawn:
    a = source.randint(-9, 9)
    b = a + source.randint(1, 9)
    reference = source.choice([f"[{a},{b}]", f"({a},{b}]", f"[{a},{b})"])
    return reference, [f"{a},{b}", f"({a},{b})", rf"\{{{a},{b}\}}", f"{a}; {b}", f"x={a}, x={b}", f"]{a},{b}["]


def double_zero(source: random.Random) -> Drawn:
    """Each answer has a factor that adds solutions and never changes the sign."""
    a, b = source.randint(1, 9), source.randint(1, 9)
    line, factors = f"y-{a}x-{b}", [f"(x-{b})^2", f"(x-{b})^4", f"|x-{b}|", rf"(1-\cos(x-{b}))", rf"\max(0,x-{b})"]
    return f"y={a}x+{b}", [f"({line}){factor}=0" for factor in [*factors, rf"\sqrt{{|x-{b}|}}", rf"\min(1,|x-{b}|)"]]


def imaginary_part(source: random.Random) -> Drawn:
    a, b = source.randint(2, 99), source.randint(2, 99)
    number = rf"{a}+{b}i"
    operations = [rf"\max({number})", rf"\min({number})", rf"\lfloor {number} \rfloor", rf"({number}) \bmod {a + b}"]
    return str(a), [*operations, rf"\max({number}, 1)", rf"{a}+0.{b}i", rf"{a}+{b}\mathrm{{i}}"]


def merged_ends(source: random.Random) -> Drawn:
    """Ends of intervals that are the same float."""
    a = source.randint(-9, 9)
    b, tiny = a + source.randint(1, 9), rf"10^{{-{source.randint(13, 60)}}}"
    begin = f"[{a - 1},{a}"
    gaps = [rf"{begin}]\cup[{a}+{tiny},{b}]", rf"{begin}-{tiny}]\cup[{a},{b}]", rf"{begin})\cup({a},{b}]"]
    return f"[{a - 1},{b}]", [*gaps, rf"[{a - 1},{b}-{tiny}]", rf"[{a - 1}+{tiny},{b}]", rf"[{a - 1},{b}+{tiny})"]


def shifted(source: random.Random) -> Drawn:
    """A word or a range in the answer makes no family of a formula."""
    step, start = source.randint(2, 9), source.randint(1, 9)
    reference, letter = source.choice([(rf"{step}k+{start}, k \in \mathbb{{N}}", "k"), (f"{step}n+{start}", "n")])
    moved = f"{step}{letter}{start + source.choice([step, -step, 2 * step]):+d}"
    ranges = [r"\in\mathbb{N}^*", r"\in\mathbb{N}", r"\ge 1", r"\in\mathbb{Z}"]
    return reference, [
        *(f"{moved}, {letter}{some}" for some in ranges),
        rf"{moved}\text{{ for some integer }}{letter}",
    ]


def too_small(source: random.Random) -> Drawn:
    """A factor or a term that is 1 or 0 in hundreds of digits."""
    n = source.randint(150, 900)
    constant = source.choice([r"\sqrt2", r"\pi", r"\frac13", "1", "e", r"\ln 3", "x", "x^2+1", r"\sin x"])
    tower = "2"
    for _ in range(source.randint(30, 45)):
        tower = rf"\sqrt[1000]{{{tower}}}"
    factors = [rf"\zeta({n})", tower, rf"\tanh({n})", rf"(1-e^{{-{n}}})", rf"\cos(10^{{-{n}}})", rf"2^{{10^{{-{n}}}}}"]
    return constant, [*(rf"({constant}){factor}" for factor in factors), rf"({constant})+2^{{-{n}}}"]


def whole_numbers(source: random.Random) -> Drawn:
    """Equal for the first whole numbers, and not for all."""
    last = source.randint(9, 60)
    factorials = [rf"\min(n,{last})!", rf"n!+\lfloor n/{last + 1}\rfloor", rf"n! + \max(0, n-{last})"]
    powers = [rf"2^{{\min(n,{last})}}+(-1)^n", rf"2^n+(-1)^n+\max(0, n-{last})"]
    return source.choice([("n!", factorials), ("2^n+(-1)^n", powers)])


CHANGES = (
    "dozens", "hundreds", "thousands", "millions", "lakh", "crore", "gross", "score", "pairs", "couples", "tens",
    "trios", "permille", "ppm", "doubled", "tripled", "halved", "negative", "bogus", "fake", "odd", "imaginary",
    "reciprocal", "feet square", "squared", "x", "~i", "pi", "over 7", "on top of 10", "with 7", "each 7", "as 7",
    "per 7", "given 7", "or more", "for odd n", "percentile or 3", "removed or 7",
)  # fmt: skip


def word_behind(source: random.Random) -> Drawn:
    """A word that changes the number is no unit."""
    number = source.randint(3, 9999)
    return str(number), [rf"{number} \{source.choice(('text', 'mathrm', 'textbf'))}{{ {word}}}" for word in CHANGES]


def sign_in_a_text(source: random.Random) -> Drawn:
    number = source.randint(3, 9999)
    before = ("-", "1/", "<", ">", r"\ge", "−", "+1+", r"3\cdot", "~-")
    behind = (rf"{number}\text{{{sign}}}" for sign in ("²", "...", "!", "^2", "+1", "%1", "e5"))
    both = (text for sign in before for text in (rf"\text{{{sign}}}{number}", rf"\text{{{sign}{number}}}"))
    return str(number), [*behind, *both]


def value_of_another(source: random.Random) -> Drawn:
    number, link = source.randint(3, 9999), source.choice(("为", "是", "=", ":"))
    chinese = ("错误答案", "平方", "一半", "答案加一", "两倍", "倒数", "相反数", "另一个")
    named = (rf"\text{{{word} area}}{link} {number}" for word in NO_LABELS for link in (" =", "{}:", r"\text{ is }"))
    in_chinese = (text for label in chinese for text in (f"{label}{link}{number}", rf"\text{{{label}{link}}}{number}"))
    return str(number), [*named, *in_chinese]


def to_be_solved(source: random.Random) -> Drawn:
    name, factor, rest = source.choice("xyn"), source.randint(2, 40), source.choice((-1, 1)) * source.randint(1, 9)
    number = source.randint(3, 9999)
    left = (f"{factor}{name}", f"{factor}{name}{rest:+d}", rf"\frac{{{name}}}{{{factor}}}")
    return str(number), [f"{side} = {number}" for side in left]


CHEATS: dict[str, Callable[[random.Random], Drawn]] = {
    "brackets": brackets,
    "double zero": double_zero,
    "imaginary part dropped": imaginary_part,
    "ends merged": merged_ends,
    "shifted": shifted,
    "too small to see": too_small,
    "whole numbers": whole_numbers,
    "a word behind": word_behind,
    "a sign in a text": sign_in_a_text,
    "value of another": value_of_another,
    "to be solved": to_be_solved,
}
