"""Parses what binds tightest in an answer: numbers, variables, powers, and commands with their arguments."""

from __future__ import annotations

from dataclasses import replace

from math_reward.grader.errors import NotMathematics, TooComplex
from math_reward.grader.notation.functions import FunctionParser, NameParser, as_derivative
from math_reward.grader.notation.operations import GroupParser
from math_reward.grader.notation.syntax import (
    Applied,
    Bracketed,
    Call,
    Collection,
    Constant,
    Node,
    Number,
    Power,
    Quantity,
    Quotient,
    Relation,
    SetBuilder,
    Symbol,
)
from math_reward.grader.notation.tokens import END, MAX_NESTING, Token
from math_reward.grader.notation.values import ORDINALS, NumberParser, negated, number_literal
from math_reward.grader.words.functions import SPELLED, SYMPY_NAMES, function_prefix, function_suffix
from math_reward.grader.words.units import CERTAIN_SYMBOLS, PLAIN_UNITS, is_unit
from math_reward.grader.words.vocabulary import BIG_OPERATORS, CONSTANTS, GREEK, RELATIONS, SET_OPERATIONS

_VARIANTS = {"hat", "bar", "vec", "tilde", "overrightarrow", "overleftarrow", "widehat", "overline", "dot", "ddot"}
_NO_LETTERS = frozenset(
    ["and", "or", "to", "ou", "et", "und", "oder", "for", "where", "with", "if", "when", "is", "th", "per"]
)
_NO_FACTOR = {
    "cdot", "times", "div", "pm", "mp", "circ", "land", "lor", "rfloor", "rceil", "rangle", "bmod", "mod", "pmod",
    "pod",
    "choose", "begin", "end", "right", "left",
}  # fmt: skip
_PLAIN = ("number", "symbol", "word")
_MARKS = frozenset(["prime", "dot", "ddot", "bar", "hat", "vec", "tilde", "overline"])
"""What a letter may have above it or behind it, before its index."""
_SCALES = {"C": "celsius", "F": "fahrenheit"}
_UNIT_LETTERS = frozenset("mgshlLNJW")


class AtomParser(GroupParser, FunctionParser, NumberParser, NameParser):
    """Reads powers and everything that binds tighter."""

    __slots__ = ()

    def _power(self) -> Node:
        node = self.below(self._primary)
        return self._postfix(node)

    def _postfix(self, node: Node) -> Node:
        for _ in range(MAX_NESTING):
            kind = self.top.kind
            if kind == "^" or kind == "**":
                self.advance()
                if self.is_command("circ") or self._group_is("circ"):
                    self._skip_group()
                    node = Quantity(node, self._degree())
                    continue
                if self._is_ordinal():
                    self._skip_group()
                    continue
                if self.is_command("prime") or self._group_is("prime") or self.top.kind == "'":
                    self._skip_group()
                    node = self._applied(Call("prime", (node,)))
                    continue
                node = Power(node, self._exponent())
            elif kind == "!" and (self.peek().kind != "=" or self.peek().spaced):
                self.advance()
                double = self.accept("!")
                node = Call("double factorial" if double else "factorial", (node,))
            elif kind == "%" or kind == "\\%":
                self.advance()
                if isinstance(node, Quantity):
                    raise NotMathematics("a second '%' has no meaning there")
                node = Quantity(node, "percent")
            elif kind == "'":
                self.advance()
                node = self._applied(Call("prime", (node,)))
            elif kind == "_" and isinstance(node, Number):
                self.advance()
                node = self._based(node)
            elif kind == "command" and self.top.value == "circ":
                self.advance()
                node = Quantity(node, self._degree())
            elif kind == "_" and (indexed := self._indexed(node)) is not None:
                node = indexed
            elif kind == "_" and isinstance(node, Applied) and self._group_is_name():
                self.advance()
                node = replace(node, name=f"{node.name}_{self._index()}")  # f(x)_{\max}
            else:
                return node
        raise TooComplex(f"it is nested more than {MAX_NESTING} deep")

    def _exponent(self) -> Node:
        """The exponent after ``^``; a second one is a power of it: 2^3^2 is 2^9."""
        exponent = self._argument(exponent=True)
        if self.top.kind != "^" or not isinstance(exponent, (Number, Symbol)) or self.peek().kind not in _PLAIN:
            return exponent
        self.advance()
        return Power(exponent, self.below(self._exponent))

    def _indexed(self, node: Node) -> Node | None:
        r"""``v^2_0``, ``\dot{x}_0`` and ``J'_U`` with the index at their letter; None for other nodes."""
        if isinstance(node, Power) and isinstance(node.base, Symbol) and "_" not in node.base.name:
            self.advance()
            return Power(Symbol(f"{node.base.name}_{self._index()}"), node.exponent)
        if isinstance(node, Call) and node.function in _MARKS and len(node.arguments) == 1:
            letter = node.arguments[0]
            if isinstance(letter, Symbol) and "_" not in letter.name:
                self.advance()
                return Call(node.function, (Symbol(f"{letter.name}_{self._index()}"),))
        return None

    def _applied(self, primed: Node) -> Node:
        """Reads ``f'(x)`` as the derivative of f at x, not as f' times x."""
        function = primed
        while isinstance(function, Call) and function.function == "prime":
            function = function.arguments[0]
        if self.top.kind != "(" or not isinstance(function, Symbol):
            return primed
        return Call("prime", (primed, *self._items()))

    def _degree(self) -> str:
        """The unit of what has a degree sign: ``25^\\circ C`` is a temperature."""
        scale = _SCALES.get(self.top.value.strip()) if self.top.kind in ("text", "word") else None
        if scale is None or self.peek().kind in ("(", "_", "^"):
            return "degree"
        self.advance()
        return scale

    def _group_is_name(self) -> bool:
        """Whether ``_{\\max}`` is next."""
        following = self.peek(2) if self.peek().kind == "{" else self.peek()
        return following.value.strip() in ("max", "min")

    def _group_is(self, command: str) -> bool:
        return self.top.kind == "{" and self.peek().value == command and self.peek(2).kind == "}"

    def _is_ordinal(self) -> bool:
        token = self.top if self.top.kind != "{" else self.peek()
        return token.kind in ("text", "word") and token.value.strip() in ORDINALS

    def _skip_group(self) -> None:
        if self.accept("{"):
            self.advance()
            self.expect("}")
        else:
            self.advance()

    def _primary(self) -> Node:
        token = self.top
        kind = token.kind
        if kind == "number":
            return self._number()
        if kind == "word":
            return self._word()
        if kind == "command":
            return self._command()
        if kind in ("(", "["):
            return self._brackets()
        if kind == "{":
            return self._braces()
        if kind == "\\{":
            return self._set()
        if kind == "|" or kind == "\\|":
            self.advance()
            self.bar_ends += 1
            node = self._sum()
            self.bar_ends -= 1
            self.expect(kind)
            return Call("abs", (node,))
        if kind == "begin":
            return self._environment()
        if kind == "text":
            return self._text()
        if kind == "^":
            return self._choice()
        if kind == "number set":
            letter = self.advance().value
            return Constant(CONSTANTS[letter]) if letter in CONSTANTS else Symbol(letter)
        raise NotMathematics("it ends too early" if token is END else f"{token.value or kind!r} has no meaning there")

    def _braces(self, *, argument: bool = False) -> Node:
        """A group in braces. Braces in a list of others, or with others inside, are a set without its backslashes."""
        before = self.before().kind if self.mark() else ""
        self.advance()
        if self.top.kind == "}":
            if self.peek().kind not in ("^", "_"):
                raise NotMathematics("a pair of braces is empty")
            self.advance()
            return self._choice()  # {}^nC_r
        bars, self.bar_ends = self.bar_ends, 0 if argument else 1
        node = self._answer()
        self.bar_ends = bars
        if not argument and isinstance(node, (Symbol, Relation)) and self.top.kind in ("|", ":"):
            self.advance()  # {x|x>2}
            condition = self.below(self._answer)
            self.expect("}")
            return SetBuilder(node, condition)
        self.expect("}")
        if argument:
            return node
        among_others = "," in (before, self.top.kind)
        if not isinstance(node, Collection) or node.kind != "list":
            return Collection("set", (node,)) if among_others else node
        nested = before == "{" or among_others or any(isinstance(item, Collection) for item in node.items)
        return Collection("set", node.items) if nested else node

    def _command(self) -> Node:
        name = self.advance().value
        if name == "frac":
            above, below = self._two_arguments()
            return as_derivative(above, below) or Quotient(above, below)
        if name == "sqrt":
            return self._root()
        if name == "binom":
            return Call("binom", self._two_arguments())
        if name in SPELLED:
            return self._function(SPELLED[name])
        if name in ("pi", "infty", "emptyset"):
            return Constant(CONSTANTS[name])
        if name in ("lfloor", "lceil"):
            node = self.below(self._sum)
            self.expect_command(name.replace("l", "r", 1))
            return Call("floor" if name == "lfloor" else "ceil", (node,))
        if name == "langle":
            items = self.below(self._list)
            self.expect_command("rangle")
            return Bracketed("(", ")", items.items if isinstance(items, Collection) else (items,))
        if name in BIG_OPERATORS:
            return self._big_operator(name)
        if name in _VARIANTS:
            return Call(name, (self._argument(),))
        if name in ("boxed", "fbox", "ensuremath", "displaylines"):
            return self._argument()
        if name in _NO_FACTOR or name in RELATIONS:
            raise NotMathematics(f"\\{name} has no meaning there")
        return self._symbol("\\" + name)

    def _two_arguments(self) -> tuple[Node, Node]:
        # TeX takes one digit of \frac12 for each argument.
        if self.top.kind == "number" and len(self.top.value) > 1 and self.top.value.isdigit():
            token = self.top
            if self.peek().kind != "{":
                digits = (token.value[0], token.value[1], token.value[2:])
                self.advance()
                self.replace(*[Token("number", part, False) for part in digits if part])
        return self._argument(), self._argument()

    def _argument(self, *, exponent: bool = False) -> Node:
        """The argument of a command: a group in braces, or the next single token."""
        if self.top.kind == "{":
            return self.below(lambda: self._braces(argument=True))
        if exponent and self.top.kind in ("-", "+"):
            negative = self.advance().kind == "-"
            node = self._argument()
            return negated(node) if negative else node
        if self.top.kind == "number":
            return number_literal(self.advance().value)
        if self.top.kind == "word" and len(self.top.value) > 1 and self.top.value not in SPELLED:
            token = self.advance()
            self.replace(Token("word", token.value[0], token.spaced), Token("word", token.value[1:], False))
        return self.below(self._primary)

    def _scripts(self, *signs: str) -> dict[str, Node]:
        scripts: dict[str, Node] = {}
        for _ in range(2):
            if self.top.kind in signs:
                sign = self.advance().kind
                scripts[sign] = self._argument(exponent=sign == "^")
        return scripts

    def _signed_power(self) -> Node:
        negative = False
        while self.top.kind in ("-", "+"):
            negative ^= self.advance().kind == "-"
        node = self._power()
        return negated(node) if negative else node

    def _starts_factor(self) -> bool:
        """True where the next token is a factor without a sign of multiplication before it."""
        token = self.top
        kind = token.kind
        if kind == "number":
            # "42 43" is two answers and "x^1 0" a mistake; "(a+b) 2" is a product.
            before = self.before()
            return not token.spaced and (
                before.kind in (")", "}", "!") or (before.kind, before.value) == ("word", "i")
            )
        if kind == "word":
            value = token.value
            if value == "in":
                return not (self.names_a_set() or self.before().kind == "number")
            if value in ("min", "sec") and self.before().kind == "number":
                return self.peek().kind in ("(", "_", "\\{")  # 120 min
            if value in _NO_LETTERS:
                return len(value) == 2 and self.multiplies_letters()
            if value in CERTAIN_SYMBOLS and self.before().kind == "number":
                return False
            if value.lower() in PLAIN_UNITS:
                return self._multiplies_a_force(value)
            calls = value in SPELLED or value in SYMPY_NAMES or function_suffix(value) is not None
            if calls and self.peek().kind == "(" and not self.peek().spaced:
                return True
            return value in GREEK or len(value) <= 3 or function_prefix(value) is not None
        if kind == "text":
            # A letter in another font may be a variable; with a space, or after a number, one of these is a unit.
            value = token.value.strip()
            is_unit_word = value in ("min", "sec") and self.peek().kind != "("
            if self.before().kind == "number" and (token.value in _UNIT_LETTERS or is_unit_word):
                return False
            if token.value in SPELLED or value in ("i", "e", "pi"):
                return True
            if len(value) != 1 or not value.isalpha():
                return False
            return (len(token.value) == 1 and not token.spaced) or (value.isascii() and not is_unit(value))
        if kind == "command":
            value = token.value
            return not (value in RELATIONS or value in SET_OPERATIONS or value in _NO_FACTOR)
        if kind == "|":
            return not self.bar_ends
        if kind == "(" and ((token.spaced and self._opens_membership()) or self.opens_unit()):
            return False
        return kind in ("(", "[", "{", "\\{", "begin")

    def _multiplies_a_force(self, unit: str) -> bool:
        r"""Whether the "mg" of ``\mu mg``, ``2mg + kx`` and ``2mg\sin\theta`` is m times g, and no unit."""
        before, after = self.before(), self.peek()
        if len(unit) != 2 or not unit.islower():
            return False
        is_letter = before.kind == "command" and before.value in GREEK | {"mu", "nu"}
        calls = after.kind == "command" and after.value in SPELLED
        return (
            is_letter or calls or after.kind in ("+", "-") or (unit == "mg" and after.kind == "(" and not after.spaced)
        )

    def _opens_membership(self) -> bool:
        r"""True before ``(k \in \mathbb{Z})``."""
        return self.peek().kind == "word" and self.peek(2).kind == "command" and self.peek(2).value == "in"
