"""Families with a parameter, congruences, ratios, named values, propositions."""

# Notations are lists of texts: a line for each would be a page for each kind.
# ruff: noqa: E501

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Hashable
from fractions import Fraction
from typing import Any

from generated.kind import latex

Proposition = Any
"""A letter, ("not", inner) or (connective, left, right)."""


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
        rf"x \equiv {residue} \ (\text{{mod }} {modulus})", rf"{modulus}k + {residue}, k \in \mathbb{{Z}}", f"x ≡ {residue} (mod {modulus})",
    ]  # fmt: skip


def congruence_value(tree: tuple[int, int]) -> Hashable:
    residue, modulus = tree
    return residue % modulus, modulus


def change_congruence(tree: tuple[int, int], source: random.Random) -> tuple[int, int]:
    residue, modulus = tree
    return source.choice([((residue + 1) % modulus, modulus), (residue, modulus + 1 + residue)])


def ratio(source: random.Random) -> tuple[int, int]:
    a, b = source.randint(1, 20), source.randint(2, 20)
    return a // math.gcd(a, b), b // math.gcd(a, b)  # 12:30 is a time of day


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


def listed(source: random.Random) -> tuple[int, int, int]:
    return source.randint(2, 9), source.randint(-9, 9), source.randint(2, 5)


def listed_value(tree: tuple[int, int, int]) -> Hashable:
    a, b, last = tree
    return frozenset(a * k + b for k in range(last + 1))


def write_listed(tree: tuple[int, int, int]) -> list[str]:
    a, b, last = tree
    written = ", ".join(str(a * k + b) for k in range(last + 1))
    some = ", ".join(map(str, range(last + 1)))
    form = f"{a}k + {b}" if b >= 0 else f"{a}k - {-b}"
    return [
        rf"{form}, k = 0, 1, \ldots, {last}", f"{form}, k = {some}", rf"{form}, k \in \{{{some}\}}", written,
        rf"\{{{written}\}}", rf"{form.replace('k', 'n')}, 0 \le n \le {last}",
    ]  # fmt: skip


def change_listed(tree: tuple[int, int, int], source: random.Random) -> tuple[int, int, int]:
    a, b, last = tree
    return source.choice([(a + 1, b, last), (a, b + 1, last), (a, b, last + 1), (a, b, last - 1)])


def progression(source: random.Random) -> tuple[int, int, str]:
    return source.randint(2, 9), source.randint(0, 9), source.choice(["N", "Z"])


def progression_value(tree: tuple[int, int, str]) -> Hashable:
    """All integers k may be shifted, natural ones may not."""
    a, b, domain = tree
    return (a, b % a, domain) if domain == "Z" else tree


def write_progression(tree: tuple[int, int, str]) -> list[str]:
    a, b, domain = tree
    return [
        rf"{a}k + {b}, k \in \mathbb{{{domain}}}", rf"{a}n + {b} \ (n \in \mathbb{{{domain}}})",
        rf"\{{{a}m + {b} : m \in \mathbb{{{domain}}}\}}", rf"{b} + {a}k \text{{ for }} k \in \mathbb{{{domain}}}",
    ]  # fmt: skip


def change_progression(tree: tuple[int, int, str], source: random.Random) -> tuple[int, int, str]:
    a, b, domain = tree
    return source.choice(
        [(a + 1, b, domain), (a, b + 1, domain), (a, b + a, domain), (a, b, "N" if domain == "Z" else "Z")]
    )


# ── formulas with letters that are given: no family, whatever an answer says of them ──


def sequence(source: random.Random) -> tuple[int, int]:
    return source.choice([-1, 1]) * source.randint(2, 9), source.randint(-20, 20)


def write_sequence(tree: tuple[int, int]) -> list[str]:
    step, start = tree
    form = f"{step}n {start:+d}" if start else f"{step}n"
    return [
        f"a_n = {form}", form, rf"a_n = {form}, n \in \mathbb{{N}}^*", rf"a_n = {form} \ (n \in \mathbb{{N}}^*)",
        rf"a_n = {start} + ({step})n",
    ]  # fmt: skip


def change_sequence(tree: tuple[int, int], source: random.Random) -> tuple[int, int]:
    step, start = tree
    return source.choice([(step, start + step), (step, start - step), (-step, start), (step, start + 1)])


def formula_of_pi(source: random.Random) -> tuple[int, int, int, str]:
    """``a pi (r + b)^power`` with a letter that is given."""
    return source.choice([-2, -1, 1, 2, 4]), source.randint(0, 3), source.choice([1, 1, 2]), source.choice("rstpql")


def write_formula_of_pi(tree: tuple[int, int, int, str]) -> list[str]:
    a, b, power, letter = tree
    inner = f"({letter} + {b})" if b else letter
    raised = f"{inner}^{power}" if power > 1 else inner
    forms = [rf"{a}\pi {raised}", rf"S = {a}\pi {raised}", rf"{raised} \cdot {a} \pi", rf"{2 * a}\pi {raised} / 2"]
    return [*forms, rf"{a}\pi {letter} + {a * b}\pi"] if power == 1 and b else forms


def change_formula_of_pi(tree: tuple[int, int, int, str], source: random.Random) -> tuple[int, int, int, str]:
    a, b, power, letter = tree
    other = source.choice([name for name in "rstpqlkn" if name != letter])
    return source.choice(
        [(-a, b, power, letter), (a, b + 1, power, letter), (a, b, 3 - power, letter), (a, b, power, other)]
    )


def formula(source: random.Random) -> tuple[str, str, str]:
    return source.choice(["quotient", "difference", "power"]), *source.sample("abvwrs", 2)


def write_formula(tree: tuple[str, str, str]) -> list[str]:
    shape, a, b = tree
    own = {
        "quotient": [rf"\frac{{{a}}}{{{b}}}", f"{a}/{b}"],
        "difference": [f"{a}-{b}", f"-{b}+{a}"],
        "power": [f"{a}^2+{b}", f"{b}+{a}^2"],
    }[shape]
    said = [
        rf"{own[0]}, {a} \in \mathbb{{R}}",
        rf"{own[1]} \text{{ for some }} {b}",
        rf"{own[0]} \text{{ for some constant }} {a}",
    ]
    return [*own, *said]


def change_formula(tree: tuple[str, str, str], source: random.Random) -> tuple[str, str, str]:
    shape, a, b = tree
    other = source.choice([name for name in "cdtuk" if name not in (a, b)])
    return source.choice([(shape, b, a), (shape, other, b), (shape, a, other), (shape, other, a)])


def given_constant(source: random.Random) -> tuple[int, int]:
    return source.randint(1, 4), source.randint(-4, 4)


def write_given_constant(tree: tuple[int, int]) -> list[str]:
    slope, add = tree
    form = f"{slope}x + c {add:+d}" if add else f"{slope}x + c"
    return [form, f"y = {form}", f"c + {slope}x" + (f" {add:+d}" if add else "")]


# ── propositions: (connective, left, right), ("not", inner) or a letter ──


def proposition(source: random.Random, depth: int = 3) -> Proposition:
    if depth == 0:
        return source.choice("pqr")
    connective = source.choice(["and", "or", "implies", "iff", "not", "not"])
    if connective == "not":
        return ("not", proposition(source, depth - 1))
    return (connective, proposition(source, depth - 1), proposition(source, source.randrange(depth)))


def truth_table(tree: Proposition) -> Hashable:
    rows = itertools.product((False, True), repeat=3)
    return tuple(_holds(tree, dict(zip("pqr", row, strict=True))) for row in rows)


def _holds(tree: Proposition, values: dict[str, bool]) -> bool:
    if isinstance(tree, str):
        return values[tree]
    inner = [_holds(part, values) for part in tree[1:]]
    if tree[0] == "not":
        return not inner[0]
    left, right = inner
    return {"and": left and right, "or": left or right, "implies": right or not left, "iff": left == right}[tree[0]]


_SIGNS = (
    {"not": r"\neg ", "and": r" \land ", "or": r" \lor ", "implies": r" \implies ", "iff": r" \iff "},
    {"not": "¬", "and": " ∧ ", "or": " ∨ ", "implies": " → ", "iff": " ↔ "},
    {"not": r"\lnot ", "and": r" \wedge ", "or": r" \vee ", "implies": r" \to ", "iff": r" \Leftrightarrow "},
)


def write_proposition(tree: Proposition) -> list[str]:
    # The first is a connective, so that it can only be read as logic.
    whole: Proposition = ("not", ("not", tree))
    by_rules = _by_rules(whole)
    return [_shown(form, signs) for form in (whole, by_rules, ("and", by_rules, by_rules)) for signs in _SIGNS]


def _by_rules(tree: Proposition) -> Proposition:
    """De Morgan's rules and what an implication stands for."""
    if isinstance(tree, str):
        return tree
    if tree[0] == "implies":
        return ("or", ("not", _by_rules(tree[1])), _by_rules(tree[2]))
    if tree[0] == "not" and not isinstance(tree[1], str):
        inner = tree[1]
        if inner[0] == "not":
            return _by_rules(inner[1])
        if inner[0] in ("and", "or"):
            other = "or" if inner[0] == "and" else "and"
            return (other, _by_rules(("not", inner[1])), _by_rules(("not", inner[2])))
    return (tree[0], *map(_by_rules, tree[1:]))


def _shown(tree: Proposition, signs: dict[str, str]) -> str:
    if isinstance(tree, str):
        return tree
    inner = [part if isinstance(part, str) else f"({_shown(part, signs)})" for part in tree[1:]]
    return signs["not"] + inner[0] if tree[0] == "not" else signs[tree[0]].join(inner)


def change_proposition(tree: Proposition, source: random.Random) -> Proposition:
    return source.choice([("not", tree), ("and", tree, source.choice("pqr")), ("or", tree, source.choice("pqr"))])
