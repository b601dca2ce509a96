r"""Pairs of answers whose equality is known by construction: how often is the grader wrong about them?

    python tests/benchmarks/differential.py --pairs 1000000 [--seed 1] [--kinds surd nested-set ...] [--show 20]

An answer is drawn as a tree whose value is known (a fraction, a surd, a union of intervals, a family ...) and written
in several notations. An accept is two writings of one tree, in a box or in a sentence in one of thirteen languages; a
reject is a writing of a tree in which one thing has changed (a sign, a digit, a bracket, an element, an end, a branch,
a unit's prefix) and whose value therefore differs: what is compared is the value of the trees, never their texts.

Prints a table by kind, with 95 % Wilson intervals. Exit code 0 where false accepts are 0 and false rejects at most
0.5 %, else 1.
"""

# Notations are lists of texts: a line for each would be a page for each kind.
# ruff: noqa: E501

from __future__ import annotations

import argparse
import math
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from math_reward.grader import grade

MAX_FALSE_REJECTS = 0.005

Tree = Any
"""The parameters of one answer: numbers, tuples of numbers."""


@dataclass(frozen=True)
class Kind:
    """A kind of answer."""

    draw: Callable[[random.Random], Tree]
    value: Callable[[Tree], Hashable]
    """What two trees have in common that mean the same."""
    write: Callable[[Tree], list[str]]
    """The notations of a tree."""
    change: Callable[[Tree, random.Random], Tree]
    """A tree in which one thing is another."""


class Pair(NamedTuple):
    kind: str
    reference: str
    completion: str
    same: bool


# ── numbers ──


def latex(value: Fraction) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    sign = "-" if value < 0 else ""
    return rf"{sign}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"


def decimal(value: Fraction) -> str | None:
    below = value.denominator
    for prime in (2, 5):
        while below % prime == 0:
            below //= prime
    if below != 1:
        return None
    text = f"{float(value):.9f}".rstrip("0").rstrip(".")
    return text if Fraction(text) == value else None


def integer(source: random.Random) -> int:
    return source.choice([source.randint(2, 20), source.randint(21, 999), source.randint(1000, 10**7)])


def write_integer(n: int) -> list[str]:
    texts = [str(n), f"{n}.0", f"{n + 3} - 3", rf"\frac{{{2 * n}}}{{2}}", f"x = {n}", rf"\text{{{n}}}", f"+{n}"]
    if n >= 1000:
        texts += [f"{n:,}", f"{n:,}".replace(",", "{,}"), f"{n:,}".replace(",", r"\,"), f"{n:,}".replace(",", r",\!")]
    return texts


def fraction(source: random.Random) -> Fraction:
    return Fraction(source.randint(-60, 60) or 7, source.randint(2, 30))


def write_fraction(value: Fraction) -> list[str]:
    above, below = value.numerator, value.denominator
    texts = [
        latex(value),
        latex(value).replace("frac", "dfrac"),
        f"{above}/{below}",
        rf"\frac{{{3 * above}}}{{{3 * below}}}",
    ]
    texts.append(rf"\left({latex(value)}\right)")
    if below > 1:
        texts.append(rf"{above} \div {below}")
    exact = decimal(value)
    if exact is not None:
        texts += [exact, rf"{decimal(value * 100) or exact}\%" if decimal(value * 100) else exact]
    if value > 1 and below > 1:
        whole, rest = divmod(value, 1)
        texts += [
            rf"{whole}\frac{{{rest.numerator}}}{{{rest.denominator}}}",
            f"{whole} {rest.numerator}/{rest.denominator}",
        ]
    return texts


def change_number(value: Any, source: random.Random) -> Any:
    return source.choice([-value, value + 1, value * 10, value - 2, value * 2])


# ── surds, logarithms, trigonometry, complex numbers ──


def surd(source: random.Random) -> tuple[Fraction, int, int]:
    return Fraction(source.randint(-9, 9)), source.randint(2, 9), source.choice([2, 3, 5, 6, 7, 10, 11, 13])


def write_surd(tree: tuple[Fraction, int, int]) -> list[str]:
    a, b, r = tree
    head = "" if a == 0 else f"{latex(a)} + "
    return [
        rf"{head}{b}\sqrt{{{r}}}", rf"{head}\sqrt{{{b * b * r}}}", f"{head}{b}*sqrt({r})", f"{head}{b}√{r}",
        rf"{head}{b} \cdot {r}^{{1/2}}", rf"{head}\frac{{{b * r}}}{{\sqrt{{{r}}}}}", rf"{b}\sqrt{{{r}}} + ({latex(a)})",
    ]  # fmt: skip


def change_surd(tree: tuple[Fraction, int, int], source: random.Random) -> tuple[Fraction, int, int]:
    a, b, r = tree
    return source.choice([(a + 1, b, r), (a - 3, b, r), (a, b + 1, r), (a, b, r + 7), (-a - 1, b, r)])


def logarithm(source: random.Random) -> tuple[int, int]:
    return source.randint(2, 7), source.choice([2, 3, 5, 7])


def write_logarithm(tree: tuple[int, int]) -> list[str]:
    k, n = tree
    return [rf"{k}\ln {n}", rf"\ln({n**k})", f"{k}*log({n})", rf"\ln {n}^{{{k}}}", rf"-\ln\frac{{1}}{{{n**k}}}"]


def angle(source: random.Random) -> Fraction:
    return Fraction(source.randint(1, 11), source.choice([2, 3, 4, 5, 6, 12]))


def write_angle(value: Fraction) -> list[str]:
    above, below = value.numerator, value.denominator
    texts = [rf"{latex(value)}\pi", rf"\frac{{{above}\pi}}{{{below}}}", f"{above}*pi/{below}", f"{above}π/{below}"]
    degrees = value * 180
    return [*texts, rf"{degrees}^\circ", f"{degrees}°"] if degrees.denominator == 1 else texts


def complex_number(source: random.Random) -> tuple[int, int]:
    return source.randint(-9, 9), source.choice([-7, -4, -3, -2, 2, 3, 5, 8])


def write_complex(tree: tuple[int, int]) -> list[str]:
    a, b = tree
    sign = "+" if b > 0 else "-"
    return [
        f"{a} {sign} {abs(b)}i", f"{b}i + {a}" if a >= 0 else f"{b}i - {abs(a)}", f"{a} {sign} i*{abs(b)}",
        rf"{a} {sign} {abs(b)}\sqrt{{-1}}", f"z = {a} {sign} {abs(b)}i",
    ]  # fmt: skip


def change_pair(tree: tuple[int, int], source: random.Random) -> tuple[int, int]:
    a, b = tree
    return source.choice([(a, -b), (a + 1, b), (-a, b), (b, a), (a, b + 1)])


# ── polynomials, rational functions, equations ──


def polynomial(source: random.Random) -> tuple[int, int, int]:
    return source.randint(1, 6), source.randint(-9, 9), source.randint(-9, 9)


def expanded(tree: tuple[int, int, int]) -> tuple[int, int, int]:
    a, b, c = tree
    return a, a * (b + c), a * b * c


def _signed(n: int, rest: str = "") -> str:
    return f"{'+' if n >= 0 else '-'} {abs(n)}{rest}"


def write_polynomial(tree: tuple[int, int, int]) -> list[str]:
    a, b, c = tree
    p, q, r = expanded(tree)
    return [
        f"{a}(x {_signed(b)})(x {_signed(c)})", f"{p}x^2 {_signed(q, 'x')} {_signed(r)}",
        f"{p}*x**2 {_signed(q, '*x')} {_signed(r)}", f"{r} {_signed(q, 'x')} {_signed(p, 'x^{2}')}",
        rf"f(x) = {p}x^2 {_signed(q, 'x')} {_signed(r)}", rf"{a}\left(x {_signed(c)}\right)\left(x {_signed(b)}\right)",
    ]  # fmt: skip


def change_triple(tree: tuple[int, int, int], source: random.Random) -> tuple[int, int, int]:
    place = source.randrange(3)
    changed = list(tree)
    changed[place] = -changed[place] if source.random() < 0.5 else changed[place] + 1
    return changed[0], changed[1], changed[2]


def write_rational_function(tree: tuple[int, int, int]) -> list[str]:
    a, b, c = tree
    return [
        rf"\frac{{{a}}}{{x {_signed(b)}}} {_signed(c)}", f"{a}/(x {_signed(b)}) {_signed(c)}",
        rf"\frac{{{a} {_signed(c)}(x {_signed(b)})}}{{x {_signed(b)}}}", rf"{c} + {a}(x {_signed(b)})^{{-1}}",
    ]  # fmt: skip


def line_equation(source: random.Random) -> tuple[int, int, int]:
    return source.randint(1, 6), source.choice([1, 2, 3, 4]), source.randint(-9, 9)


def write_equation(tree: tuple[int, int, int]) -> list[str]:
    a, b, c = tree
    return [
        f"{a}x + {b}y = {c}", f"{2 * a}x + {2 * b}y = {2 * c}", f"{b}y = {c} - {a}x", f"{a}x + {b}y - ({c}) = 0",
        rf"y = \frac{{{c} - {a}x}}{{{b}}}", f"-{a}x - {b}y = {-c}",
    ]  # fmt: skip


def line_value(tree: tuple[int, int, int]) -> Hashable:
    a, b, c = tree
    return Fraction(b, a), Fraction(c, a)


def write_circle(tree: tuple[int, int, int]) -> list[str]:
    a, b, r = tree
    return [
        f"(x {_signed(-a)})^2 + (y {_signed(-b)})^2 = {r}", rf"\frac{{(x {_signed(-a)})^2 + (y {_signed(-b)})^2}}{{{r}}} = 1",
        f"x^2 + y^2 {_signed(-2 * a, 'x')} {_signed(-2 * b, 'y')} = {r - a * a - b * b}",
    ]  # fmt: skip


# ── tuples, sets, intervals, matrices ──


def several(source: random.Random) -> tuple[Fraction, ...]:
    numbers: list[Fraction] = []
    while len(numbers) < source.randint(2, 4):
        number = Fraction(source.randint(-30, 30), source.choice([1, 1, 2, 3]))
        if number not in numbers:
            numbers.append(number)
    return tuple(numbers)


def write_tuple(tree: tuple[Fraction, ...]) -> list[str]:
    items, plain = [latex(item) for item in tree], [str(item) for item in tree]
    texts = ["(" + ", ".join(items) + ")", rf"\left({', '.join(items)}\right)", "(" + ",".join(plain) + ")"]
    texts.append(r"\begin{pmatrix} " + r" \\ ".join(items) + r" \end{pmatrix}")
    texts.append(r"\langle " + ", ".join(items) + r"\rangle")
    if len(tree) < 4:
        texts.append(", ".join(f"{name} = {item}" for name, item in zip("xyz", items, strict=False)))
        texts.append(f"({','.join('xyz'[: len(tree)])}) = ({', '.join(items)})")
    return texts


def change_tuple(tree: tuple[Fraction, ...], source: random.Random) -> tuple[Fraction, ...]:
    place = source.randrange(len(tree))
    shorter = tree[:place] + tree[place + 1 :]
    return source.choice(
        [tree[::-1], tree[1:] + tree[:1], (*tree[:place], tree[place] + 1, *tree[place + 1 :]), (*tree, Fraction(31))]
        + ([shorter] if len(tree) > 2 else [])
    )


def write_set(tree: tuple[Fraction, ...]) -> list[str]:
    items = [latex(item) for item in tree]
    turned = items[::-1]
    return [
        r"\{" + ", ".join(items) + r"\}", r"\left\{" + ", ".join(turned) + r"\right\}", "{" + ",".join(map(str, tree)) + "}",
        r"\{" + "; ".join(turned) + r"\}", r" \text{ or } ".join(f"x = {item}" for item in turned),
    ]  # fmt: skip


def nested_set(source: random.Random) -> tuple[tuple[int, ...], ...]:
    return tuple({tuple(sorted(source.sample(range(8), source.randint(1, 3)))) for _ in range(source.randint(2, 5))})


def write_nested_set(tree: tuple[tuple[int, ...], ...]) -> list[str]:
    def one(inner: tuple[int, ...], turned: bool) -> str:
        return r"\{" + ", ".join(map(str, inner[::-1] if turned else inner)) + r"\}"

    return [
        r"\{" + ", ".join(one(inner, False) for inner in tree) + r"\}",
        r"\left\{" + ",".join(one(inner, True) for inner in tree[::-1]) + r"\right\}",
        "{" + ",".join("{" + ",".join(map(str, inner)) + "}" for inner in tree) + "}",
    ]


def change_nested_set(tree: tuple[tuple[int, ...], ...], source: random.Random) -> tuple[tuple[int, ...], ...]:
    place = source.randrange(len(tree))
    other = (*tree[place][:-1], tree[place][-1] + 1) if source.random() < 0.5 else (*tree[place], 9)
    return source.choice([tree[:place] + tree[place + 1 :], (*tree[:place], other, *tree[place + 1 :]), (*tree, (9,))])


def union(source: random.Random) -> tuple[tuple[int, bool], ...]:
    ends = sorted(source.sample(range(-20, 20), 4))
    return tuple((end, source.random() < 0.5) for end in ends)


def write_union(tree: tuple[tuple[int, bool], ...]) -> list[str]:
    (a, ca), (b, cb), (c, cc), (d, cd) = tree

    def interval(low: int, closed: bool, high: int, also: bool) -> str:
        return f"{'[' if closed else '('}{low}, {high}{']' if also else ')'}"

    def chain(low: int, closed: bool, high: int, also: bool) -> str:
        signs = ("<", r"\le")
        return f"{low} {signs[closed]} x {signs[also]} {high}"

    left, right = interval(a, ca, b, cb), interval(c, cc, d, cd)
    return [
        rf"{left} \cup {right}", rf"x \in {right} \cup {left}", f"{left}∪{right}",
        rf"{chain(a, ca, b, cb)} \text{{ or }} {chain(c, cc, d, cd)}",
        rf"\{{x \mid {chain(a, ca, b, cb)} \text{{ or }} {chain(c, cc, d, cd)}\}}",
    ]  # fmt: skip


def change_union(tree: tuple[tuple[int, bool], ...], source: random.Random) -> tuple[tuple[int, bool], ...]:
    place = source.randrange(4)
    end, closed = tree[place]
    other = (
        (end, not closed)
        if source.random() < 0.6
        else (end + (1 if place == 3 else 0) - (1 if place == 0 else 0), closed)
    )
    return (*tree[:place], other, *tree[place + 1 :])


def half_line(source: random.Random) -> tuple[Fraction, bool, bool]:
    return Fraction(source.randint(-30, 30), source.choice([1, 2, 3])), source.random() < 0.5, source.random() < 0.5


def write_half_line(tree: tuple[Fraction, bool, bool]) -> list[str]:
    end, closed, above = tree
    number = latex(end)
    sign = {(True, True): r"\ge", (True, False): r"\le", (False, True): ">", (False, False): "<"}[closed, above]
    turned = {r"\ge": r"\le", r"\le": r"\ge", ">": "<", "<": ">"}[sign]
    interval = (
        rf"{'[' if closed else '('}{number}, \infty)" if above else rf"(-\infty, {number}{']' if closed else ')'}"
    )
    return [
        f"x {sign} {number}", f"{number} {turned} x", interval, rf"x \in {interval}", f"2x {sign} {latex(2 * end)}",
        rf"\{{x : x {sign} {number}\}}",
    ]  # fmt: skip


def change_half_line(tree: tuple[Fraction, bool, bool], source: random.Random) -> tuple[Fraction, bool, bool]:
    end, closed, above = tree
    return source.choice([(end, not closed, above), (end, closed, not above), (end + 1, closed, above)])


def matrix(source: random.Random) -> tuple[int, ...]:
    return tuple(source.randint(-9, 9) for _ in range(4))


def write_matrix(tree: tuple[int, ...]) -> list[str]:
    a, b, c, d = tree
    return [
        rf"\begin{{{kind}matrix}} {a} & {b} \\ {c} & {d} \end{{{kind}matrix}}" for kind in ("p", "b")
    ] + [
        rf"\left[\begin{{array}}{{cc}} {a} & {b} \\ {c} & {d} \end{{array}}\right]",
        rf"\begin{{pmatrix}} \frac{{{2 * a}}}{{2}} & {b} \\ {c} & {d}.0 \end{{pmatrix}}",
        rf"\frac{{1}}{{2}}\begin{{pmatrix}} {2 * a} & {2 * b} \\ {2 * c} & {2 * d} \end{{pmatrix}}",
    ]  # fmt: skip


def change_matrix(tree: tuple[int, ...], source: random.Random) -> tuple[int, ...]:
    a, b, c, d = tree
    return source.choice([(a, c, b, d), (b, a, d, c), (a + 1, b, c, d), (a, b, c, -d), (c, d, a, b)])


# ── families, congruences, ratios, named values ──


def family(source: random.Random) -> tuple[Fraction, Fraction]:
    return Fraction(source.randint(0, 5), 6), Fraction(source.choice([1, 2, 1]), source.choice([1, 2, 3]))


def family_value(tree: tuple[Fraction, Fraction]) -> Hashable:
    start, step = tree
    return start % step, step


def write_family(tree: tuple[Fraction, Fraction]) -> list[str]:
    start, step = tree
    return [
        rf"{latex(start)}\pi + {latex(step)}k\pi", rf"x = {latex(start)}\pi + {latex(step)}n\pi",
        rf"{latex(start + step)}\pi + {latex(step)}m\pi", rf"{latex(start)}\pi + {latex(step)}\pi k, k \in \mathbb{{Z}}",
        rf"{latex(start - step)}\pi + {latex(step)}n\pi \text{{ for any integer }} n",
    ]  # fmt: skip


def change_family(tree: tuple[Fraction, Fraction], source: random.Random) -> tuple[Fraction, Fraction]:
    start, step = tree
    return source.choice(
        [(start + Fraction(1, 12), step), (start, step * 2), (start, step / 2), (start + step / 3, step)]
    )


def congruence(source: random.Random) -> tuple[int, int]:
    modulus = source.randint(3, 30)
    return source.randrange(modulus), modulus


def write_congruence(tree: tuple[int, int]) -> list[str]:
    residue, modulus = tree
    return [
        rf"x \equiv {residue} \pmod{{{modulus}}}", rf"{residue + modulus} \pmod{{{modulus}}}",
        rf"x \equiv {residue} \ (\text{{mod }} {modulus})", f"{modulus}k + {residue}", f"x ≡ {residue} (mod {modulus})",
    ]  # fmt: skip


def congruence_value(tree: tuple[int, int]) -> Hashable:
    residue, modulus = tree
    return residue % modulus, modulus


def change_congruence(tree: tuple[int, int], source: random.Random) -> tuple[int, int]:
    residue, modulus = tree
    return source.choice([((residue + 1) % modulus, modulus), (residue, modulus + 1 + residue)])


def ratio(source: random.Random) -> tuple[int, int]:
    return source.randint(1, 20), source.randint(2, 20)


def write_ratio(tree: tuple[int, int]) -> list[str]:
    a, b = tree
    return [f"{a}:{b}", f"{3 * a} : {3 * b}", rf"{a}\colon {b}"]


def named(source: random.Random) -> tuple[int, int]:
    a = source.randint(-20, 20)
    return a, a + source.randint(1, 9)


def write_named(tree: tuple[int, int]) -> list[str]:
    a, b = tree
    return [
        f"a = {a}, b = {b}", f"b = {b}, a = {a}", rf"a = {a} \text{{ and }} b = {b}",
        rf"\begin{{cases}} a = {a} \\ b = {b} \end{{cases}}", f"a={a}; b={b}",
    ]  # fmt: skip


# ── units, money, bases, times, words, counts, sums ──

LENGTHS = {"mm": Fraction(1, 1000), "cm": Fraction(1, 100), "m": Fraction(1), "km": Fraction(1000)}


def length(source: random.Random) -> tuple[int, str]:
    return source.randint(2, 900), source.choice(sorted(LENGTHS))


def write_length(tree: tuple[int, str]) -> list[str]:
    n, unit = tree
    names = {"mm": "millimeters", "cm": "centimeters", "m": "meters", "km": "kilometers"}
    texts = [
        rf"{n} \text{{ {unit}}}",
        rf"{n}\,\mathrm{{{unit}}}",
        f"{n} {names[unit]}",
        rf"{n}~\text{{{names[unit]}}}",
    ]
    for other, size in LENGTHS.items():
        count = n * LENGTHS[unit] / size
        if count.denominator == 1 and count < 10**6:
            texts.append(rf"{count} \text{{ {other}}}")
    return texts


def change_length(tree: tuple[int, str], source: random.Random) -> tuple[int, str]:
    n, unit = tree
    return source.choice([(n + 1, unit), (n, source.choice(sorted({*LENGTHS} - {unit}))), (n * 10, unit)])


def speed(source: random.Random) -> tuple[int, str]:
    return source.randint(2, 90), source.choice(["m/s", "km/h", "kg m/s^2", "g/cm^3"])


def write_speed(tree: tuple[int, str]) -> list[str]:
    n, unit = tree
    spelled = {
        "m/s": ["meters per second", r"m s^{-1}"], "km/h": ["kilometers per hour", "km per hour"],
        "kg m/s^2": ["N", r"kg\,m\,s^{-2}"], "g/cm^3": ["grams per cubic centimeter", r"g\,cm^{-3}"],
    }[unit]  # fmt: skip
    return [rf"{n} \text{{ {unit}}}", *(rf"{n} \text{{ {other}}}" for other in spelled if "\\," not in other)]


def change_speed(tree: tuple[int, str], source: random.Random) -> tuple[int, str]:
    n, unit = tree
    others = sorted({"m/s", "km/h", "kg m/s^2", "g/cm^3"} - {unit})
    return source.choice([(n + 1, unit), (n, source.choice(others)), (-n, unit)])


def money(source: random.Random) -> int:
    return source.randint(101, 99_999)


def write_money(cents: int) -> list[str]:
    amount = f"{cents // 100}.{cents % 100:02d}"
    return [
        rf"\${amount}",
        f"${amount}",
        rf"{amount} \text{{ dollars}}",
        amount,
        rf"\${cents // 100:,}.{cents % 100:02d}",
    ]


def based(source: random.Random) -> tuple[int, int]:
    return source.randint(20, 500), source.randint(2, 9)


def in_base(n: int, base: int) -> str:
    digits = ""
    while n:
        n, digit = divmod(n, base)
        digits = f"{digit}{digits}"
    return digits


def write_based(tree: tuple[int, int]) -> list[str]:
    n, base = tree
    return [f"{in_base(n, base)}_{base}", f"{in_base(n, base)}_{{{base}}}", rf"{in_base(n, base)}_{{\text{{{base}}}}}"]


def clock(source: random.Random) -> tuple[int, int]:
    return source.randint(1, 11), source.randint(0, 59)


def write_clock(tree: tuple[int, int]) -> list[str]:
    hour, minute = tree
    return [rf"{hour}:{minute:02d} \text{{ PM}}", f"{hour}:{minute:02d} p.m.", f"{hour + 12}:{minute:02d}:00"]


WORDS = [
    "Monday",
    "Tuesday",
    "red",
    "blue",
    "even",
    "odd",
    "Alice",
    "Bob",
    "increasing",
    "decreasing",
    "circle",
    "ellipse",
]


def write_word(word: str) -> list[str]:
    return [
        word,
        rf"\text{{{word}}}",
        rf"\textbf{{{word}}}",
        word.lower(),
        rf"\text{{ {word} }}",
        rf"\mathrm{{{word}}}",
    ]


SPELLED = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


def write_spelled(n: int) -> list[str]:
    return [str(n), SPELLED[n], rf"\text{{{SPELLED[n]}}}", SPELLED[n].capitalize()]


def write_millions(n: int) -> list[str]:
    return [f"{n} million", rf"{n} \text{{ million}}", f"{n},000,000", rf"{n} \times 10^6", f"{n}000000"]


def choices(source: random.Random) -> tuple[int, int]:
    n = source.randint(4, 12)
    return n, source.randint(2, n // 2)


def write_choices(tree: tuple[int, int]) -> list[str]:
    n, k = tree
    return [
        rf"\binom{{{n}}}{{{k}}}", f"C_{{{n}}}^{{{k}}}", f"C({n}, {k})", rf"{{}}^{{{n}}}C_{{{k}}}", str(math.comb(n, k)),
        rf"\frac{{{n}!}}{{{k}!{n - k}!}}", rf"{{{n} \choose {k}}}",
    ]  # fmt: skip


def write_sum(n: int) -> list[str]:
    # Only a reference may leave it to be calculated; the first of the list is it.
    return [rf"\sum_{{k=1}}^{{{n}}} k", str(n * (n + 1) // 2), rf"\frac{{{n}({n}+1)}}{{2}}"]


def same_tree(tree: Tree) -> Hashable:
    return tree


KINDS: dict[str, Kind] = {
    "integer": Kind(integer, same_tree, write_integer, change_number),
    "fraction": Kind(fraction, same_tree, write_fraction, change_number),
    "surd": Kind(surd, same_tree, write_surd, change_surd),
    "logarithm": Kind(logarithm, lambda tree: tree[1] ** tree[0], write_logarithm, lambda t, s: (t[0] + s.choice([1, 2]), t[1])),
    "angle": Kind(angle, same_tree, write_angle, change_number),
    "complex": Kind(complex_number, same_tree, write_complex, change_pair),
    "polynomial": Kind(polynomial, expanded, write_polynomial, change_triple),
    "rational function": Kind(polynomial, same_tree, write_rational_function, change_triple),
    "equation": Kind(line_equation, line_value, write_equation, change_triple),
    "circle": Kind(lambda s: (s.randint(-6, 6), s.randint(1, 6), s.randint(1, 30)), same_tree, write_circle, change_triple),
    "tuple": Kind(several, same_tree, write_tuple, change_tuple),
    "set": Kind(several, frozenset, write_set, change_tuple),
    "nested set": Kind(
        nested_set, lambda tree: frozenset(map(frozenset, tree)), write_nested_set, change_nested_set
    ),
    "union": Kind(union, same_tree, write_union, change_union),
    "half-line": Kind(half_line, same_tree, write_half_line, change_half_line),
    "matrix": Kind(matrix, same_tree, write_matrix, change_matrix),
    "family": Kind(family, family_value, write_family, change_family),
    "congruence": Kind(congruence, congruence_value, write_congruence, change_congruence),
    "ratio": Kind(ratio, lambda tree: Fraction(*tree), write_ratio, change_pair),
    "named values": Kind(named, same_tree, write_named, change_pair),
    "length": Kind(length, lambda tree: tree[0] * LENGTHS[tree[1]], write_length, change_length),
    "compound unit": Kind(speed, same_tree, write_speed, change_speed),
    "money": Kind(money, same_tree, write_money, change_number),
    "base": Kind(based, same_tree, write_based, lambda t, s: (t[0] + s.randint(1, 9), t[1])),
    "time of day": Kind(clock, same_tree, write_clock, lambda tree, source: ((tree[0] % 11) + 1, tree[1])),
    "word": Kind(lambda s: s.choice(WORDS), str.lower, write_word, lambda tree, s: s.choice(WORDS)),
    "number in words": Kind(lambda s: s.randint(0, 12), same_tree, write_spelled, lambda n, s: (n + s.randint(1, 12)) % 13),
    "millions": Kind(lambda s: s.randint(2, 99), same_tree, write_millions, lambda n, s: n + s.choice([1, 9 * n])),
    "choices": Kind(choices, lambda tree: math.comb(*tree), write_choices, lambda t, s: (t[0] + s.choice([1, 2]), t[1])),
    "sum": Kind(lambda s: s.randint(3, 60), same_tree, write_sum, lambda n, s: n + s.choice([1, -1])),
}  # fmt: skip

BOXED = [
    r"So the answer is $\boxed{%s}$.", r"\boxed{%s}", r"\[ \boxed{%s} \]", r"**Answer:** \boxed{ %s }", r"\boxed{%s.}",
    r"First I get \boxed{17}, but no: \boxed{%s}<|im_end|>", r"<think>\boxed{99}</think> It is \fbox{%s}",
    r"\boxed{$%s$}", r"<|begin_of_box|>%s<|end_of_box|>",
]  # fmt: skip
UNBOXED = [
    "The final answer is $%s$.", "Adding up, we are done.\n\n**Answer:** $%s$", "#### $%s$", "所以答案是$%s$。", "【答案】$%s$",
    "答えは$%s$です。", "정답은 $%s$입니다.", "La réponse est $%s$.", "Die Antwort lautet $%s$.", "La respuesta es $%s$.",
    "A resposta é $%s$.", "Ответ: $%s$", "الجواب هو $%s$", "उत्तर: $%s$", "Đáp án là $%s$.", "Cevap: $%s$",
    "<answer>$%s$</answer>",
]  # fmt: skip


def pairs(seed: int, kinds: list[str] | None = None) -> Iterator[Pair]:
    """Pairs without end, every kind in turn, accepts and rejects in turn."""
    source = random.Random(seed)
    names = kinds or list(KINDS)
    while True:
        for name in names:
            kind = KINDS[name]
            tree = kind.draw(source)
            texts = kind.write(tree)
            place = source.randrange(len(texts))
            reference = texts[place]
            answers = [text for text in texts[1:] if text != reference] or texts[1:]
            yield Pair(name, reference, _said(source.choice(answers), source), True)
            other = kind.change(tree, source)
            if kind.value(other) != kind.value(tree):
                yield Pair(name, reference, _said(source.choice(kind.write(other)[1:]), source), False)


def _said(answer: str, source: random.Random) -> str:
    plain = "$" in answer or "\\text" in answer
    template = source.choice(BOXED if plain or source.random() < 0.7 else UNBOXED)
    if "$" in answer:
        template = r"\boxed{%s}"
    return template.replace("%s", answer)


def wilson(wrong: int, of: int) -> tuple[float, float]:
    """The 95 % confidence interval of a proportion (Wilson 1927)."""
    if not of:
        return 0.0, 1.0
    z = 1.959964
    share = wrong / of
    centre = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z / (1 + z * z / of) * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return max(0.0, centre - half), min(1.0, centre + half)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", nargs="*", choices=list(KINDS))
    parser.add_argument("--show", type=int, default=5, help="misses to print of each kind")
    arguments = parser.parse_args()

    asked: Counter[tuple[str, bool]] = Counter()
    missed: dict[tuple[str, bool], list[Pair]] = defaultdict(list)
    for pair, _ in zip(pairs(arguments.seed, arguments.kinds), range(arguments.pairs), strict=False):
        asked[pair.kind, pair.same] += 1
        if grade(pair.completion, pair.reference).correct != pair.same:
            missed[pair.kind, pair.same].append(pair)
    print("| kind | equal pairs | false rejects | unequal pairs | false accepts |\n|---|---|---|---|---|")
    for name in arguments.kinds or KINDS:
        rejects, accepts = len(missed[name, True]), len(missed[name, False])
        print(f"| {name} | {asked[name, True]:,} | {rejects:,} | {asked[name, False]:,} | {accepts:,} |")
    equal, unequal = (sum(n for (_, same), n in asked.items() if same is wanted) for wanted in (True, False))
    rejects, accepts = (sum(len(p) for (_, same), p in missed.items() if same is wanted) for wanted in (True, False))
    print(f"| all | {equal:,} | {rejects:,} | {unequal:,} | {accepts:,} |\n")
    for what, wrong, of in (("false rejects", rejects, equal), ("false accepts", accepts, unequal)):
        low, high = wilson(wrong, of)
        print(f"{what}: {wrong / max(of, 1):.4%} (95 % interval {low:.4%} to {high:.4%})")
    for (name, same), found in missed.items():
        for pair in found[: arguments.show]:
            print(f"{'false reject' if same else 'FALSE ACCEPT'} {name}: {pair.reference!r} | {pair.completion!r}")
    return 0 if not accepts and rejects <= MAX_FALSE_REJECTS * equal else 1


if __name__ == "__main__":
    sys.exit(main())
