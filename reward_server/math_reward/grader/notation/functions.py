r"""Parses functions and their arguments, roots, the choices and arrangements of combinatorics; variables with an
index, functions with a name of their own, and words in ``\text``.
"""

from __future__ import annotations

from fractions import Fraction

from math_reward.grader.errors import NotMathematics
from math_reward.grader.notation.syntax import (
    Applied,
    BigOperator,
    Bracketed,
    Call,
    Collection,
    Constant,
    Negative,
    Node,
    Number,
    Power,
    Product,
    Quotient,
    Relation,
    SetOperation,
    Symbol,
    Text,
)
from math_reward.grader.notation.tokens import END, Grammar, Token
from math_reward.grader.notation.values import product_of, spoken, words
from math_reward.grader.words.functions import SPELLED, SYMPY_NAMES, function_prefix, function_suffix, known
from math_reward.grader.words.vocabulary import BIG_OPERATORS, CONSTANTS, GREEK, RELATIONS

ARRANGEMENTS = ("C", "A", "P")
_FUNCTIONS = {*SPELLED, *BIG_OPERATORS}
_DIFFERENTIALS = (Symbol("d"), Symbol("\\partial"))


def arrangements(letter: str, n: Node, k: Node) -> Node:
    """Choices of k out of n, or, for A and P, with their order."""
    chosen = Call("binom", (n, k))
    return chosen if letter == "C" else Product((chosen, Call("factorial", (k,))))


def as_derivative(above: Node, below: Node) -> Node | None:
    r"""``\frac{d}{dx}``, ``\frac{d^2}{dx^2}`` and ``\frac{dy}{dx}``, whose letters cannot be cancelled."""
    if not isinstance(below, Product) or len(below.factors) != 2 or below.factors[0] not in _DIFFERENTIALS:
        return None
    variable, order = _with_order(below.factors[1])
    first = above.factors[0] if isinstance(above, Product) else above
    operator, same_order = _with_order(first)
    if operator not in _DIFFERENTIALS or same_order != order or not isinstance(variable, Symbol):
        return None
    arguments = (variable,) if order == Number(Fraction(1)) else (variable, order)
    if not isinstance(above, Product):
        return Call("derivative by", arguments)
    return Call("derivative", (product_of(list(above.factors[1:])), *arguments))


def _with_order(node: Node) -> tuple[Node, Node]:
    return (node.base, node.exponent) if isinstance(node, Power) else (node, Number(Fraction(1)))


def _with_bound(name: str, body: Node, bound: Node, limit: Node | None = None, *_: Node) -> Node:
    """``Sum(k, (k, 1, 3))``, ``Integral(x, x)``, ``Derivative(y, x)`` and ``Limit(1/x, x, oo)``."""
    variable, *ends = bound.items if isinstance(bound, Bracketed) else (bound,)
    if name == "derivative":
        return Product((Call("derivative by", (variable, *ends)), body))
    if name == "lim" and limit is not None:
        return BigOperator(name, Relation(("to",), (variable, limit)), None, body)
    low, high = ends if len(ends) == 2 else (None, None)
    if name == "int":
        return BigOperator(name, low, high, Product((body, Symbol("d"), variable)))
    if low is None:
        raise NotMathematics("a sum has no bounds")
    return BigOperator(name, Relation(("=",), (variable, low)), high, body)


def _is_angle(factors: list[Node]) -> bool:
    """Whether a denominator after ``factors`` is in the argument: in ``sin x/2`` and ``sin 2pi/3``, not in ``sin
    2x/2``.
    """
    return len(factors) == 1 or Constant("pi") in factors


class FunctionParser(Grammar):
    """Reads functions; ``atoms.AtomParser`` reads the powers and factors in their arguments."""

    __slots__ = ()

    def _arrangement(self, letter: str) -> Node | None:
        r"""The number of choices ``C_5^2`` or arrangements ``A_5^2``; None for ``C_1`` and other variables."""
        start = self.mark()
        parts: dict[str, Node] = {}
        while self.top.kind in ("_", "^") and self.top.kind not in parts:
            kind = self.advance().kind
            try:
                parts[kind] = self._argument(exponent=True)
            except NotMathematics:
                break
        below, above = parts.get("_"), parts.get("^")
        if (
            below is None
            or above is None
            or (isinstance(below, Number) and isinstance(above, Number) and below.value < above.value)
        ):
            self.reset(start)
            return None
        return arrangements(letter, below, above)

    def _choice(self) -> Node:
        r"""``^{n}C_r``, ``{}^nP_r`` and ``{}_nC_r``."""
        self.advance()
        above = self._argument(exponent=True)
        if self.top.kind not in ("word", "text") or self.top.value.strip() not in ARRANGEMENTS:
            raise NotMathematics("'^' has no meaning there")
        letter = self.advance().value.strip()
        self.expect("_")
        return arrangements(letter, above, self._argument())

    def _called_arrangement(self, letter: str) -> Node | None:
        """``C(5, 2)`` and ``P(5, 2)``; None for a function of something else."""
        start = self.mark()
        try:
            inside = self._brackets()
        except NotMathematics:
            inside = None
        if isinstance(inside, Bracketed) and len(inside.items) == 2 and (inside.left, inside.right) == ("(", ")"):
            if any(isinstance(item, Negative) for item in inside.items):
                self.reset(start)
                return None  # The point P(3, -2).
            n, k = (item.value if isinstance(item, Number) else None for item in inside.items)
            if n is None or k is None or (n >= k and n.denominator == k.denominator == 1):
                return arrangements(letter, *inside.items)
        self.reset(start)
        return None

    def _root(self) -> Node:
        if self.top.kind == "[":
            self.advance()
            index = self.below(self._sum)
            self.expect("]")
            return Call("root", (self._argument(), index))
        return Call("sqrt", (self._argument(),))

    def _function(self, name: str) -> Node:
        if name == "sqrt":
            return Call("sqrt", (self._argument(),))
        if self.top.kind == "=":
            return Symbol("\\" + name)  # \max = 4
        scripts = self._scripts(*(("_", "^") if name in ("log", "max", "min") else ("^",)))
        base, power = scripts.get("_"), scripts.get("^")
        if power == Negative(Number(Fraction(1))) and known(name).inverse:
            name, power = known(name).inverse, None
        arguments = self._arguments()
        if base is not None and name == "log":
            arguments = (*arguments, base)
        elif name == "log10":
            name, arguments = "log", (*arguments, Number(Fraction(10)))
        least, most = known(name).arguments
        if not least <= len(arguments) <= most:
            raise NotMathematics(f"{name} does not take {len(arguments)} arguments")
        node: Node = Call(name, arguments)
        return node if power is None else Power(node, power)

    def _sympy_call(self, name: str) -> Node:
        """What SymPy prints as a call: ``Abs(x)``, ``Rational(3, 4)``, ``Interval.open(0, 1)``."""
        open_ends = ""
        if self.accept("."):
            open_ends = self.advance().value
        items = self._items()
        made = SYMPY_NAMES[name]
        if made == "interval" and len(items) == 2:
            low, high = items
            left = open_ends in ("open", "Lopen") or low == Negative(Constant("infinity"))
            right = open_ends in ("open", "Ropen") or high == Constant("infinity")
            return Bracketed("(" if left else "[", ")" if right else "]", items)
        if made in ("union", "intersection"):
            return SetOperation(made, items)
        if made == "set":
            return Collection("set", items)
        if made == "tuple":
            return Bracketed("(", ")", items)
        if made == "number":
            if self.top.kind != "/" or not isinstance(items[0], Number):
                raise NotMathematics("S is a letter")
            return items[0]  # S(1)/3
        if made == "cbrt" and len(items) == 1:
            return Call("root", (*items, Number(Fraction(3))))
        if len(items) == 2 and made in ("fraction", "power"):
            return (Quotient if made == "fraction" else Power)(*items)
        if len(items) == 2 and made in RELATIONS.values():
            return Relation((made,), items)
        if len(items) > 1 and made in ("derivative", "lim", *BIG_OPERATORS):
            return _with_bound(made, *items)
        least, most = (2, 2) if made in ("root", "mod") else known(made).arguments
        if not least <= len(items) <= most:
            raise NotMathematics(f"{name} does not take {len(items)} arguments")
        return Call(made, items)

    def _arguments(self) -> tuple[Node, ...]:
        """``(x, y)``, or the factors up to the next sign, function or bracket: ``\\sin 2x \\cos y``."""
        if self.top.kind == "(":
            return self.below(self._items)
        if self.top.kind == "\\{" and isinstance(chosen_from := self._set(), Collection):
            return chosen_from.items  # \max\{a, b\}
        factors = [self._signed_power()]
        while self._starts_factor():
            token = self.top
            if len(factors) == 1 and isinstance(factors[0], Number) and (root := self._root_before_letter()):
                factors.append(root)  # cos 8√2 t
                continue
            if token.kind in ("(", "[", "|") or (token.kind in ("command", "word") and token.value in _FUNCTIONS):
                break
            if self.at_differential():
                break
            factors.append(self._power())
        if self.top.kind == "/" and self.peek().kind == "number" and _is_angle(factors):
            self.advance()
            return (Quotient(product_of(factors), self._power()),)
        return (product_of(factors),)

    def _root_before_letter(self) -> Node | None:
        r"""The root between a number and a letter, ``8\sqrt2 t``; None if something else is next."""
        if not self.is_command("sqrt") or self.top.spaced:
            return None
        start = self.mark()
        root = self._power()
        if self.top.kind == "word" and len(self.top.value) == 1 and not self.at_differential():
            return root
        self.reset(start)
        return None


_NAMED_FUNCTIONS = {"\\zeta": "zeta", "\\Gamma": "gamma"}
_SHORT_GREEK = ("mu", "nu")
"""Letters of Greek that may be two of Latin: one only alone in brackets, or beside a ``*``, which divides ``m*u``."""
SHORT_WORDS = frozenset(
    [
        "yes", "no", "odd", "all", "any", "one", "two", "six", "ten", "the", "of", "is", "it", "to", "by",
        "none", "nan", "zoo", "not", "and", "or", "true", "red", "blue", "even", "zero", "four", "five", "nine", "dne",
    ]
)  # fmt: skip


class NameParser(Grammar):
    """Reads words and letters."""

    __slots__ = ()

    def _word(self) -> Node:
        token = self.advance()
        value = token.value
        if value in SPELLED:
            return self._function(SPELLED[value])
        if value in ("nCr", "nPr") and self.top.kind == "(":
            return self._called_arrangement(value[1]) or self._braces()
        if value == "Matrix" and self.top.kind == "(":
            return self._brackets()
        if value in ("pi", "infty", "infinity", "inf", "oo", "Infinity"):
            return Constant(CONSTANTS[value.lower()])
        if self.top.kind in ("(", ".") and not self.top.spaced and value in SYMPY_NAMES:
            start = self.mark()
            try:
                return self._sympy_call(value)
            except NotMathematics:
                self.reset(start)
        alone = self.before(2).kind == "(" and self.top.kind == ")"
        if value in GREEK or (value in _SHORT_GREEK and (alone or self.has("*"))):
            return self._symbol("\\" + value)
        prefix = function_prefix(value)
        if prefix:
            self.replace(Token("word", prefix, token.spaced), Token("word", value[len(prefix) :], False))
            return self._word()
        if (suffix := function_suffix(value)) and self.top.kind == "(":  # xsin(x)
            parts = [*value.removesuffix(suffix), suffix]
            self.replace(*[Token("word", part, token.spaced and not index) for index, part in enumerate(parts)])
            return self._word()
        is_word = value in SHORT_WORDS or (value.lower() in SHORT_WORDS and not value.isupper())
        if len(value) > 3 or (is_word and not (len(value) == 2 and self.multiplies_letters(1))):
            raise NotMathematics(f"{value!r} is a word")
        if len(value) == 1:
            return self._symbol(value)
        # "xy" is x times y; an index or a power belongs to the last letter.
        self.replace(*[Token("word", letter, token.spaced and index == 0) for index, letter in enumerate(value)])
        return self._word()

    def _symbol(self, name: str) -> Node:
        if name in ARRANGEMENTS and self.top.kind in ("_", "^"):
            chosen = self._arrangement(name)
            if chosen is not None:
                return chosen
        if self.top.kind == "_":
            self.advance()
            if name == "k" and self.top.kind == "word" and self.top.value.startswith("B") and len(self.top.value) > 1:
                token = self.advance()  # k_BT
                self.replace(Token("word", "B", False), Token("word", token.value[1:], False))
            return Symbol(f"{name}_{self._index()}")
        if name in _NAMED_FUNCTIONS and self.top.kind == "(":
            return Call(_NAMED_FUNCTIONS[name], self._items())
        if name in ("C", "P") and self.top.kind == "(" and not self.top.spaced:
            called = self._called_arrangement(name)
            if called is not None:
                return called
        if name in "fghFGH" and self._is_inverse():
            return Applied(name, self._items(), is_inverse=True)
        is_expectation = name == "E" and self.top.kind == "[" and self.peek(1).value[:1].isupper()
        if is_expectation or (self.top.kind == "(" and self._is_application(name)):
            start = self.mark()
            try:
                items = self._items()
            except NotMathematics:
                if name not in "PE":
                    raise
                self.reset(start)
                items = (Text(self._raw_brackets()),)  # P(A|B), P(X = 2)
            return Applied(name, items)
        return Constant(name) if name in ("e", "i") else Symbol(name)

    def _is_inverse(self) -> bool:
        """Skips the ``^{-1}`` of ``f^{-1}(x)``; False if it is not next."""
        start = self.mark()
        if self.accept("^"):
            braced = self.accept("{")
            if self.accept("-") and self.top.value == "1":
                self.advance()
                if (not braced or self.accept("}")) and self.top.kind == "(":
                    return True
        self.reset(start)
        return False

    def _is_application(self, name: str) -> bool:
        """Whether ``name(`` is a function and its argument: f, g, h always, others where ``=`` follows."""
        if self.top.spaced and name not in "fghFGH":
            return False
        depth = 0
        for ahead, token in enumerate(self.rest()):
            kind = token.kind
            depth += (kind in ("(", "{", "[")) - (kind in (")", "}", "]"))
            if depth == 0:
                following = self.peek(ahead + 1)
                names_it = following.kind == "=" and (
                    self.mark() < 2
                    or self.before(2).kind in (",", ";", "text", "word", "(", "&")
                    or self.before(2).value == "and"
                )
                return names_it or name in "fghFGH"
        return False

    def _raw_brackets(self) -> str:
        """The text in the brackets that are next, as it is written."""
        opening = self.advance().kind
        closing = ")" if opening == "(" else "]"
        depth = 1
        parts: list[str] = []
        while True:
            token = self.advance()
            depth += (token.kind == opening) - (token.kind == closing)
            if depth == 0:
                return "".join(parts)
            parts.append(token.value or token.kind)

    def _index(self) -> str:
        if self.top.kind != "{":
            return self.advance().value
        self.advance()
        depth = 1
        parts: list[str] = []
        while self.top is not END:
            token = self.advance()
            depth += (token.kind == "{") - (token.kind == "}")
            if depth == 0:
                return "".join(parts)
            parts.append(token.value)
        raise NotMathematics("the braces of an index are never closed")

    def _text(self) -> Node:
        token = self.advance()
        value = token.value.strip()
        if value in SPELLED:
            return self._function(SPELLED[value])
        if len(value) == 1 and value.isalpha():
            return self._symbol(value)
        if value == "pi":
            return Constant(value)
        before = self.before(2).kind
        if before in (",", ";", "{", "&", "(", "=", "\\{", "text"):
            parts = [value]
            while self.top.kind == "text" and not self.at_separator() and not self.is_word("or"):
                parts.append(self.advance().value)
            plain = words(" ".join(parts))
            if plain and (self.at_separator() or self.at_closing() or self.is_word("or")):
                return spoken(plain)
        raise NotMathematics(f"the words {value!r} stand where a number or a variable should")
