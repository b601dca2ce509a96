"""What models and school software write around and inside an answer: labels, words, choices, units, fonts, Greek and
SymPy in ASCII, letters that are words or could be functions. The values are calculated here, from the trees.
"""

# Notations are lists of texts: a line for each would be a page for each kind.
# ruff: noqa: E501

from __future__ import annotations

import itertools
import random
from collections.abc import Hashable
from fractions import Fraction
from typing import Any

from generated.kind import latex

Tree = Any


def write_named_value(n: int) -> list[str]:
    """The reference is the first: a value; the left side of the others says of what."""
    return [
        str(n), f"m+n={n}", f"a+b+c = {n}", rf"\frac{{m}}{{n}} = {n}", rf"|\vec a| = {n}", f"[ABC]={n}", rf"\max f(x)={n}",
        rf"\operatorname{{Var}}(X)={n}", rf"P(A\cup B)=P(A)+P(B)={n}", f"f(2)=f(1)+1={n}", f"A = lw = {n - 1} + 1 = {n}",
        rf"\text{{rank}}(A) = {n}", f"e = {n}", rf"d \cdot p \div (4d \cdot p) = \frac{{d}}{{4d}} = {n}",
    ]  # fmt: skip


def write_words_around(n: int) -> list[str]:
    return [
        str(n), rf"\text{{The area is }} {n}", rf"\text{{The area is {n}}}", rf"\text{{Area}} = {n}", rf"\text{{Total cost}} = \${n}",
        rf"\text{{{n} apples}}", rf"\text{{There are {n} ways}}", rf"{n}\text{{ ways}}", f"the sum is {n}",
    ]  # fmt: skip


def change_words_around(n: int, source: random.Random) -> int:
    return n + source.choice([1, -1, 10, 2 * n])


LETTERS = "ABCDE"


def write_choice(letter: str) -> list[str]:
    return [
        letter, rf"\text{{{letter}}}", rf"\text{{Option {letter}}}", rf"\textbf{{({letter})}}", rf"\mathrm{{({letter})}}\ 42", f"({letter})",
        rf"\text{{({letter}) }} 12", rf"\mathbf{{{letter}}}",
    ]  # fmt: skip


_FACTORS = {"": 1, "k": 1_000, "M": 1_000_000, "m": Fraction(1, 1000), "µ": Fraction(1, 1_000_000)}


def resistance(source: random.Random) -> tuple[int, str, str]:
    return source.randint(2, 99), source.choice("Ωms"), source.choice(["k", "", "µ"])


def resistance_value(tree: tuple[int, str, str]) -> Hashable:
    n, unit, prefix = tree
    return n * _FACTORS[prefix], unit


def write_resistance(tree: tuple[int, str, str]) -> list[str]:
    n, unit, prefix = tree
    symbol = r"\Omega" if unit == "Ω" else unit
    before = r"\mu " if prefix == "µ" else prefix
    texts = [rf"{n}\ \mathrm{{{before}{symbol}}}", f"{n} {prefix}{unit}", rf"{n}\text{{ {prefix}{unit}}}"]
    texts.append(rf"{1000 * n}\,\mathrm{{{'' if prefix == 'k' else 'm' if prefix == '' else 'n'}{symbol}}}")
    if prefix == "µ":
        texts += [rf"{n}\text{{ u{unit}}}", rf"{n}\,\mu\mathrm{{{symbol}}}"]
    return texts


def change_resistance(tree: tuple[int, str, str], source: random.Random) -> tuple[int, str, str]:
    n, unit, prefix = tree
    return source.choice(
        [
            (n + 1, unit, prefix),
            (n, unit, {"k": "", "": "µ", "µ": "k"}[prefix]),
            (n, {"Ω": "m", "m": "s", "s": "Ω"}[unit], prefix),
        ]
    )


def write_labelled_point(tree: tuple[int, int]) -> list[str]:
    a, b = tree
    return [
        f"({a}, {b})", rf"\text{{Vertex: }}({a}, {b})", f"P({a}, {b})" if a < 0 or b < 0 else f"({a},{b})", f"x = {a}, y = {b}", rf"(x, y) = ({a}, {b})",
        rf"\text{{Center}} = ({a}, {b})",
    ]  # fmt: skip


def opposite_signs(source: random.Random) -> tuple[int, int, bool]:
    return source.randint(1, 20), source.randint(1, 20), source.random() < 0.5


def opposite_value(tree: tuple[int, int, bool]) -> Hashable:
    a, b, opposite = tree
    return frozenset([(a, -b), (-a, b)] if opposite else [(a, b), (-a, -b)])


def write_opposite(tree: tuple[int, int, bool]) -> list[str]:
    a, b, opposite = tree
    c = -b if opposite else b
    texts = [f"({a}, {c}), ({-a}, {-c})", rf"({-a}, {-c}) \text{{ or }} ({a}, {c})"]
    return (
        [*texts, rf"(\pm {a}, \mp {b})", rf"(\mp {a}, \pm {b})"] if opposite else [*texts, f"({-a}, {-c}), ({a}, {c})"]
    )


def change_opposite(tree: tuple[int, int, bool], source: random.Random) -> tuple[int, int, bool]:
    a, b, opposite = tree
    return source.choice([(a, b, not opposite), (a + 1, b, opposite), (a, b + 2, opposite)])


def write_styled(value: Fraction) -> list[str]:
    text = latex(value)
    return [
        text, rf"\color{{red}} {text}", rf"{{\color{{blue}}{text}}}", rf"\textcolor{{red}}{{{text}}}", rf"\mathbf{{{text}}}", rf"\underline{{{text}}}",
        rf"\large {text}", rf"\bm{{{text}}}", rf"\boldsymbol{{{text}}}",
    ]  # fmt: skip


_WORDS = ("by", "of", "no", "it", "to")


def word_formula(source: random.Random) -> tuple[int, str, str]:
    return source.randint(2, 9), source.choice(_WORDS), source.choice(["c", "w", "q"])


def word_value(tree: tuple[int, str, str]) -> Hashable:
    n, word, letter = tree
    return n, "".join(sorted(word)), letter


def write_word_formula(tree: tuple[int, str, str]) -> list[str]:
    n, word, letter = tree
    first, second = word
    return [
        rf"\frac{{{letter}-{word}}}{{{n}}}", rf"\frac{{{letter}}}{{{n}}}-\frac{{{word}}}{{{n}}}", rf"\frac{{{letter}-{second}{first}}}{{{n}}}",
        rf"({letter}-{first} \cdot {second})/{n}", rf"-\frac{{{word}-{letter}}}{{{n}}}",
    ]  # fmt: skip


def change_word_formula(tree: tuple[int, str, str], source: random.Random) -> tuple[int, str, str]:
    n, word, letter = tree
    return source.choice([(n + 1, word, letter), (n, source.choice(_WORDS), letter), (n, word, source.choice("cwq"))])


def factor_before_brackets(source: random.Random) -> tuple[str, int, int]:
    return source.choice("ghFfGm"), source.randint(2, 9), source.choice([-3, -2, -1, 1, 2, 3])


def write_factor(tree: tuple[str, int, int]) -> list[str]:
    """The reference is the first, in which the letter stands without brackets."""
    letter, a, b = tree
    sign = f"{'+' if b > 0 else '-'} {abs(b)}"
    return [
        rf"{a}{letter}u {'+' if b > 0 else '-'} {abs(a * b)}{letter}d", rf"{a}{letter}(u {sign}d)", rf"{a}{letter}\left(u {sign} d\right)",
        rf"{letter}({a}u {'+' if b > 0 else '-'} {abs(a * b)}d)", rf"{a}(u {sign}d){letter}", f"{a}*{letter}*(u {sign}*d)",
    ]  # fmt: skip


def change_factor(tree: tuple[str, int, int], source: random.Random) -> tuple[str, int, int]:
    letter, a, b = tree
    return source.choice([(letter, a + 1, b), (letter, a, -b), (source.choice("ghFfGm"), a, b)])


_SYMPY = {
    "abs": ("Abs({a}*x)", r"|{a}x|"), "max": ("Max(x, {a})", r"\max({a}, x)"), "factorial": ("factorial({a})", "{a}!"),
    "binomial": ("binomial(n, {a})", r"\binom{{n}}{{{a}}}"), "rational": ("Rational({a}, 11)", r"\frac{{{a}}}{{11}}"), "root": ("root(x, {a})", r"\sqrt[{a}]{{x}}"),
    "interval": ("Interval(0, {a})", "[0, {a}]"), "open": ("Interval.open(0, {a})", "(0, {a})"), "set": ("FiniteSet(0, {a})", r"\{{{a}, 0\}}"),
    "equation": ("Eq(x, {a})", "x = {a}"), "power": ("E**({a}*x)", "e^{{{a}x}}"), "complex": ("{a} + 3*I", "{a}+3i"),
}  # fmt: skip


def sympy_name(source: random.Random) -> tuple[str, int]:
    return source.choice(list(_SYMPY)), source.randint(3, 9)


def write_sympy(tree: tuple[str, int]) -> list[str]:
    name, a = tree
    return [form.format(a=a) for form in _SYMPY[name]]


def change_sympy(tree: tuple[str, int], source: random.Random) -> tuple[str, int]:
    name, a = tree
    return source.choice([(name, a + 1), (source.choice(list(_SYMPY)), a)])


_GREEK = ("mu", "lambda", "theta", "phi", "omega", "alpha", "rho", "Delta", "epsilon")


def greek(source: random.Random) -> tuple[int, str, str]:
    return source.randint(2, 9), *source.sample(_GREEK, 2)  # type: ignore[return-value]


def write_greek(tree: tuple[int, str, str]) -> list[str]:
    n, first, second = tree
    return [
        f"{n}*{first}*g/{second}", rf"\frac{{{n}\{first} g}}{{\{second}}}", rf"{n}g\frac{{\{first}}}{{\{second}}}", f"({n}*g*{first})/({second})",
        rf"g\{first}\cdot\frac{{{n}}}{{\{second}}}",
    ]  # fmt: skip


def change_greek(tree: tuple[int, str, str], source: random.Random) -> tuple[int, str, str]:
    n, first, second = tree
    other = source.choice([name for name in _GREEK if name not in (first, second)])
    return source.choice([(n + 1, first, second), (n, second, first), (n, other, second)])


def write_thousands(n: int) -> list[str]:
    return [
        rf"\frac{{{n:,}}}{{r^2}}", rf"\frac{{{n}}}{{r^2}}", rf"{n:,}\left(\frac{{1}}{{r^2}}\right)", f"{n}/r^2", rf"\frac{{{n:,}}}{{r \cdot r}}",
        rf"\frac{{\sqrt{{{n:,}}}\sqrt{{{n}}}}}{{r^2}}",
    ]  # fmt: skip


_SIGNS = ("∗", "×", "·", "⋅", "∙", "✕", "*")


def write_signs(tree: tuple[int, int]) -> list[str]:
    a, b = tree
    products = [f"{a}{sign}x" for sign in _SIGNS]
    return [f"{left} {minus} {b}" for left, minus in itertools.product(products, "-−–")][:: 2 if a % 2 else 3]


def change_signs(tree: tuple[int, int], source: random.Random) -> tuple[int, int]:
    a, b = tree
    return source.choice([(a + 1, b), (a, b + 1), (b + a, a)])


def chain(source: random.Random) -> tuple[int, int, int]:
    """The value, a part of it and an error in a step."""
    n = source.randint(20, 900)
    return n, source.randint(2, n - 2), 0


def chain_value(tree: tuple[int, int, int]) -> Hashable:
    n, _, error = tree
    return n if error == 0 else ("false", n)


def write_chain(tree: tuple[int, int, int]) -> list[str]:
    n, part, error = tree
    step = f"{part} + {n - part + error}"
    return [
        str(n), f"x = {step} = {n}", f"A = lw = {step} = {n}", f"f(2) = f(1) + {part} = {step} = {n}", rf"\text{{Area}} = ab + c = {step} = {n}",
        f"m + n = {step} = {n}", f"P(A) + P(B) = xy = {step} = {n}",
    ]  # fmt: skip


def change_chain(tree: tuple[int, int, int], source: random.Random) -> tuple[int, int, int]:
    n, part, error = tree
    return source.choice([(n + 1, part, error), (n, part, source.choice([-1, 1, 10])), (n + 2, part, -2)])


def write_conjugates(tree: tuple[int, int]) -> list[str]:
    a, b = tree
    return [
        rf"{a}z + ({b})\overline{{z}}", rf"({b})\bar z + {a}z", rf"({a + b})\operatorname{{Re}}(z) + ({a - b})i\operatorname{{Im}}(z)",
        rf"({a + b})\operatorname{{Re}}(z) + {a}i\operatorname{{Im}}(z) - ({b})i\operatorname{{Im}}(z)",
    ]  # fmt: skip


def signs_by_letter(source: random.Random) -> tuple[str, int, bool]:
    return source.choice("nkmxyt"), source.randint(2, 9), True


def sign_value(tree: tuple[str, int, bool]) -> Hashable:
    """A power of -1 is a cosine where its letter counts, and only there."""
    letter, a, _ = tree
    return (letter, a) if letter in "nkm" else tree


def write_signs_by_letter(tree: tuple[str, int, bool]) -> list[str]:
    letter, a, as_power = tree
    power = [f"{a}(-1)^{{{letter}}}", rf"{a} \cdot (-1)^{letter}", f"-{a}(-1)^{{{letter}+1}}"]
    cosine = [rf"{a}\cos(\pi {letter})", rf"{a} \cos({letter}\pi)", rf"\cos(\pi {letter}) \cdot {a}"]
    if letter in "nkm":
        return power + cosine
    return power if as_power else cosine


def change_signs_by_letter(tree: tuple[str, int, bool], source: random.Random) -> tuple[str, int, bool]:
    letter, a, as_power = tree
    return source.choice(
        [(letter, a + 1, as_power), (letter, a, not as_power), (source.choice("nkmxyt"), a, as_power)]
    )
