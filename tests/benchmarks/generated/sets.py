"""Sets, sets of sets, tuples, unions of intervals, half-lines."""

from __future__ import annotations

import random
from fractions import Fraction

from generated.kind import latex


def several(source: random.Random) -> tuple[Fraction, ...]:
    numbers = [Fraction(source.randint(-30, 30), source.choice([1, 1, 2, 3])) for _ in range(source.randint(2, 4))]
    return tuple(dict.fromkeys([*numbers, Fraction(40), Fraction(41)]))[: len(numbers)]


def write_tuple(tree: tuple[Fraction, ...]) -> list[str]:
    items = [latex(item) for item in tree]
    return [
        "(" + ", ".join(items) + ")",
        "(" + ",".join(map(str, tree)) + ")",
        r"\begin{pmatrix} " + r" \\ ".join(items) + r" \end{pmatrix}",
        r"\langle " + ", ".join(items) + r"\rangle",
        f"({','.join('xyzw'[: len(tree)])}) = ({', '.join(items)})",
    ]


def write_set(tree: tuple[Fraction, ...]) -> list[str]:
    items = [latex(item) for item in tree]
    turned = items[::-1]
    return [
        r"\{" + ", ".join(items) + r"\}",
        r"\left\{" + "; ".join(turned) + r"\right\}",
        "{" + ",".join(map(str, tree)) + "}",
        r" \text{ or } ".join(f"x = {item}" for item in turned),
    ]


def change_several(tree: tuple[Fraction, ...], source: random.Random) -> tuple[Fraction, ...]:
    place = source.randrange(len(tree))
    before, after = tree[:place], tree[place + 1 :]
    changed = [tree[1:] + tree[:1], (*before, tree[place] + 1, *after), (*tree, Fraction(31))]
    return source.choice(changed + [before + after] * (len(tree) > 2))


def nested_set(source: random.Random) -> tuple[tuple[int, ...], ...]:
    sets = {tuple(sorted(source.sample(range(8), source.randint(1, 3)))) for _ in range(source.randint(2, 5))}
    return tuple(sorted({*sets, (8,)}))


def write_nested_set(tree: tuple[tuple[int, ...], ...]) -> list[str]:
    texts = ["{" + ", ".join(map(str, inner)) + "}" for inner in tree]
    turned = ["{" + ",".join(map(str, inner[::-1])) + "}" for inner in tree[::-1]]
    plain = ["{" + ", ".join(texts) + "}", "{" + ",".join(turned) + "}"]
    return [*(text.replace("{", r"\{").replace("}", r"\}") for text in plain), *plain]


def change_nested_set(tree: tuple[tuple[int, ...], ...], source: random.Random) -> tuple[tuple[int, ...], ...]:
    place = source.randrange(len(tree))
    before, after = tree[:place], tree[place + 1 :]
    return source.choice([before + after, (*before, (*tree[place], 9), *after), (*tree, (9,))])


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
    left, right = interval(a, b), interval(c, d)
    return [
        rf"{left} \cup {right}",
        rf"x \in {right} \cup {left}",
        f"{left}∪{right}",
        chains,
        rf"\{{x \mid {chains}\}}",
    ]


def change_union(tree: tuple[tuple[int, bool], ...], source: random.Random) -> tuple[tuple[int, bool], ...]:
    """An end is open in the place of closed, or the outer ends are further out."""
    place = source.randrange(4)
    end, closed = tree[place]
    outwards = {0: -1, 3: 1}.get(place)
    other = (end + outwards, closed) if outwards and source.random() < 0.5 else (end, not closed)
    return (*tree[:place], other, *tree[place + 1 :])


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
    return [
        f"x {sign} {number}",
        f"{number} {turned} x",
        interval,
        rf"x \in {interval}",
        f"2x {sign} {latex(2 * end)}",
    ]


def change_half_line(tree: tuple[Fraction, bool, bool], source: random.Random) -> tuple[Fraction, bool, bool]:
    end, closed, above = tree
    return source.choice([(end, not closed, above), (end, closed, not above), (end + 1, closed, above)])
