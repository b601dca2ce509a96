"""Parses sums, products, ratios and operations on sets."""

from __future__ import annotations

from math_reward.grader.errors import TooComplex
from math_reward.grader.notation.grammar import Grammar
from math_reward.grader.notation.literals import negated, product_of
from math_reward.grader.notation.stream import MAX_NESTING
from math_reward.grader.notation.syntax import (
    Call,
    Collection,
    Congruence,
    Negative,
    Node,
    Number,
    PlusMinus,
    Power,
    Quotient,
    Ratio,
    SetBuilder,
    SetOperation,
    Sum,
)
from math_reward.grader.words.vocabulary import SET_OPERATIONS


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
        """Whether a factor begins without a sign: the second power of ``2^6 3^5``, or a number after ``d/dx``."""
        if isinstance(before, Call) and before.function == "derivative by":
            return self.top.kind == "number"
        repeated = isinstance(before, Power) and isinstance(before.base, Number)
        repeated = repeated or (isinstance(before, Call) and before.function == "factorial")
        return repeated and self.top.kind == "number" and self.peek().kind == "^"

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
    return isinstance(node, (SetBuilder, SetOperation)) or (isinstance(node, Collection) and node.kind == "set")
