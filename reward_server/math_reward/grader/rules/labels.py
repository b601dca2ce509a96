"""Takes the label ``x`` off ``x = 3``: the name on the left says what the value is of."""

from __future__ import annotations

from math_reward.grader.mathematics.linear import first_degree
from math_reward.grader.notation.exact import exact
from math_reward.grader.notation.syntax import (
    EXPRESSIONS,
    Applied,
    BigOperator,
    Bracketed,
    Call,
    Collection,
    Congruence,
    Constant,
    Node,
    Number,
    Power,
    Product,
    Quotient,
    Ratio,
    Relation,
    Sum,
    Symbol,
    Text,
    substituted,
    symbols,
    walk,
)
from math_reward.grader.rules.comparison import Comparison
from math_reward.grader.rules.rounding import rounds_to
from math_reward.grader.rules.trees import renamed
from math_reward.grader.verdict import Stage

_FUNCTION_LETTERS = frozenset("fghFGHPQRW")


class Contradiction(ValueError):
    """An answer says two different things at once: ``41 = 42``."""


def same_but_for_labels(comparison: Comparison, reference: Node, answer: Node) -> bool:
    """Whether both are the same value, of the same thing if both say of which; or both are the same equation."""
    equations = (reference, answer)
    are_equations = all(isinstance(node, Relation) and node.operators == ("=",) for node in equations)
    reference_label, reference = without_label(comparison, reference)
    answer_label, answer = without_label(comparison, answer)
    if reference_label is not None and _says_nothing(equations[1]):
        return False
    if isinstance(reference, Relation) != isinstance(answer, Relation) and are_equations:
        return comparison.same_value(*equations)  # y = x/2 + 2 is 2y = x + 4
    if reference_label is not None and answer_label is not None:
        if clash(reference_label, answer_label):
            if are_equations and symbols(reference) and symbols(answer):
                return comparison.same_value(*equations)  # v = u + at, solved for a
            comparison.reached(Stage.STRUCTURE)
            return False
        answer = with_argument_of(reference_label, answer_label, answer)
    if comparison.same_value(reference, answer):
        return True
    if not are_equations or not symbols(reference) or reference_label == answer_label:
        return False
    return comparison.same_value(*equations)  # PV = nRT, solved for P


def _says_nothing(node: Node) -> bool:
    """Whether it is ``0 = 0``."""
    return isinstance(node, Relation) and all(operand == node.operands[0] for operand in node.operands[1:])


def without_label(comparison: Comparison, node: Node) -> tuple[Node | None, Node]:
    r"""The label and the value: ``x`` and ``3`` of ``x = 3``, ``3 = x``, ``x = 1 + 2 = 3``, ``x \approx 3``. A chain
    of constants has no label; a node that is no such equation is its own value.
    """
    if not isinstance(node, Relation):
        return None, node
    if node.operators == ("in",) and isinstance(node.operands[0], Symbol):
        return node.operands[0], node.operands[1]
    if any(operator not in ("=", "~") for operator in node.operators):
        return None, node
    if isinstance(node.operands[-1], Congruence) and not isinstance(node.operands[0], Symbol):
        return None, node  # 7^100 is not 9, only congruent to it.
    operands = list(node.operands)
    operators = list(node.operators)
    if len(operands) > 2 and all(isinstance(operand, Symbol) for operand in operands):
        return None, node  # a = b = c
    if len(operands) == 2 and isinstance(operands[1], Symbol) and not symbols(operands[0]):
        operands.reverse()
    label = None
    if (letter := _constant_as_label(operands)) is not None:
        operands[0] = letter
    while len(operands) > 1 and _is_label(operands[0]) and operators[0] in ("=", "~"):
        label = label or operands[0]
        operands.pop(0)
        operators.pop(0)
    if len(operands) == 1:
        return label, operands[0]
    if label is None and any(symbols(operand) for operand in operands):
        return None, node
    return label, _value_of_chain(comparison, operands, operators, label)


def _constant_as_label(operands: list[Node]) -> Symbol | None:
    r"""The letter of ``e = \frac{3}{5}``, an eccentricity, and of ``i = 2``: no number where it alone gets a value."""
    first = operands[0]
    if not isinstance(first, Constant) or first.name not in ("e", "i"):
        return None
    return None if any(first in walk(operand) for operand in operands[1:]) else Symbol(first.name)


def value_of_expression(comparison: Comparison, reference: Node, answer: Node) -> Node | None:
    """The 10 of ``m + n = 10``, where the reference is a value: the left side says of what. None if it is no such
    equation, or one that is left to be solved: of first degree in its only variable, as ``2x = 10``, or of the form
    ``x^2 - 5x + 6 = 0``.
    """
    if not isinstance(answer, Relation) or symbols(reference) or isinstance(reference, (Relation, Text)):
        return None
    if set(answer.operators) - {"=", "~"}:
        return None
    named, *values = answer.operands
    names = symbols(named)
    if not names or symbols(values[-1]):
        return None
    if len(names) == 1 and isinstance(named, EXPRESSIONS) and first_degree(named, *names) is not None:
        return None
    if exact(values[-1]) == 0 and not isinstance(named, (Call, Applied, Symbol)):
        factors = [factor for part in walk(named) if isinstance(part, Product) for factor in part.factors]
        is_power = any(isinstance(part, Power) for part in walk(named))
        has_number = isinstance(named, Sum) and any(exact(term) is not None for term in named.terms)
        if len(names) == 1 or is_power or has_number or any(isinstance(factor, Sum) for factor in factors):
            return None  # (x - 1)(x - 2) = 0, 11x + 6y + 86 = 0
    return _value_of_chain(comparison, values, list(answer.operators[1:]), named)


def _value_of_chain(comparison: Comparison, operands: list[Node], operators: list[str], label: Node | None) -> Node:
    """The last value of a chain, the others being equal to it: all but formulas in letters that it does not have."""
    exact_part = operands[: operators.index("~") + 1] if "~" in operators else operands
    value = exact_part[-1]
    for step in exact_part[:-1]:
        if _is_formula(step, value, label):
            continue  # f(2) = f(1) + 1 = 3, A = ab = 6
        if not comparison.same_value(value, step):
            raise Contradiction("it equates two different things")
    for rounded in operands[len(exact_part) :]:
        if not rounds_to(comparison, value, rounded):
            raise Contradiction("its approximation is of another value")
    return value


def _is_formula(step: Node, value: Node, label: Node | None) -> bool:
    """Whether a step has letters or unknown functions that the value does not have, and not the label itself."""
    unknown = any(isinstance(part, Applied) for part in walk(step))
    if unknown and not symbols(value):
        return True
    if isinstance(label, Applied) and symbols(label) & symbols(step):
        return label.name in symbols(step) and not label.is_inverse  # P(A or B) = P(A) + P(B), but not f(x) = x = 2
    is_itself = label is not None and label in walk(step)
    return bool(symbols(step) - symbols(value)) and not is_itself


def _is_label(node: Node) -> bool:
    """Whether ``node`` can be the label left of "=": ``x``, ``f(x)``, ``(x, y)``, ``f'(x)``."""
    if isinstance(node, Call):
        if node.function == "abs":
            inside = node.arguments[0]
            if isinstance(inside, Power) and isinstance(inside.base, Symbol):
                return inside.base.name.isupper()  # the norm of T^n
            return isinstance(inside, Product) and _is_label(inside)  # |AB|, and not |x|
        if node.function == "overline" and isinstance(node.arguments[0], Product):
            return all(isinstance(factor, Symbol) for factor in node.arguments[0].factors)  # the digits of a number
        if node.function in ("overline", "vec", "bar", "hat", "overrightarrow"):
            return _is_label(node.arguments[0])
        return node.function in ("derivative", "dot", "ddot") or (
            node.function == "prime" and _is_label(node.arguments[0])
        )
    if isinstance(node, (Applied, Text)):
        return True
    if isinstance(node, BigOperator):
        if node.name == "lim":
            return any(
                isinstance(part, BigOperator) for part in walk(node.body)
            )  # SymPy calculates no limit of a sum.
        return node.name == "int" and not node.lower and not node.upper  # \int 2x dx = x^2 + C
    if isinstance(node, Bracketed):
        return (node.left, node.right) == ("(", ")") and all(_is_label(i) or _is_applied(i) for i in node.items)
    if isinstance(node, Quotient):
        sides = (node.numerator, node.denominator)
        return all(isinstance(side, Product) and _is_label(side) for side in sides)  # AB/CD
    if isinstance(node, Ratio):
        return all(_is_label(term) for term in node.terms)
    if isinstance(node, Product):
        # AB and \angle ABC are a length and an angle, xy is a product.
        names = [factor.name if isinstance(factor, Symbol) else "" for factor in node.factors]
        return names[0] == "\\Delta" or all(name.isupper() or name == "\\angle" for name in names)
    if isinstance(node, Collection):
        return node.kind == "list" and all(_is_label(item) for item in node.items)
    return isinstance(node, Symbol)


def _is_applied(node: Node) -> bool:
    """Whether ``node`` is ``P(x)`` that was read as a product, as among the names of a tuple."""
    if not isinstance(node, Product) or len(node.factors) != 2:
        return False
    function, argument = node.factors
    return isinstance(function, Symbol) and function.name.isupper() and isinstance(argument, Symbol)


def label_name(label: Node) -> str:
    """The name in a label, as text: ``f`` for f(x), ``AB`` for AB and for BA."""
    if isinstance(label, Symbol):
        return label.name
    if isinstance(label, Text):
        return label.text
    if isinstance(label, Power):
        return f"{label_name(label.base)}^{label.exponent}"
    if isinstance(label, Applied):
        inside = label.arguments[0]
        name = f"{label.name}^-1" if label.is_inverse else label.name
        return f"{name}({inside.text})" if isinstance(inside, Text) else name
    if isinstance(label, Call):
        return f"{label.function} {label_name(label.arguments[0])}"
    if isinstance(label, Product):
        names = [factor.name for factor in label.factors if isinstance(factor, Symbol)]
        return "".join(min(names, names[::-1]))
    if isinstance(label, Quotient):
        return f"{label_name(label.numerator)}/{label_name(label.denominator)}"
    parts = (
        label.terms if isinstance(label, Ratio) else label.items if isinstance(label, (Bracketed, Collection)) else ()
    )
    return ",".join(map(label_name, parts))


def clash(reference: Node, answer: Node) -> bool:
    """Whether two labels name different things: ``x = 3`` is not ``y = 3``, and ``b:a = 1:2`` is not ``a:b = 1:2``."""
    if _order(reference) != _order(answer):
        return True  # f(x) and f'(x)
    if type(reference) is not type(answer):
        names = {Symbol, Product} == {type(reference), type(answer)}  # F = ma is not FF = ma; A may be the angle A.
        return names and not any(Symbol("\\angle") in walk(label) for label in (reference, answer))
    name, other = label_name(reference), label_name(answer)
    if isinstance(reference, Applied) and isinstance(answer, Applied) and _of_different_things(reference, answer):
        return True
    if name == other:
        return False
    if _is_inverse(reference) != _is_inverse(answer):
        return True
    if isinstance(reference, (Call, Applied)) and {name, other} - _FUNCTION_LETTERS:
        return "(" in name and "(" in other  # P(A|B) and P(B|A)
    index, other_index = name.partition("_")[2], other.partition("_")[2]
    if _base(name) == _base(other) and index and other_index and (_is_compound(index) or _is_compound(other_index)):
        return True  # a_{n+1} and a_n
    return _base(name) != _base(other) or _base(name) in (name, other)


def _is_inverse(label: Node) -> bool:
    return isinstance(label, Applied) and label.is_inverse


def _of_different_things(reference: Applied, answer: Applied) -> bool:
    """Whether two labels apply a function to different things: f(2) and f(3), f(x + 1) and f(x)."""
    if not len(reference.arguments) == len(answer.arguments) == 1:
        return False
    thing, other = reference.arguments[0], answer.arguments[0]
    if isinstance(thing, Number) and isinstance(other, Number):
        return thing.value != other.value
    return bool(symbols(thing) and symbols(other)) and isinstance(thing, Symbol) != isinstance(other, Symbol)


def _is_compound(index: str) -> bool:
    return not index.isalnum() and any(character.isalpha() for character in index)


def _order(label: Node) -> int:
    """The order of the derivative that a label names: 1 for f'(x), dy/dx and a dotted x."""
    if not isinstance(label, Call):
        return 0
    if label.function == "derivative":
        order = label.arguments[2] if len(label.arguments) > 2 else None
        return int(order.value) if isinstance(order, Number) else 1
    own = {"dot": 1, "ddot": 2}.get(label.function, 0)
    if label.function == "prime" and len(label.arguments) == 1:
        own = 1
    return own + (_order(label.arguments[0]) if label.function in ("prime", "dot") else 0)


def _base(name: str) -> str:
    """``x`` of ``x_1``."""
    return name.partition("_")[0]


def with_argument_of(reference: Node, answer: Node, value: Node) -> Node:
    """``value`` in f(x) = value with the variable of the reference, f(z), in place of the answer's."""
    if isinstance(reference, Symbol) and isinstance(answer, Symbol):
        base, _, index = reference.name.partition("_")
        other, _, old = answer.name.partition("_")
        letters = len(index) == len(old) == 1 and index.isalpha() and old.isalpha()
        if not letters or base != other or index == old:
            return value
        # a_n and a_k: an n in the value of a_k is a different variable.
        return substituted(value, {index: Symbol(f"other {index}"), old: Symbol(index)})
    kinds = (Call, Applied)
    if (
        isinstance(reference, kinds)
        and isinstance(answer, kinds)
        and len(reference.arguments) == len(answer.arguments)
    ):
        return renamed(value, reference.arguments, answer.arguments)
    return value


def labels_of(comparison: Comparison, items: list[Node]) -> list[str] | None:
    """The labels' names, if every item has a label and no two are the same; else None.

    ``x_1`` and ``x_2`` are two values of x, and not different names.
    """
    parts = [without_label(comparison, item) if isinstance(item, Relation) else (None, item) for item in items]
    labels = [label for label, _ in parts]
    if len(labels) < 2 or None in labels:
        return None
    variables = {label.name for label in labels if isinstance(label, Symbol)}
    if any(variables & symbols(value) for _, value in parts):
        return None  # y = x^2, x in (0, 1): a formula and its domain
    names = [label_name(label) for label in labels if label is not None]
    if len({*names}) != len(names) or len({_base(name) for name in names}) == 1:
        return None
    return names


def in_order_of_names(names: list[str], items: list[Node]) -> list[Node]:
    """The items, sorted by name if the names are consecutive letters such as x, y, z; else in the order given."""
    codes = sorted(ord(name) for name in names if len(name) == 1)
    if len(codes) == len(names) and codes[-1] - codes[0] == len(codes) - 1:
        return [item for _, item in sorted(zip(names, items, strict=True), key=lambda pair: pair[0])]
    return items
