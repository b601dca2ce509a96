"""Sets, sets of sets, tuples, unions of intervals, half-lines."""

from __future__ import annotations

import random
from collections.abc import Hashable
from fractions import Fraction

from generated.numbers import latex


def several(source: random.Random) -> tuple[Fraction, ...]:
    some = [Fraction(source.randint(-30, 30), source.choice([1, 1, 2, 3])) for _ in range(source.randint(1, 3))]
    return tuple(dict.fromkeys([*some, Fraction(40), Fraction(50)]))


def write_tuple(tree: tuple[Fraction, ...]) -> list[str]:
    items = ", ".join(map(latex, tree))
    column = r" \\ ".join(map(latex, tree))
    texts = [f"({items})", f"({','.join(map(str, tree))})", rf"\begin{{pmatrix}} {column} \end{{pmatrix}}"]
    return [*texts, rf"\langle {items} \rangle", f"({','.join('xyzwv'[: len(tree)])}) = ({items})"]


def write_set(tree: tuple[Fraction, ...]) -> list[str]:
    turned = [latex(item) for item in tree[::-1]]
    texts = [r"\{" + ", ".join(map(latex, tree)) + r"\}", r"\left\{" + "; ".join(turned) + r"\right\}"]
    return [*texts, "{" + ",".join(map(str, tree)) + "}", r" \text{ or } ".join(f"x = {item}" for item in turned)]


def nested_set(source: random.Random) -> tuple[tuple[int, ...], ...]:
    sets = {tuple(source.sample(range(8), source.randint(1, 3))) for _ in range(source.randint(2, 4))}
    return tuple(sorted({*sets, (8,)}))


def of_sets(tree: tuple[tuple[int, ...], ...]) -> Hashable:
    return frozenset(map(frozenset, tree))


def write_nested_set(tree: tuple[tuple[int, ...], ...]) -> list[str]:
    texts = ["{" + ", ".join(map(str, inner)) + "}" for inner in tree]
    turned = ["{" + ",".join(map(str, inner[::-1])) + "}" for inner in tree[::-1]]
    plain = ["{" + ", ".join(texts) + "}", "{" + ",".join(turned) + "}"]
    return [*plain, *(text.replace("{", r"\{").replace("}", r"\}") for text in plain)]


def union(source: random.Random) -> tuple[tuple[int, bool], ...]:
    """Four ends from left to right, and whether each is closed."""
    return tuple((end, source.random() < 0.5) for end in sorted(source.sample(range(-20, 20), 4)))


def write_union(tree: tuple[tuple[int, bool], ...]) -> list[str]:
    def interval(low: tuple[int, bool], high: tuple[int, bool]) -> str:
        return f"{'[' if low[1] else '('}{low[0]}, {high[0]}{']' if high[1] else ')'}"

    def chain(low: tuple[int, bool], high: tuple[int, bool]) -> str:
        signs = ("<", r"\le")
        return f"{low[0]} {signs[low[1]]} x {signs[high[1]]} {high[0]}"

    a, b, c, d = tree
    chains = rf"{chain(a, b)} \text{{ or }} {chain(c, d)}"
    texts = [rf"{interval(a, b)} \cup {interval(c, d)}", rf"x \in {interval(c, d)} \cup {interval(a, b)}"]
    return [*texts, chains, rf"\{{x \mid {chains}\}}"]


def half_line(source: random.Random) -> tuple[Fraction, bool, bool]:
    """Its end, whether it is closed, and whether the line lies above it."""
    return Fraction(source.randint(-30, 30), source.choice([1, 2, 3])), source.random() < 0.5, source.random() < 0.5


def write_half_line(tree: tuple[Fraction, bool, bool]) -> list[str]:
    end, closed, above = tree
    number = latex(end)
    less, more = (r"\le", r"\ge") if closed else ("<", ">")
    sign, turned = (more, less) if above else (less, more)
    left, right = ("[", "]") if closed else ("(", ")")
    interval = rf"{left}{number}, \infty)" if above else rf"(-\infty, {number}{right}"
    return [f"x {sign} {number}", f"{number} {turned} x", rf"x \in {interval}", f"2x {sign} {latex(2 * end)}"]
