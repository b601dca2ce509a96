r"""From text to tree: what is read how, what is refused, and where the limits are."""

from fractions import Fraction

import pytest

from math_reward.grader.errors import NotMathematics, TooComplex
from math_reward.grader.notation.parse import MAX_CHARACTERS, parse
from math_reward.grader.notation.syntax import (
    Applied,
    BasedNumber,
    BigOperator,
    Bracketed,
    Call,
    ClockTime,
    Collection,
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
from math_reward.grader.notation.tokens import MAX_DIGITS, MAX_NESTING, MAX_TOKENS
from math_reward.grader.notation.values import words

x, y, n = Symbol("x"), Symbol("y"), Symbol("n")
pi = Constant("pi")


def N(value: int | str) -> Number:
    return Number(Fraction(value))


TREES: list[tuple[str, Node]] = [
    # Numbers.
    ("42", N(42)),
    ("0.50", Number(Fraction(1, 2), places=2, significant=2)),
    ("0.0458", Number(Fraction("0.0458"), places=4, significant=3)),
    ("1,234", N(1234)),
    ("1 234", N(1234)),
    ("1{,}234", N(1234)),
    ("1.5e3", Number(Fraction(1500), places=-2, significant=2)),
    (r"0.1\overline{6}", N("1/6")),
    ("1 1/2", N("3/2")),
    (r"2\frac{1}{3}", N("7/3")),
    ("204_5", BasedNumber("204", 5)),
    # Sums and products, loosest first.
    ("-x", Negative(x)),
    ("x + 2y", Sum((x, Product((N(2), y))))),
    ("x - y", Sum((x, Negative(y)))),
    ("x - -2", Sum((x, N(2)))),
    ("2xy", Product((N(2), x, y))),
    (r"2 \cdot x \times y", Product((N(2), x, y))),
    ("x / y / 2", Quotient(Quotient(x, y), N(2))),
    (r"\frac12", Quotient(N(1), N(2))),
    (r"\frac{x}2", Quotient(x, N(2))),
    ("x^2", Power(x, N(2))),
    ("x^10", Power(x, N(10))),
    ("x^{-1}", Power(x, Negative(N(1)))),
    ("-x^2", Negative(Power(x, N(2)))),
    ("2x^2", Product((N(2), Power(x, N(2))))),
    ("x**2", Power(x, N(2))),
    (r"x \pm 1", PlusMinus(x, N(1))),
    (r"\pm 3", PlusMinus(None, N(3))),
    # Functions.
    (r"\sqrt2", Call("sqrt", (N(2),))),
    (r"\sqrt[3]{x}", Call("root", (x, N(3)))),
    (r"\sin x", Call("sin", (x,))),
    (r"\sin 2x + 1", Sum((Call("sin", (Product((N(2), x)),)), N(1)))),
    (r"\sin^2 x", Power(Call("sin", (x,)), N(2))),
    (r"\sin^{-1} x", Call("asin", (x,))),
    (r"\log_2 x", Call("log", (x, N(2)))),
    ("n!", Call("factorial", (n,))),
    ("n!!", Call("double factorial", (n,))),
    (r"\binom{n}{2}", Call("binom", (n, N(2)))),
    ("|x|", Call("abs", (x,))),
    (r"\lfloor x \rfloor", Call("floor", (x,))),
    ("f(x)", Applied("f", (x,))),
    ("f'(x)", Call("prime", (Call("prime", (Symbol("f"),)), x))),
    ("f'x", Product((Call("prime", (Symbol("f"),)), x))),
    (r"\frac{d^2}{dx^2}", Call("derivative by", (x, N(2)))),
    (r"5\angle 90^\circ", Product((N(5), Call("cis", (Quantity(N(90), "degree"),))))),
    (r"\{\{1,2\}\}", Collection("set", (Collection("set", (N(1), N(2))),))),
    ("(1) 3; (2) 5", Bracketed("(", ")", (N(3), N(5)))),
    ("3 to 4", Ratio((N(3), N(4)))),
    ("1 hour 30 minutes", Quantity(N(90), "minute")),
    ("]1, 2]", Bracketed("(", "]", (N(1), N(2)))),
    ("max(x, y)", Call("max", (x, y))),
    (r"\sum_{n=1}^{5} n", BigOperator("sum", Relation(("=",), (n, N(1))), N(5), n)),
    # Names.
    ("x_1", Symbol("x_1")),
    ("x_{1}", Symbol("x_1")),
    (r"\pi", pi),
    ("e", Constant("e")),
    ("i", Constant("i")),
    (r"\mathbb{R}", Constant("reals")),
    # Quantities.
    (r"50\%", Quantity(N(50), "percent")),
    (r"90^\circ", Quantity(N(90), "degree")),
    (r"\$5", Quantity(N(5), "dollar")),
    ("5 cm", Quantity(N(5), "centimeter")),
    (r"5 \text{ square feet}", Quantity(N(5), "foot^2")),
    (r"5\text{ m}^2", Quantity(N(5), "meter^2")),
    (r"5\text{v}", Product((N(5), Symbol("v")))),
    (r"12^{\text{th}}", N(12)),
    # Several things.
    ("1, 2", Collection("list", (N(1), N(2)))),
    ("1; 2", Collection("list", (N(1), N(2)))),
    (r"1 \text{ and } 2", Collection("list", (N(1), N(2)))),
    (r"1 \text{ or } 2", Collection("or", (N(1), N(2)))),
    (r"\{1, 2\}", Collection("set", (N(1), N(2)))),
    (r"\{\}", Constant("emptyset")),
    ("(1, 2)", Bracketed("(", ")", (N(1), N(2)))),
    ("[1, 2)", Bracketed("[", ")", (N(1), N(2)))),
    ("(x)", x),
    (r"\begin{pmatrix} 1 & x \\ 2 & y \end{pmatrix}", Matrix(((N(1), x), (N(2), y)))),
    ("1:2", Ratio((N(1), N(2)))),
    ("3:20 PM", ClockTime(15 * 3600 + 20 * 60, has_half=True)),
    ("3:20", ClockTime(3 * 3600 + 20 * 60, Ratio((N(3), N(20))))),
    # Relations and sets.
    ("x = 2", Relation(("=",), (x, N(2)))),
    (r"1 < x \le 2", Relation(("<", "<="), (N(1), x, N(2)))),
    (r"x \approx 2", Relation(("~",), (x, N(2)))),
    (r"x \in [1, 2]", Relation(("in",), (x, Bracketed("[", "]", (N(1), N(2)))))),
    (r"\{x \mid x > 2\}", SetBuilder(x, Relation((">",), (x, N(2))))),
    (
        r"(1, 2) \cup (3, 4)",
        SetOperation("union", (Bracketed("(", ")", (N(1), N(2))), Bracketed("(", ")", (N(3), N(4))))),
    ),
    (r"\mathbb{R} \setminus \{2\}", SetOperation("difference", (Constant("reals"), Collection("set", (N(2),))))),
    # Words.
    (r"\text{Evelyn}", Text("evelyn")),
    ("line segment", Text("line segment")),
    (r"\text{(B)}", Symbol("B")),
    (r"\text{red, blue}", Collection("list", (Text("red"), Text("blue")))),
    (r"x = 2 \text{ for all real } x", Relation(("=",), (x, N(2)))),
    (r"\text{The answer is } 42", N(42)),
]


@pytest.mark.parametrize(("text", "tree"), TREES)
def test_a_text_is_read_as_a_person_reads_it(text: str, tree: Node):
    assert parse(text) == tree


def test_commas_between_thousands_are_a_list_where_that_is_asked_for():
    assert parse("1,234") == N(1234)
    assert parse("1,234", thousands=False) == Collection("list", (N(1), N(234)))
    assert parse("(1,234)") == Bracketed("(", ")", (N(1), N(234)))


@pytest.mark.parametrize(
    "text",
    [
        *("", " . ", "1 +", "1 = x_", "*2", "2 # 3", "42 43", "(1, 2", "(1]", "12_{\\pi}", "9_5"),
        *(r"\frac{1}{", r"\frac{1}{2", r"\text{cm", r"\text", r"\lfloor 1", r"\cdot"),
        *(r"1\frac{1}{10}_2", r"1\frac{1}10_2∪", r"\sin(1, 2)", r"\log_2(3, 4)", "1 = binom(1)"),
        *(r"\begin{matrix} 1 & 2 \\ 3 \end{matrix}", r"\begin{verse} 1 \end{verse}", r"\begin{matrix} 1"),
        *(r"\pi \text{ is not } x", r"x = 1 \text{ if } x \text{ is not } 2"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str):
    with pytest.raises(NotMathematics):
        parse(text)


@pytest.mark.parametrize(
    ("within", "beyond", "limit"),
    [
        ("x" + " " * (MAX_CHARACTERS - 2) + "y", "x" + " " * (MAX_CHARACTERS - 1) + "y", "2,001 characters"),
        ("+".join("1" * (MAX_TOKENS // 2)), "+".join("1" * (MAX_TOKENS // 2 + 1)), "400 tokens"),
        ("9" * MAX_DIGITS, "9" * (MAX_DIGITS + 1), "400 digits"),
        ("9" + ",999" * 133, "9" + ",999" * 134, "400 digits"),
        ("1e400", "1e401", "power of ten"),
        ("{" * 50 + "1" + "}" * 50, "{" * (MAX_NESTING + 1) + "1" + "}" * (MAX_NESTING + 1), "60 deep"),
        ("-" * MAX_NESTING + "1", "-" * (MAX_NESTING + 1) + "1", "60 signs"),
        ("9" + "!!" * 20, "9" + "!!" * 61, "60 deep"),
        ("9" + "!" * 40, "9" + "!" * 130, "60 deep"),
    ],
)
def test_a_text_up_to_the_limits_is_read_and_one_beyond_them_is_too_complex(within: str, beyond: str, limit: str):
    parse(within)
    with pytest.raises(TooComplex, match=limit):
        parse(beyond)


def test_words_are_compared_without_their_markup():
    assert words(r"\text{(Monday)}.") == "monday"
    assert words(r"\textbf{  Blue   car }") == "blue car"
    assert words("A") == "A"
