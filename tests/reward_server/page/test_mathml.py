"""Syntax trees shown as MathML: well-formed whatever the tree, with the brackets that a reader needs."""

from fractions import Fraction
from typing import get_args
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from math_reward.grader.notation import syntax
from math_reward.grader.notation.syntax import (
    BasedNumber,
    BigOperator,
    Bracketed,
    Call,
    ClockTime,
    Collection,
    Congruence,
    Constant,
    Matrix,
    Negative,
    Node,
    Number,
    PlusMinus,
    Power,
    Product,
    Quantity,
    Quotient,
    Ratio,
    Relation,
    SetBuilder,
    SetOperation,
    Sum,
    Symbol,
    Text,
)
from math_reward.page.mathml import to_mathml

MATHML = "{http://www.w3.org/1998/Math/MathML}"
# MathML Core has no other presentation elements that are needed here; browsers show nothing else as mathematics.
# The number is how many children the element must have, None where any number will do.
CHILDREN = {
    "math": None, "mrow": None, "mi": 0, "mn": 0, "mo": 0, "mtext": 0, "mspace": 0, "mfrac": 2, "msqrt": None,
    "mroot": 2, "msup": 2, "msub": 2, "msubsup": 3, "munder": 2, "mover": 2, "munderover": 3, "mtable": None,
    "mtr": None, "mtd": None,
}  # fmt: skip

# XML 1.0 cannot hold control characters and lone surrogates; HTML can.
XML_TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff"), max_size=8)


LEAVES = st.one_of(
    st.builds(Number, st.fractions(), st.none()),
    st.builds(lambda n, places: Number(Fraction(n, 10**places), places, 3), st.integers(), st.integers(0, 6)),
    st.builds(Symbol, st.one_of(XML_TEXT, st.sampled_from(["x", "x_1", "\\alpha", "alpha_{12}", "_", "a_b_c"]))),
    st.builds(Constant, st.sampled_from(["pi", "e", "i", "infinity", "emptyset", "reals", "integers", "other"])),
    st.builds(Text, XML_TEXT),
    st.builds(BasedNumber, st.text("0123456789abcdef", min_size=1, max_size=5), st.integers(2, 36)),
    st.builds(ClockTime, st.integers(0, 86_399)),
)


def number(value: int) -> Number:
    return Number(Fraction(value))


X, Y, ONE, TWO, THREE = Symbol("x"), Symbol("y"), number(1), number(2), number(3)

EVERY_TYPE: dict[type, Node] = {
    type(node): node
    for node in [
        ONE, X, Constant("pi"), Sum((X, Y, ONE)), Product((TWO, X, Y)), Quotient(X, Y), Power(X, Y), Negative(X),
        PlusMinus(X, Y), Call("sin", (X,)), BigOperator("sum", X, Y, ONE), Relation(("<", "="), (X, Y, ONE)),
        Collection("list", (X, Y)), Bracketed("(", "]", (X, Y)), SetBuilder(X, Relation((">",), (X, Y))),
        SetOperation("union", (X, Y)), Matrix(((X, ONE), (TWO, Y))), Text("monday"), Quantity(X, "meter"),
        Congruence(X, Y), BasedNumber("204", 5), ClockTime(12_000, Ratio((THREE, number(20)))), Ratio((X, Y)),
    ]
}  # fmt: skip

SHAPES = [
    *EVERY_TYPE.values(),
    *(Call(name, (X,)) for name in ("sqrt", "log", "abs", "factorial", "prime", "hat", "asin", "max", "apply f", "<")),
    *(Call(name, (X, Y)) for name in ("root", "log", "binom", "mod", "max")), Call("f", ()), PlusMinus(None, X),
    *(BigOperator(name, None, Y, X) for name in ("prod", "int", "lim", "sup")),
    *(Relation((sign,), (X, Y)) for sign in ("!=", "<=", "~", "in", "to", "subset", "notin", "perp")),
    *(Quantity(X, unit) for unit in ("percent", "degree", "dollar", "cent")),
    *(Collection(kind, (X, Y)) for kind in ("set", "or")),
    *(SetOperation(kind, (X, Y)) for kind in ("intersection", "difference")),
]  # fmt: skip

TREES = st.recursive(
    LEAVES,
    lambda trees: st.builds(
        lambda shape, x, y: syntax.rebuilt(shape, lambda part: x if part is X else y if part is Y else None),
        st.sampled_from(SHAPES),
        trees,
        trees,
    ),
    max_leaves=12,
)


def texts_of(node: Node) -> list[str]:
    """The texts of the tree's elements from left to right, without the signs that are not seen."""
    root = ElementTree.fromstring(to_mathml(node))
    return [text for text in root.itertext() if text not in ("\u2061", "\u2062")]


@settings(max_examples=150, deadline=None)
@given(TREES)
def test_every_tree_is_well_formed_mathml_core(node: Node):
    root = ElementTree.fromstring(to_mathml(node))

    assert root.tag == f"{MATHML}math"
    for element in root.iter():
        expected = CHILDREN[element.tag.removeprefix(MATHML)]
        assert expected is None or len(element) == expected, element.tag


def test_the_examples_have_a_tree_of_every_type():
    assert set(EVERY_TYPE) == set(get_args(syntax.Node))


@pytest.mark.parametrize("node", EVERY_TYPE.values(), ids=lambda node: type(node).__name__)
def test_a_tree_of_every_type_shows_something(node: Node):
    assert "".join(texts_of(node)).strip()


@pytest.mark.parametrize(
    ("node", "inside"),
    [
        (number(42), "<mn>42</mn>"),
        (Number(Fraction(1, 2), 2, 2), "<mn>0.50</mn>"),
        (Number(Fraction(-3, 2), 1, 2), '<mrow><mo form="prefix">−</mo><mn>1.5</mn></mrow>'),
        (Number(Fraction(3, 2)), "<mfrac><mn>3</mn><mn>2</mn></mfrac>"),
        (Symbol("\\alpha_1"), "<msub><mi>α</mi><mi>1</mi></msub>"),
        (Constant("reals"), "<mi>ℝ</mi>"),
        (Quotient(Sum((X, ONE)), TWO), "<mfrac><mrow><mi>x</mi><mo>+</mo><mn>1</mn></mrow><mn>2</mn></mfrac>"),
        (Power(X, Negative(ONE)), '<msup><mi>x</mi><mrow><mo form="prefix">−</mo><mn>1</mn></mrow></msup>'),
        (Sum((X, Negative(Y))), "<mrow><mi>x</mi><mo>−</mo><mi>y</mi></mrow>"),
        (Product((TWO, X)), "<mrow><mn>2</mn><mo>\u2062</mo><mi>x</mi></mrow>"),
        (Product((TWO, THREE)), "<mrow><mn>2</mn><mo>⋅</mo><mn>3</mn></mrow>"),
        (Call("sqrt", (TWO,)), "<msqrt><mn>2</mn></msqrt>"),
        (Call("root", (X, THREE)), "<mroot><mi>x</mi><mn>3</mn></mroot>"),
        (Relation(("<=",), (X, ONE)), "<mrow><mi>x</mi><mo>≤</mo><mn>1</mn></mrow>"),
        (Quantity(number(30), "percent"), "<mrow><mn>30</mn><mtext>%</mtext></mrow>"),
        (BasedNumber("204", 5), "<msub><mn>204</mn><mn>5</mn></msub>"),
        (ClockTime(3 * 3600 + 20 * 60), "<mtext>3:20</mtext>"),
    ],
)
def test_the_markup_of_a_tree(node: Node, inside: str):
    assert to_mathml(node) == (f'<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">{inside}</math>')


@pytest.mark.parametrize(
    ("node", "reads"),
    [
        (Product((Sum((X, ONE)), Y)), "( x + 1 ) y"),
        (Product((X, Negative(Y))), "x ( − y )"),
        (Sum((X, Negative(Sum((Y, ONE))))), "x − ( y + 1 )"),
        (Sum((X, Negative(Product((TWO, Y))))), "x − 2 y"),
        (Power(Negative(X), TWO), "( − x ) 2"),
        (Power(number(-2), TWO), "( − 2 ) 2"),
        (Negative(Power(X, TWO)), "− x 2"),
        (Power(Quotient(ONE, TWO), X), "( 1 2 ) x"),
        (Power(Power(X, TWO), THREE), "( x 2 ) 3"),
        (Call("factorial", (Sum((X, ONE)),)), "( x + 1 ) !"),
        (Call("factorial", (X,)), "x !"),
        (Call("log", (X, TWO)), "log 2 ( x )"),
        (Call("log", (X,)), "ln ( x )"),
        (Call("asin", (X,)), "arcsin ( x )"),
        (Call("apply f", (X, Y)), "f ( x , y )"),
        (Call("abs", (Negative(X),)), "| − x |"),
        (Quantity(Sum((X, ONE)), "meter"), "( x + 1 ) meter"),
        (Quantity(number(5), "dollar"), "$ 5"),
        (Relation(("=", "<"), (X, Y, ONE)), "x = y < 1"),
        (Bracketed("(", "]", (ONE, Constant("infinity"))), "( 1 , ∞ ]"),
        (SetOperation("union", (Collection("set", (X,)), Collection("set", (Y,)))), "{ x } ∪ { y }"),
        (SetBuilder(X, Relation((">",), (X, ONE))), "{ x ∣ x > 1 }"),
        (PlusMinus(ONE, X), "1 ± x"),
        (BigOperator("sum", Symbol("k=1"), Symbol("n"), Sum((X, ONE))), "∑ k=1 n ( x + 1 )"),
        (Collection("or", (X, Y)), "x or y"),
        (Quotient(Collection("list", (X, Y)), TWO), "x , y 2"),
        (Product((TWO, Power(THREE, X))), "2 ⋅ 3 x"),
        (Ratio((ONE, TWO)), "1 : 2"),
    ],
)
def test_brackets_stand_where_a_reader_needs_them_and_nowhere_else(node: Node, reads: str):
    assert " ".join(texts_of(node)) == reads


HOSTILE = '<script>alert("1")</script><!-- &'


@pytest.mark.parametrize(
    "node",
    [Text(HOSTILE), Symbol(HOSTILE), Constant(HOSTILE), Quantity(ONE, HOSTILE), Call(HOSTILE, (X,)),
     Relation((HOSTILE,), (X, Y)), BigOperator(HOSTILE, None, None, X), SetOperation(HOSTILE, (X, Y)),
     BasedNumber(HOSTILE, 5), Bracketed(HOSTILE, ")", (X, Y))],
    ids=lambda node: type(node).__name__,
)  # fmt: skip
def test_a_hostile_text_stays_text(node: Node):
    markup = to_mathml(node)

    assert "<script" not in markup
    assert "<!--" not in markup
    assert HOSTILE in "".join(ElementTree.fromstring(markup).itertext())
