r"""Parses sums, products, ratios and operations on sets, and groups in brackets, braces, bars or ``\begin`` and
``\end``, with the big operators.
"""

from __future__ import annotations

from collections.abc import Callable

from math_reward.grader.errors import NotMathematics, TooComplex
from math_reward.grader.notation.syntax import (
    BigOperator,
    Bracketed,
    Call,
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
    Quotient,
    Ratio,
    SetBuilder,
    SetOperation,
    Sum,
    differential,
)
from math_reward.grader.notation.tokens import END, MAX_NESTING, Grammar, Token
from math_reward.grader.notation.values import negated, product_of
from math_reward.grader.words.vocabulary import SET_OPERATIONS

_OPERATORS = ("^", "*", "/", "+", "-")
_LINES = {"cases", "aligned", "align", "align*", "gathered", "split", "dcases", "rcases"}


class GroupParser(Grammar):
    """Reads groups; the rules of ``parse.Parser`` read their contents."""

    __slots__ = ()

    def _brackets(self) -> Node:
        part_of_more = self.before().kind in (*_OPERATORS, "number", "word") and not self.top.spaced
        left = self.advance().kind
        bars, self.bar_ends = self.bar_ends, 0
        inside = self.below(lambda: self._list(in_brackets=True))
        self.bar_ends = bars
        if self.is_word("or") or self.is_command("lor"):
            inside = self._alternatives(inside)
        right = self.expect(")", "]")
        if isinstance(inside, Collection) and inside.kind == "list":
            return Bracketed(left, right, inside.items)
        if left == "(" and right == ")":
            return inside
        if left == "[" and right == "]":
            grouped = part_of_more or self.top.kind in _OPERATORS or isinstance(inside, Matrix)
            return inside if grouped else Bracketed(left, right, (inside,))
        raise NotMathematics("an interval needs two ends")

    def _items(self) -> tuple[Node, ...]:
        """What is in the brackets that are next, item by item."""
        inside = self._brackets()
        return inside.items if isinstance(inside, Bracketed) else (inside,)

    def _alternatives(self, first: Node) -> Node:
        items = [first]
        while self.is_word("or") or self.is_command("lor"):
            self.advance()
            items.append(self.below(self._list))
        return Collection("or", tuple(items))

    def _set(self) -> Node:
        self.advance()
        if self.accept("\\}"):
            return Constant("emptyset")
        bars, self.bar_ends = self.bar_ends, 1
        inside = self.below(self._list)
        self.bar_ends = bars
        if self.top.kind in ("|", ":"):
            self.advance()
            condition = self.below(self._answer)
            self.expect("\\}")
            return SetBuilder(inside, condition)
        self.expect("\\}")
        return Collection(
            "set", inside.items if isinstance(inside, Collection) and inside.kind != "set" else (inside,)
        )

    def _environment(self) -> Node:
        name = self.advance().value
        if name in _LINES:
            return self._lines(name)
        if "matrix" not in name and name != "array":
            raise NotMathematics(f"the environment {name!r} is no answer")
        rows = self._rows(name, self._sum)
        if len({len(row) for row in rows}) != 1:
            raise NotMathematics("the rows of a matrix differ in length")
        return Call("det", (Matrix(rows),)) if name.startswith("vm") else Matrix(rows)

    def _rows(self, name: str, cell: Callable[[], Node]) -> tuple[tuple[Node, ...], ...]:
        rows: list[tuple[Node, ...]] = []
        cells: list[Node] = []
        while self.top.kind != "end":
            if self.top is END:
                raise NotMathematics(f"\\end{{{name}}} is missing")
            if self.accept("&"):
                continue
            if self.accept("row"):
                if cells:
                    rows.append(tuple(cells))
                cells = []
                continue
            cells.append(self.below(cell))
        self.advance()
        if cells:
            rows.append(tuple(cells))
        if not rows:
            raise NotMathematics("a matrix is empty")
        return tuple(rows)

    def _lines(self, name: str) -> Node:
        """The lines of a system of equations, or of a function by cases: each a value and its condition."""

        def cell() -> Node:
            while self.top.kind in ("text", ",") and self.top.value.strip() in ("", "if", "for", "when", "where"):
                self.advance()
            node = self._relation()
            while self.top.kind in (",", ";", "."):
                self.advance()
            return node

        rows = self._rows(name, cell)
        items = tuple(row[0] if len(row) == 1 else Bracketed("(", ")", row) for row in rows)
        return items[0] if len(items) == 1 else Collection("list", items)

    def _big_operator(self, name: str) -> Node:
        """A sum, product or integral with its bounds and its body. An integral ends at its dx."""
        scripts = self._scripts("_", "^")
        lower, upper = scripts.get("_"), scripts.get("^")
        if "int" not in name:
            return BigOperator(name, lower, upper, self.below(self._product))
        self.integrals += 1
        body = self.below(self._sum)
        self.integrals -= 1
        terms = body.terms if isinstance(body, Sum) else (body,)
        ends = (isinstance(term, Product) and differential(term.factors[-2:]) is not None for term in terms)
        inside = next((index for index, is_end in enumerate(ends, 1) if is_end), len(terms))
        under = terms[0] if inside == 1 else Sum(terms[:inside])
        whole = BigOperator(name, lower, upper, under)
        return Sum((whole, *terms[inside:])) if terms[inside:] else whole


class SumParser(Grammar):
    """Reads sums and what they are made of, down to powers."""

    __slots__ = ()

    def _ratio(self) -> Node:
        terms = [self._sets()]
        while (self.top.kind == ":" and not self.bar_ends) or (self.is_word("to") and _is_integer(terms[-1])):
            self.advance()
            terms.append(self._sets())
        return terms[0] if len(terms) == 1 else Ratio(tuple(terms))

    def _sets(self) -> Node:
        node = self._sum()
        while self.top.kind == "command" and self.top.value in SET_OPERATIONS:
            operator = SET_OPERATIONS[self.advance().value]
            right = self._sum()
            if isinstance(node, SetOperation) and node.operator == operator and operator != "difference":
                node = SetOperation(operator, (*node.operands, right))
            else:
                node = SetOperation(operator, (node, right))
        return node

    def _sum(self) -> Node:
        terms: list[Node] = []
        if {self.top.kind, self.peek().kind} == {"+", "-"}:  # +-7, as people type it
            turned = self.top.kind == "-"
            self.advance()
            self.advance()
            sign = "∓" if turned else "±"
        else:
            sign = self._sign()
        if sign in ("±", "∓"):
            node: Node = PlusMinus(None, self._product(), sign == "∓")
        else:
            node = self._product()
            if sign == "-":
                node = negated(node)
        while True:
            kind = self.top.kind
            if kind == "+" or kind == "-":
                sign = self._sign()
                terms.append(node)
                node = self._product()
                if sign == "-":
                    node = negated(node)
            elif self.is_command("pm", "mp"):
                turned = self.advance().value == "mp"
                left = node if not terms else Sum((*terms, node))
                terms = []
                node = PlusMinus(left, self._product(), turned)
            else:
                break
        if not terms:
            return node
        if isinstance(node, Congruence):
            return Congruence(Sum((*terms, node.residue)), node.modulus)
        if len(terms) == 1 and isinstance(node, Negative) and _is_set(terms[0]) and _is_set(node.operand):
            return SetOperation("difference", (terms[0], node.operand))
        return Sum((*terms, node))

    def _sign(self) -> str:
        """The next signs as one: "", "-", "±" or "∓"."""
        negative = False
        plus_minus = ""
        count = 0
        while True:
            if self.top.kind == "-":
                negative = not negative
            elif self.is_command("pm", "mp"):
                plus_minus = "∓" if self.top.value == "mp" else "±"
            elif self.top.kind != "+":
                break
            count += 1
            if count > MAX_NESTING:
                raise TooComplex(f"it has more than {MAX_NESTING} signs in a row")
            self.advance()
        return plus_minus or ("-" if negative else "")

    def _signed_product(self) -> Node:
        negative = self.accept("-")
        return negated(self._product()) if negative else self._product()

    def _product(self) -> Node:
        node = self._power()
        factors = [node]
        while True:
            token = self.top
            kind = token.kind
            if kind == "*" or (kind == "command" and token.value in ("cdot", "times")):
                self.advance()
                factors.append(self._signed_power())
            elif kind == "/" or (kind == "command" and token.value == "div"):
                self.advance()
                left = product_of(factors)
                factors = [Quotient(left, self._signed_power())]
            elif kind == "command" and token.value in ("bmod", "mod", "pmod", "pod", "choose"):
                factors = [self._modulo(token.value, product_of(factors))]
            elif kind == "command" and token.value == "angle" and self._starts_phase():
                self.advance()
                factors.append(Call("cis", (self.below(self._signed_product),)))
            elif self._starts_modulus():
                factors = [Congruence(product_of(factors), self._modulus())]
            elif self._starts_factor() or self._starts_power(factors[-1]):
                factors.append(self._power())
            else:
                break
        return product_of(factors)

    def _starts_power(self, before: Node) -> bool:
        """Whether a factor begins without a sign: the second power of ``2^6 3^5`` or ``π 2^6``, the second
        factorial of ``5! 3!``, or a number after ``d/dx``.
        """
        if isinstance(before, Call) and before.function == "derivative by":
            return self.top.kind == "number"
        if self.top.kind == "number" and isinstance(before, Call) and before.function == "factorial":
            return self.peek().kind in ("^", "!")
        repeated = (isinstance(before, Power) and isinstance(before.base, Number)) or before == Constant("pi")
        if self.top.kind != "number" or self.peek().kind != "^":
            return False
        return repeated or self._has_letters(self.peek(3) if self.peek(2).kind == "{" else self.peek(2))

    def _has_letters(self, exponent: Token) -> bool:
        """Whether an exponent begins with a letter or its negative: that of ``n2^{n-1}`` and ``N2^{-N}``."""
        following = self.peek(4) if exponent.kind == "-" else exponent
        return following.kind == "word" and len(following.value) == 1

    def _starts_phase(self) -> bool:
        r"""Whether an angle in numbers follows, as in ``5 \angle 90^\circ``; ``2 \angle ABC`` is twice an angle."""
        following = self.peek()
        return following.kind in ("number", "-", "(") or following.value in ("frac", "pi")

    def _starts_modulus(self) -> bool:
        """Whether ``(mod 7)`` or ``mod 7`` is next."""
        return self.is_word("mod") or (self.top.kind == "(" and self.peek().value.strip() in ("mod", "modulo"))

    def _modulus(self) -> Node:
        bracketed = self.accept("(")
        self.advance()
        modulus = self._signed_power()
        if bracketed:
            self.expect(")")
        return modulus

    def _modulo(self, command: str, left: Node) -> Node:
        """``a \\bmod b`` is a number; ``a \\pmod b`` and ``a \\mod b`` are congruences."""
        self.advance()
        if command in ("choose", "bmod"):
            return Call(command.removeprefix("b"), (left, self._signed_power()))
        return Congruence(left, self._signed_power())


def _is_integer(node: Node) -> bool:
    return isinstance(node, Number) and node.value.denominator == 1


def _is_set(node: Node) -> bool:
    if isinstance(node, Constant):
        return node.name in ("reals", "integers", "naturals", "rationals", "complexes")
    return isinstance(node, (SetBuilder, SetOperation)) or (isinstance(node, Collection) and node.kind == "set")
