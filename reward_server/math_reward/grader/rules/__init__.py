"""The rules of comparison, in files by the kinds that they compare, and ``RULES``, the order in which they are tried.

They run in a worker process, as all of the grader does. The first rule that applies decides, so the order matters.
"""

from math_reward.grader.mathematics.real_sets import is_set_like
from math_reward.grader.notation.syntax import (
    Bracketed,
    ClockTime,
    Collection,
    Congruence,
    Matrix,
    Ratio,
    Relation,
    Text,
)
from math_reward.grader.rules.collections import same_collection, same_matrix, same_signed
from math_reward.grader.rules.comparison import Rule, either, either_is, same_words
from math_reward.grader.rules.expressions import has_integral, same_expression, same_integral
from math_reward.grader.rules.labels import same_but_for_labels
from math_reward.grader.rules.quantities import has_quantity, is_based, same_digits, same_quantity
from math_reward.grader.rules.relations import (
    same_congruence,
    same_ratio,
    same_relation,
    same_set,
)
from math_reward.grader.rules.systems import has_system, same_system
from math_reward.grader.rules.trees import has_sign

__all__ = ["RULES"]

RULES = (
    Rule(
        "label",
        "A name before the value may be left out; names of different things are not the same.",
        ("x = 3", "3", "y = f(3)"),
        either_is(Relation),
        same_but_for_labels,
    ),
    Rule(
        "set",
        "Sets of reals are the same where their intervals are; other sets operation by operation.",
        ("x > 2", r"(2, \infty)", r"[2, \infty)"),
        either(is_set_like),
        same_set,
    ),
    Rule("sign", r"``a \pm b`` is two values.", (r"1 \pm 2", "3, -1", "3, 1"), either(has_sign), same_signed),
    Rule(
        "matrix",
        "Matrices are the same entry by entry; a row or a column is a tuple.",
        (r"\begin{pmatrix}1\\2\end{pmatrix}", "(1, 2)", "(2, 1)"),
        either_is(Matrix),
        same_matrix,
    ),
    Rule(
        "system",
        "Systems of linear equations are the same where they have the same solutions.",
        ("x + y = 3, x - y = 1", "x = 2, y = 1", "x = 1, y = 2"),
        has_system,
        same_system,
    ),
    Rule(
        "collection",
        "Lists and sets are the same in any order, named items by name, tuples in order.",
        (r"\{1, 2\}", "2, 1", "(2, 1, 1)"),
        either_is(Collection, Bracketed),
        same_collection,
    ),
    Rule("words", "Words are the same letter by letter.", (r"\text{dog}", "dog", "god"), either_is(Text), same_words),
    Rule(
        "congruence",
        "Congruences are the same with the same modulus and residues that differ by a multiple of it.",
        (r"x \equiv 3 \pmod 7", r"x \equiv 10 \pmod 7", r"x \equiv 3 \pmod 5"),
        either_is(Congruence),
        same_congruence,
    ),
    Rule(
        "ratio",
        "Ratios are the same where they are proportional.",
        ("1:2", "2:4", "2:1"),
        either_is(ClockTime, Ratio),
        same_ratio,
    ),
    Rule(
        "relation",
        "Equations and inequalities are the same where they have the same solutions.",
        ("y = x/2 + 2", "2y = x + 4", "2y = x + 2"),
        either_is(Relation),
        same_relation,
    ),
    Rule(
        "quantity",
        "A unit that one side lacks is dropped; two units must measure the same.",
        (r"2\text{ m}", r"200\text{ cm}", r"2\text{ cm}"),
        has_quantity,
        same_quantity,
    ),
    Rule("base", "The base of a number may be left out.", ("204_5", "204", "205"), is_based, same_digits),
    Rule(
        "antiderivative",
        "An indefinite integral is what has its integrand as the derivative, with an arbitrary constant.",
        (r"\int 2x\,dx", "x^2 + C", "x^2 + x + C"),
        has_integral,
        same_integral,
    ),
    Rule(
        "expression",
        "Single expressions are the same where their values are: exactly, at points, by SymPy.",
        (r"\frac{1}{2}", "0.5", "0.6"),
        lambda reference, answer: True,
        same_expression,
    ),
)
