"""Compares systems of linear equations by their solutions."""

from __future__ import annotations

from fractions import Fraction

from math_reward.grader.notation.exact import exact
from math_reward.grader.notation.syntax import (
    Bracketed,
    Collection,
    Negative,
    Node,
    Product,
    Quotient,
    Relation,
    Sum,
    Symbol,
    difference,
    symbols,
)
from math_reward.grader.rules.collections import same_collection
from math_reward.grader.rules.comparison import Comparison
from math_reward.grader.verdict import Stage

MAX_EQUATIONS = 8
Form = dict[str, Fraction]
"""A linear form: the factor of each variable by its name, and the constant by the empty name."""


def has_system(reference: Node, answer: Node) -> bool:
    """Whether the reference is an unsolved system; a solved reference needs a solved answer."""
    equations = _equations(reference)
    if equations is None or len(equations) < 2 or not isinstance(answer, (Collection, Bracketed)):
        return False
    sides = [equation.operands for equation in equations]
    return not all(isinstance(left, Symbol) and not symbols(right) for left, right in sides)


def same_system(comparison: Comparison, reference: Node, answer: Node) -> bool:
    names = sorted(symbols(reference))
    left, right = _rows(reference, names), _rows(answer, names)
    if left is None or right is None:
        return same_collection(comparison, reference, answer)
    comparison.reached(Stage.EXACT)
    reduced = _reduced(left)
    contradiction = [Fraction(0)] * len(names) + [Fraction(1)]
    return reduced == _reduced(right) and contradiction not in reduced


def _equations(node: Node) -> list[Relation] | None:
    if not isinstance(node, Collection) or node.kind != "list" or len(node.items) > MAX_EQUATIONS:
        return None
    equations = [item for item in node.items if isinstance(item, Relation) and item.operators == ("=",)]
    return equations if len(equations) == len(node.items) else None


def _rows(node: Node, names: list[str]) -> list[list[Fraction]] | None:
    """The augmented matrix of a system, or of its solution as a point with coordinates in the order of the names."""
    equations = _equations(Collection("list", node.items) if isinstance(node, Bracketed) else node)
    if equations is not None:
        pairs: list[tuple[Node, ...]] = [equation.operands for equation in equations]
    elif isinstance(node, Bracketed) and len(node.items) == len(names) and (node.left, node.right) == ("(", ")"):
        pairs = [(Symbol(name), item) for name, item in zip(names, node.items, strict=True)]
    else:
        return None
    rows: list[list[Fraction]] = []
    for left, right in pairs:
        form = _linear(difference(left, right))
        if form is None or not form.keys() - {""} <= set(names):
            return None
        rows.append([form.get(name, Fraction(0)) for name in names] + [form.get("", Fraction(0))])
    return rows


def _linear(node: Node) -> Form | None:
    """``node`` as a linear form with rational factors; None if it is not one."""
    if not symbols(node):
        value = exact(node)
        return None if value is None else {"": value}
    match node:
        case Symbol():
            return {node.name: Fraction(1)}
        case Negative():
            return _scaled(_linear(node.operand), Fraction(-1))
        case Sum():
            total: Form = {}
            for term in node.terms:
                form = _linear(term)
                if form is None:
                    return None
                for name, factor in form.items():
                    total[name] = total.get(name, Fraction(0)) + factor
            return total
        case Product():
            forms = [factor for factor in node.factors if symbols(factor)]
            scale = Fraction(1)
            for number in node.factors:
                value = Fraction(1) if symbols(number) else exact(number)
                if value is None:
                    return None
                scale *= value
            return _scaled(_linear(forms[0]), scale) if len(forms) == 1 else None
        case Quotient():
            below = None if symbols(node.denominator) else exact(node.denominator)
            return _scaled(_linear(node.numerator), 1 / below) if below else None
    return None


def _scaled(form: Form | None, factor: Fraction) -> Form | None:
    return None if form is None else {name: value * factor for name, value in form.items()}


def _reduced(rows: list[list[Fraction]]) -> list[list[Fraction]]:
    """The reduced row echelon form, without rows of zeros."""
    rows = [row[:] for row in rows]
    done = 0
    for column in range(len(rows[0])):
        pivot = next((index for index in range(done, len(rows)) if rows[index][column]), None)
        if pivot is None:
            continue
        rows[done], rows[pivot] = rows[pivot], rows[done]
        rows[done] = [value / rows[done][column] for value in rows[done]]
        for index, row in enumerate(rows):
            if index != done and row[column]:
                rows[index] = [a - row[column] * b for a, b in zip(row, rows[done], strict=True)]
        done += 1
        if done == len(rows):
            break
    return rows[:done]
