"""Calculates with matrices: sums, products, powers, transposes, inverses, determinants and traces."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from math_reward.grader.notation.exact import exact
from math_reward.grader.notation.syntax import (
    ONE,
    ZERO,
    Bracketed,
    Call,
    Constant,
    Matrix,
    Negative,
    Node,
    Number,
    Power,
    Product,
    Quotient,
    Sum,
    Symbol,
    rebuilt,
    walk,
)

MAX_SIZE = 6
"""The most rows or columns of a matrix that is multiplied, inverted or has its determinant taken."""
MAX_POWER = 12
_HATS = ("hat", "vec", "widehat")
_CALLS = frozenset([*_HATS, "overline", "overrightarrow", "diag"])
_TRANSPOSED = ("T", "\\top", "\\intercal")

Rows = tuple[tuple[Node, ...], ...]

_OPERATIONS = frozenset([Negative, Quotient, Product, Sum, Power, Call])


def calculated(node: Node) -> Node:
    """Calculates sums, products, powers, transposes, inverses, determinants and traces of matrices; everything else
    stays as it is.
    """
    concerned = type(node) in _OPERATIONS and any(
        isinstance(part, (Matrix, Bracketed)) or (isinstance(part, Call) and part.function in _CALLS)
        for part in walk(node)
    )
    return _calculated(node) if concerned else node


def _calculated(node: Node) -> Node:
    if isinstance(node, (Sum, Product, Negative, Call)) and (vector := _unit_vectors(node)):
        return vector
    result: Node | None = None
    match node:
        case Negative():
            result = _scaled(node.operand, Negative)
        case Quotient(denominator=below):
            result = _scaled(node.numerator, lambda entry: Quotient(entry, below))
        case Product():
            result = _product(node.factors)
        case Sum():
            result = _sum(node.terms)
        case Power():
            result = _power(node.base, node.exponent)
        case Call():
            result = _call(node.function, node.arguments)
    return result or node


def _unit_vectors(node: Node) -> Matrix | None:
    r"""``2\hat{i} + 3\hat{j}`` as a column; None for other nodes."""
    used = [part.arguments[0] for part in walk(node) if isinstance(part, Call) and part.function in _HATS]
    basis: list[Node] = [Constant("i"), Symbol("j"), Symbol("k")]
    if not used or any(vector not in basis for vector in used) or not _is_linear(node):
        return None

    def component(of: Node) -> Node:
        def change(part: Node) -> Node | None:
            if not isinstance(part, Call) or part.function not in _HATS:
                return None
            return Number(Fraction(part.arguments[0] == of))

        return rebuilt(node, change)

    return Matrix(tuple((component(of),) for of in basis[: 3 if basis[2] in used else 2]))


def _is_linear(node: Node) -> bool:
    """Whether each term is one unit vector times numbers: its square is no vector."""
    match node:
        case Call():
            return node.function in _HATS
        case Negative():
            return _is_linear(node.operand)
        case Sum():
            return all(map(_is_linear, node.terms))
        case Quotient():
            return _is_linear(node.numerator) and not _has_hat(node.denominator)
        case Product():
            vectors = [factor for factor in node.factors if _has_hat(factor)]
            return len(vectors) == 1 and _is_linear(vectors[0])
    return False


def _has_hat(node: Node) -> bool:
    return any(isinstance(part, Call) and part.function in _HATS for part in walk(node))


def _rows(node: Node) -> Rows | None:
    value = _calculated(node)
    return value.rows if isinstance(value, Matrix) else None


def _scaled(node: Node, rule: Callable[[Node], Node]) -> Matrix | None:
    rows = _rows(node)
    return None if rows is None else Matrix(tuple(tuple(rule(entry) for entry in row) for row in rows))


def _sum(terms: tuple[Node, ...]) -> Matrix | None:
    summands = [rows for term in terms if (rows := _rows(term)) is not None]
    if len(summands) < len(terms) or len({tuple(map(len, rows)) for rows in summands}) > 1:
        return None
    return Matrix(
        tuple(tuple(Sum(entries) for entries in zip(*rows, strict=True)) for rows in zip(*summands, strict=True))
    )


def _product(factors: tuple[Node, ...]) -> Matrix | None:
    matrices: list[Rows] = []
    scalars: list[Node] = []
    for factor in factors:
        rows = _rows(factor)
        if rows is None:
            scalars.append(factor)
        else:
            matrices.append(rows)
    if not matrices:
        return None
    result: Rows | None = matrices[0]
    for rows in matrices[1:]:
        result = None if result is None else _times(result, rows)
    if result is None:
        return None
    if scalars:
        return Matrix(tuple(tuple(Product((*scalars, entry)) for entry in row) for row in result))
    return Matrix(result)


def _times(left: Rows, right: Rows) -> Rows | None:
    if len(left[0]) != len(right) or max(len(left), len(right), len(right[0])) > MAX_SIZE:
        return None
    columns = list(zip(*right, strict=True))
    return tuple(
        tuple(_simple(Sum(tuple(Product(pair) for pair in zip(row, column, strict=True)))) for column in columns)
        for row in left
    )


def _simple(node: Node) -> Node:
    """``node`` as one number if it is rational: otherwise the entries of a matrix power would grow."""
    value = exact(node)
    return node if value is None else Number(value)


def _power(base: Node, exponent: Node) -> Matrix | None:
    if isinstance(base, Bracketed) and isinstance(exponent, Symbol) and exponent.name in _TRANSPOSED:
        return Matrix(tuple((item,) for item in base.items))
    rows = _rows(base)
    if rows is None:
        return None
    if isinstance(exponent, Symbol) and exponent.name in _TRANSPOSED:
        return Matrix(tuple(zip(*rows, strict=True)))
    value = exact(exponent)
    if value is None or value.denominator != 1 or abs(value) > MAX_POWER or len(rows) != len(rows[0]):
        return None
    if value < 0:
        inverse = _inverse(rows)
        return None if inverse is None else _power(Matrix(inverse), Number(-value))
    if len(rows) > MAX_SIZE or value == 0:
        return None
    result: Rows | None = rows
    for _ in range(int(value) - 1):
        result = None if result is None else _times(result, rows)
    return None if result is None else Matrix(result)


def _call(function: str, arguments: tuple[Node, ...]) -> Node | None:
    if function in ("overline", "overrightarrow") and isinstance(arguments[0], Product):
        letters = all(isinstance(factor, Symbol) and factor.name.isupper() for factor in arguments[0].factors)
        return arguments[0] if letters else None
    if function == "diag":
        size = range(len(arguments))
        return Matrix(tuple(tuple(arguments[i] if i == j else ZERO for j in size) for i in size))
    if function not in ("det", "tr", "abs") or len(arguments) != 1:
        return None
    rows = _rows(arguments[0])
    if rows is None:
        return None
    if len(rows) != len(rows[0]) or len(rows) > MAX_SIZE:
        return None
    return Sum(tuple(row[i] for i, row in enumerate(rows))) if function == "tr" else _determinant(rows)


def _determinant(rows: Rows) -> Node:
    if len(rows) == 1:
        return rows[0][0]
    terms = []
    for column, entry in enumerate(rows[0]):
        term: Node = Product((entry, _determinant(_without(rows, 0, column))))
        terms.append(Negative(term) if column % 2 else term)
    return _simple(Sum(tuple(terms)))


def _without(rows: Rows, row: int, column: int) -> Rows:
    return tuple(line[:column] + line[column + 1 :] for index, line in enumerate(rows) if index != row)


def _inverse(rows: Rows) -> Rows | None:
    if len(rows) > 4 or len(rows) != len(rows[0]):
        return None
    whole = _determinant(rows)
    if len(rows) == 1:
        return ((Quotient(ONE, whole),),)

    def entry(row: int, column: int) -> Node:
        minor = _determinant(_without(rows, column, row))
        return Quotient(Negative(minor) if (row + column) % 2 else minor, whole)

    return tuple(tuple(entry(i, j) for j in range(len(rows))) for i in range(len(rows)))
