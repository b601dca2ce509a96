"""Tuples, sets, nested sets, unions of intervals, half-lines, matrices, answers to several questions."""

# Notations are lists of texts: a line for each would be a page for each kind.
# ruff: noqa: E501

from __future__ import annotations

import random
from fractions import Fraction

from generated.kind import latex


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
    sets: set[tuple[int, ...]] = set()
    while len(sets) < 2 or source.random() < 0.6:
        sets.add(tuple(sorted(source.sample(range(8), source.randint(1, 3)))))
        if len(sets) == 5:
            break
    return tuple(sorted(sets))


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


def write_parts(tree: tuple[Fraction, ...]) -> list[str]:
    items = [latex(item) for item in tree]
    numbers = range(1, len(items) + 1)
    return [
        "; ".join(f"({n}) {item}" for n, item in zip(numbers, items, strict=True)),
        "；".join(f"（{n}）{item}" for n, item in zip(numbers, items, strict=True)),
        " ".join(f"({letter}) {item}" for letter, item in zip("abcdefgh", items, strict=False)),
        "(" + ", ".join(items) + ")",
    ]  # fmt: skip
