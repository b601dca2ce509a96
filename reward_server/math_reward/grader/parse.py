r"""Parses a normalised answer, in LaTeX or plain mathematics, to the tree of `syntax.py`.

A recursive-descent parser, loosest binding first::

    answer    = list { "or" list }
    list      = relation { ("," | ";" | "and") relation }
    relation  = sets { ("=" | "<" | ...) sets } [ unit ]
    sets      = sum { (union | intersection | difference) sum }
    sum       = [ sign ] product { ("+" | "-" | pm) product }
    product   = power { [ "*" | "/" ] power }
    power     = postfix [ "^" argument ]

It takes the conventions of people over those of TeX where they differ: ``x^10`` is x to the tenth, ``1 1/2`` a mixed
number, ``f(x) = ...`` names a function. Nothing that it reads is ever executed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

from math_reward.grader.normalise import normalise
from math_reward.grader.syntax import (
    BasedNumber,
    BigOperator,
    Bracketed,
    Call,
    ClockTime,
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
    Several,
    Sum,
    Symbol,
    Text,
)
from math_reward.grader.tokens import MAX_DIGITS, NotMathematics, Token, TooComplex, tokenise
from math_reward.grader.vocabulary import (
    BIG_OPERATORS,
    CONSTANTS,
    FUNCTIONS,
    INVERSE,
    LEADING,
    NEGATIONS,
    NUMBER_WORDS,
    PHRASES,
    PLAIN_UNITS,
    QUALIFIERS,
    RELATIONS,
    UNITS,
)

__all__ = ["MAX_CHARACTERS", "MAX_NESTING", "NotMathematics", "TooComplex", "parse", "parse_normalised", "words"]

MAX_CHARACTERS = 2_000
MAX_NESTING = 60

_CLOCK = re.compile(r"\s*(\d{1,2}):([0-5]\d)(?::([0-5]\d))?\s*(?:([AaPp])\.?\s*[Mm]\.?)?\s*")
_TEXT_COMMAND = re.compile(r"\\(?:text\w*|mbox|hbox|mathrm|mathbf|mathit|emph|operatorname|bold|underline)\s*(?=\{)")
_PROSE = re.compile(r"[\w\s.,'()\-:;!?/\"&]*[A-Za-z][\w\s.,'()\-:;!?/\"&]*")
_WORD = re.compile(r"[a-z']+")
_DIVISION = re.compile(r"\s*[,;]\s*(?:and\s+)?|\s+and\s+")
_SET_OPERATIONS = {"cup": "union", "cap": "intersection", "setminus": "difference"}
_END = Token("end of text", "", False)
_VARIANTS = {"hat", "bar", "vec", "tilde", "overrightarrow", "overleftarrow", "widehat", "overline", "dot", "ddot"}


def parse(text: str, *, thousands: bool = True) -> Node:
    r"""The tree of one answer, written in LaTeX or plainly, with or without delimiters.

    Args:
        text: the answer and nothing else.
        thousands: read ``1,000`` as a number and not as a list.

    Raises:
        TooComplex: the text is beyond the limits on length, tokens, digits or nesting; hardly any work was done.
        NotMathematics: it is empty, or neither a formula nor words.
    """
    if len(text) > MAX_CHARACTERS:
        raise TooComplex(f"it has {len(text):,} characters, and {MAX_CHARACTERS:,} are allowed")
    return parse_normalised(normalise(text), thousands=thousands)


def parse_normalised(text: str, *, thousands: bool = True) -> Node:
    """As ``parse``, of a text that `normalise.normalise` has given."""
    if not text:
        raise NotMathematics("it is empty")
    if text.isdecimal() and len(text) <= MAX_DIGITS:
        return Number(Fraction(int(text)))  # Most references are: no parser is needed.
    if ":" in text and (clock := _CLOCK.fullmatch(_unwrapped(text))):
        return _clock(clock)
    try:
        return _Parser(tokenise(text, thousands=thousands)).whole()
    except NotMathematics:
        plain = words(text)
        if plain and _PROSE.fullmatch(plain) and _is_closed(_TEXT_COMMAND.sub("", text)):
            return _spoken(plain)
        raise


def words(text: str) -> str:
    r"""A normalised text as words: without ``\text{}``, braces, outer brackets and quotation marks; in lower case
    unless it is a single letter."""
    text = _unwrapped(text)
    text = " ".join(text.replace("\\", "").split()).strip(" .,;:!?'\"")
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1].strip()
    return text if len(text) == 1 else text.lower()


def _unwrapped(text: str) -> str:
    return _TEXT_COMMAND.sub("", text).replace("{", "").replace("}", "")


def _is_closed(text: str) -> bool:
    """False for a formula that breaks off: a command or a brace without its end."""
    return "\\" not in text and text.count("{") == text.count("}")


def _clock(match: re.Match[str]) -> Node:
    hours, minutes, seconds, half = match.groups()
    hour = int(hours)
    ratio = None
    if half:
        hour = hour % 12 + (12 if half in "pP" else 0)
    elif seconds is None:
        ratio = Ratio((Number(Fraction(hour)), Number(Fraction(int(minutes)))))
    return ClockTime(hour * 3600 + int(minutes) * 60 + int(seconds or 0), ratio)


class _Parser:
    """One pass over the tokens of one answer."""

    __slots__ = ("_bar_ends", "_depth", "_position", "_tokens", "_top")

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = [*tokens, _END]
        self._position = 0
        self._depth = 0
        self._bar_ends = 0  # how many enclosing constructs a "|" ends
        self._top = self._tokens[0]

    # ── tokens ──

    def _advance(self) -> Token:
        token = self._top
        if token is _END:
            raise NotMathematics("it ends too early")
        self._position += 1
        self._top = self._tokens[self._position]
        return token

    def _peek(self, ahead: int = 1) -> Token:
        position = self._position + ahead
        return self._tokens[position] if position < len(self._tokens) else _END

    def _accept(self, kind: str) -> bool:
        if self._top.kind == kind:
            self._advance()
            return True
        return False

    def _expect(self, *kinds: str) -> str:
        if self._top.kind not in kinds:
            found = self._top.value or self._top.kind
            raise NotMathematics(f"{' or '.join(kinds)} is missing before {found!r}")
        return self._advance().kind

    def _is_command(self, *names: str) -> bool:
        return self._top.kind == "command" and self._top.value in names

    def _below(self, rule: Callable[[], Node]) -> Node:
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise TooComplex(f"it is nested more than {MAX_NESTING} deep")
        node = rule()
        self._depth -= 1
        return node

    # ── rules, loosest first ──

    def whole(self) -> Node:
        self._drop_leading_words()
        node = self._answer()
        if self._top.kind in (".", "?", "!"):
            self._advance()
        if self._top is not _END:
            raise NotMathematics(f"{self._top.value or self._top.kind!r} has no meaning where it stands")
        return node

    def _drop_leading_words(self) -> None:
        start = self._position
        while self._top.kind in ("text", "word", ":"):
            content = _WORD.findall(self._top.value.lower())
            single = self._top.kind == "word" and (len(self._top.value) == 1 or self._top.value in FUNCTIONS)
            if single or not all(word in LEADING for word in content):
                break
            self._advance()
        if self._top is _END:
            self._position, self._top = start, self._tokens[start]

    def _answer(self) -> Node:
        items = [self._list()]
        while self._is_word("or") or self._is_command("lor"):
            self._advance()
            items.append(self._list())
        return items[0] if len(items) == 1 else Several("or", tuple(items))

    def _is_word(self, word: str) -> bool:
        return self._top.kind in ("word", "text") and self._top.value.strip(" ,.;").lower() == word

    def _at_separator(self) -> bool:
        return self._top.kind in (",", ";", "&") or self._is_word("and") or self._is_command("land")

    def _list(self, *, in_brackets: bool = False) -> Node:
        items = [self._relation()]
        while True:
            self._skip_remark(in_brackets)
            separated = False
            while self._at_separator():
                self._advance()
                separated = True
            if not separated or self._at_closing():
                break
            items.append(self._relation())
        # "x = k pi, k in Z" says what k is, and x.
        items = [item for item in items if not _is_membership(item)] or items
        return items[0] if len(items) == 1 else Several("list", tuple(items))

    def _at_closing(self) -> bool:
        return self._top is _END or self._top.kind in (")", "]", "}", "\\}", ".")

    def _skip_remark(self, in_brackets: bool) -> None:
        r"""Passes over ``\text{ for all } x \in \mathbb{Z}``, up to the next separator or the end."""
        if in_brackets:
            return
        if self._top.kind == "(" and self._opens_membership():
            self._brackets()
            return
        if self._top.kind not in ("text", "word"):
            return
        first = _WORD.findall(self._top.value.lower())
        if not first or first[0] not in QUALIFIERS or NEGATIONS.intersection(first):
            return
        depth = 0
        while self._top is not _END and not (depth == 0 and self._at_separator()):
            if NEGATIONS.intersection(_WORD.findall(self._top.value.lower())):
                raise NotMathematics("a remark after the formula takes it back")
            depth += (self._top.kind in ("(", "[", "{", "\\{")) - (self._top.kind in (")", "]", "}", "\\}"))
            self._advance()

    def _relation(self) -> Node:
        operands = [self._measured()]
        operators: list[str] = []
        while True:
            kind = self._top.kind
            name = RELATIONS.get(self._top.value if kind in ("command", "word") else kind)
            if name is None:
                break
            self._advance()
            if name in (">", "<") and self._accept("="):
                name += "="
            operators.append(name)
            operands.append(self._measured())
        return Relation(tuple(operators), tuple(operands)) if operators else operands[0]

    def _measured(self) -> Node:
        """A value with the unit after it, if it has one."""
        if self._top.kind in ("\\$", "$", "€", "£", "¥"):
            unit = UNITS[self._advance().kind.removeprefix("\\")]
            value = Quantity(self._ratio(), unit)
            if self._top.kind in ("text", "word") and UNITS.get(self._top.value.strip().lower()) == unit:
                self._advance()
            return value
        start = self._top
        node = self._ratio()
        if self._top.kind in ("\\$", "$", "€", "£"):
            return Quantity(node, UNITS[self._advance().kind.removeprefix("\\")])
        if start.kind == "text" and self._position == 1:
            return node
        named = self._unit()
        if named is None:
            return node
        if isinstance(node, Quantity):
            if node.unit == named:
                return node
            return Quantity(node.value, f"{node.unit} {named}")
        return Quantity(node, named)

    def _unit(self) -> str | None:
        parts: list[str] = []
        while self._top.kind in ("text", "word"):
            raw = self._top.value.strip(" .,;()").lower()
            if self._is_word("and") or self._is_word("or"):
                break
            found = _WORD.findall(raw)
            if not raw:
                self._advance()
                continue
            if found and found[0] in QUALIFIERS and found[0] != "per":
                break
            if any(c.isdigit() for c in raw.replace("^2", "").replace("^3", "")) or NEGATIONS.intersection(found):
                raise NotMathematics("the words after the number say more than a unit")
            if raw in ("th", "st", "nd", "rd"):
                self._advance()
                continue
            self._advance()
            unit = _unit_name(raw)
            if self._top.kind == "^":
                self._advance()
                exponent = self._argument()
                if not isinstance(exponent, Number):
                    raise NotMathematics("the power of a unit is no number")
                unit += f"^{exponent.value}"
            parts.append(unit)
            if self._top.kind == "/" and self._peek().kind in ("text", "word"):
                self._advance()
                parts.append("/")
        if not parts:
            return None
        return " ".join(parts).replace(" / ", "/")

    def _ratio(self) -> Node:
        terms = [self._sets()]
        while self._top.kind == ":" and not self._bar_ends:
            self._advance()
            terms.append(self._sets())
        return terms[0] if len(terms) == 1 else Ratio(tuple(terms))

    def _sets(self) -> Node:
        node = self._sum()
        while self._top.kind == "command" and self._top.value in _SET_OPERATIONS:
            operator = _SET_OPERATIONS[self._advance().value]
            right = self._sum()
            if isinstance(node, SetOperation) and node.operator == operator and operator != "difference":
                node = SetOperation(operator, (*node.operands, right))
            else:
                node = SetOperation(operator, (node, right))
        return node

    def _sum(self) -> Node:
        terms: list[Node] = []
        sign = self._sign()
        if sign == "±":
            node: Node = PlusMinus(None, self._product())
        else:
            node = self._product()
            if sign == "-":
                node = _negative(node)
        while True:
            kind = self._top.kind
            if kind == "+" or kind == "-":
                sign = self._sign()
                terms.append(node)
                node = self._product()
                if sign == "-":
                    node = _negative(node)
            elif self._is_command("pm", "mp"):
                self._advance()
                left = node if not terms else Sum((*terms, node))
                terms = []
                node = PlusMinus(left, self._product())
            else:
                break
        return Sum((*terms, node)) if terms else node

    def _sign(self) -> str:
        """The signs that stand here, as one: "", "-" or "±"."""
        negative = False
        plus_minus = False
        count = 0
        while True:
            if self._top.kind == "-":
                negative = not negative
            elif self._is_command("pm", "mp"):
                plus_minus = True
            elif self._top.kind != "+":
                break
            count += 1
            if count > MAX_NESTING:
                raise TooComplex(f"it has more than {MAX_NESTING} signs in a row")
            self._advance()
        return "±" if plus_minus else "-" if negative else ""

    def _product(self) -> Node:
        node = self._power()
        factors = [node]
        while True:
            token = self._top
            kind = token.kind
            if kind == "*" or (kind == "command" and token.value in ("cdot", "times")):
                self._advance()
                factors.append(self._signed_power())
            elif kind == "/" or (kind == "command" and token.value == "div"):
                self._advance()
                left = _product(factors)
                factors = [Quotient(left, self._signed_power())]
            elif kind == "command" and token.value in ("bmod", "mod", "pmod", "choose"):
                self._advance()
                factors = [Call(token.value.strip("bp"), (_product(factors), self._signed_power()))]
            elif self._starts_factor():
                factors.append(self._power())
            else:
                break
        return _product(factors)

    def _signed_power(self) -> Node:
        negative = False
        while self._top.kind in ("-", "+"):
            negative ^= self._advance().kind == "-"
        node = self._power()
        return _negative(node) if negative else node

    def _starts_factor(self) -> bool:
        """True where the next token is a factor that no sign of multiplication announces."""
        token = self._top
        kind = token.kind
        if kind == "number":
            # "42 43" is two answers and "x^1 0" a mistake; "(a+b) 2" is a product.
            return self._tokens[self._position - 1].kind in (")", "}") and not token.spaced
        if kind == "word":
            value = token.value
            return not (
                value in ("and", "or", "in", "for", "where", "with", "if", "when", "is", "th", "per")
                or value.lower() in PLAIN_UNITS
                or (len(value) > 3 and not _function_prefix(value))
            )
        if kind == "text":
            # A letter in another font may be a variable; with a space, or after a number, one of these is a unit.
            if self._tokens[self._position - 1].kind == "number" and token.value in _UNIT_LETTERS:
                return False
            return len(token.value) == 1 and not token.spaced and token.value.isalpha()
        if kind == "command":
            value = token.value
            return not (value in RELATIONS or value in _SET_OPERATIONS or value in _NO_FACTOR)
        if kind == "|":
            return not self._bar_ends
        if kind == "(" and token.spaced and self._opens_membership():
            return False
        return kind in ("(", "[", "{", "\\{", "begin")

    def _opens_membership(self) -> bool:
        r"""True before ``(k \in \mathbb{Z})``."""
        return self._peek().kind == "word" and self._peek(2).kind == "command" and self._peek(2).value == "in"

    def _power(self) -> Node:
        node = self._below(self._primary)
        return self._postfix(node)

    def _postfix(self, node: Node) -> Node:
        for _ in range(MAX_NESTING):
            kind = self._top.kind
            if kind == "^" or kind == "**":
                self._advance()
                if self._is_command("circ") or self._group_is("circ"):
                    self._skip_group()
                    node = Quantity(node, "degree")
                    continue
                if self._is_ordinal():
                    self._skip_group()
                    continue
                if self._is_command("prime") or self._group_is("prime") or self._top.kind == "'":
                    self._skip_group()
                    node = Call("prime", (node,))
                    continue
                node = Power(node, self._argument(exponent=True))
            elif kind == "!" and self._peek().kind != "=":
                self._advance()
                double = self._accept("!")
                node = Call("double factorial" if double else "factorial", (node,))
            elif kind == "%" or kind == "\\%":
                self._advance()
                node = Quantity(node, "percent")
            elif kind == "'":
                self._advance()
                node = Call("prime", (node,))
            elif kind == "_" and isinstance(node, Number):
                self._advance()
                node = self._based(node)
            elif kind == "command" and self._top.value == "circ":
                self._advance()
                node = Quantity(node, "degree")
            else:
                return node
        raise TooComplex(f"it is nested more than {MAX_NESTING} deep")

    def _group_is(self, command: str) -> bool:
        return self._top.kind == "{" and self._peek().value == command and self._peek(2).kind == "}"

    def _is_ordinal(self) -> bool:
        token = self._top if self._top.kind != "{" else self._peek()
        return token.kind in ("text", "word") and token.value.strip() in ("th", "st", "nd", "rd")

    def _skip_group(self) -> None:
        if self._accept("{"):
            self._advance()
            self._expect("}")
        else:
            self._advance()

    def _based(self, number: Number) -> Node:
        base = self._argument()
        if (
            isinstance(base, Number)
            and base.value.denominator == 1
            and 2 <= base.value <= 36
            and number.places is None
            and number.value.denominator == 1
        ):
            digits = str(number.value)
            if all(int(digit) < base.value for digit in digits):
                return BasedNumber(digits, int(base.value))
        raise NotMathematics("a number has an index that is no base")

    # ── what binds tightest ──

    def _primary(self) -> Node:
        token = self._top
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
            self._advance()
            if self._top.kind == "}":
                raise NotMathematics("a pair of braces is empty")
            bars, self._bar_ends = self._bar_ends, 0
            node = self._answer()
            self._bar_ends = bars
            self._expect("}")
            return node
        if kind == "\\{":
            return self._set()
        if kind == "|" or kind == "\\|":
            self._advance()
            self._bar_ends += 1
            node = self._sum()
            self._bar_ends -= 1
            self._expect(kind)
            return Call("abs", (node,))
        if kind == "begin":
            return self._environment()
        if kind == "text":
            return self._text()
        if kind == "number set":
            letter = self._advance().value
            return Constant(CONSTANTS[letter]) if letter in CONSTANTS else Symbol(letter)
        raise NotMathematics("it ends too early" if token is _END else f"{token.value or kind!r} has no meaning there")

    def _number(self) -> Node:
        token = self._advance()
        number = _number(token.value)
        following = self._top
        if following.kind == "command" and following.value in ("overline", "bar", "dot") and "." in token.value:
            self._advance()
            repeating = self._raw_digits()
            return _repeating(token.value, repeating)
        if number.places is not None:
            return number
        if following.kind == "command" and following.value == "frac":
            start = self._position
            fraction = _proper(self._command())
            if fraction is not None:
                return Number(number.value + fraction)
            self._position, self._top = start, self._tokens[start]
        elif (
            following.kind == "number"
            and following.spaced
            and self._peek().kind == "/"
            and self._peek(2).kind == "number"
            and all(part.value.isdigit() for part in (following, self._peek(2)))
        ):
            numerator, denominator = int(following.value), int(self._peek(2).value)
            if 0 < numerator < denominator:
                for _ in range(3):
                    self._advance()
                return Number(number.value + Fraction(numerator, denominator))
        return number

    def _raw_digits(self) -> str:
        braced = self._accept("{")
        if self._top.kind != "number" or not self._top.value.isdigit():
            raise NotMathematics("what repeats is no digits")
        digits = self._advance().value
        if braced:
            self._expect("}")
        return digits

    def _word(self) -> Node:
        token = self._advance()
        value = token.value
        if value in FUNCTIONS:
            return self._function(FUNCTIONS[value])
        if value in ("pi", "infty", "infinity", "inf", "oo", "Infinity"):
            return Constant(CONSTANTS[value.lower()])
        prefix = _function_prefix(value)
        if prefix:
            self._position -= 1
            self._tokens[self._position : self._position + 1] = [
                Token("word", prefix, token.spaced),
                Token("word", value[len(prefix) :], False),
            ]
            self._top = self._tokens[self._position]
            return self._word()
        if len(value) > 3 or value.lower() in _SHORT_WORDS:
            raise NotMathematics(f"{value!r} is a word")
        if len(value) == 1:
            return self._symbol(value)
        # "xy" is x times y; an index or a power belongs to the last letter.
        self._position -= 1
        self._tokens[self._position : self._position + 1] = [
            Token("word", letter, token.spaced and index == 0) for index, letter in enumerate(value)
        ]
        self._top = self._tokens[self._position]
        return self._word()

    def _symbol(self, name: str) -> Node:
        if self._top.kind == "_":
            self._advance()
            return Symbol(f"{name}_{self._index()}")
        if self._top.kind == "(" and self._is_application(name):
            arguments = self._brackets()
            items = arguments.items if isinstance(arguments, Bracketed) else (arguments,)
            return Call(f"apply {name}", items)
        if name == "e":
            return Constant("e")
        if name == "i":
            return Constant("i")
        return Symbol(name)

    def _is_application(self, name: str) -> bool:
        """Whether ``name(`` is a function and its argument: f, g, h always, others where ``=`` follows."""
        if self._top.spaced and name not in "fghFGH":
            return False
        depth = 0
        for position in range(self._position, len(self._tokens)):
            kind = self._tokens[position].kind
            depth += (kind in ("(", "{", "[")) - (kind in (")", "}", "]"))
            if depth == 0:
                following = self._tokens[position + 1]
                names_it = following.kind == "=" and (
                    self._position < 2
                    or self._tokens[self._position - 2].kind in (",", ";", "text", "word", "(", "&")
                    or self._tokens[self._position - 2].value == "and"
                )
                return names_it or name in "fghFGH"
        return False

    def _index(self) -> str:
        if self._top.kind != "{":
            return self._advance().value
        self._advance()
        depth = 1
        parts: list[str] = []
        while self._top is not _END:
            token = self._advance()
            depth += (token.kind == "{") - (token.kind == "}")
            if depth == 0:
                return "".join(parts)
            parts.append(token.value)
        raise NotMathematics("the braces of an index are never closed")

    def _text(self) -> Node:
        token = self._advance()
        value = token.value.strip()
        if value in FUNCTIONS:
            return self._function(FUNCTIONS[value])
        if len(value) == 1 and value.isalpha():
            return self._symbol(value)
        before = self._tokens[self._position - 2].kind if self._position > 1 else ","
        if before in (",", ";", "{", "&", "(", "=", "\\{", "text"):
            spoken = [value]
            while self._top.kind == "text" and not self._at_separator() and not self._is_word("or"):
                spoken.append(self._advance().value)
            plain = words(" ".join(spoken))
            if plain and (self._at_separator() or self._at_closing() or self._is_word("or")):
                return _spoken(plain)
        raise NotMathematics(f"the words {value!r} stand where a number or a variable should")

    def _command(self) -> Node:
        name = self._advance().value
        if name == "frac":
            return Quotient(*self._two_arguments())
        if name == "sqrt":
            return self._root()
        if name == "binom":
            return Call("binom", self._two_arguments())
        if name in FUNCTIONS:
            return self._function(FUNCTIONS[name])
        if name in ("pi", "infty", "emptyset"):
            return Constant(CONSTANTS[name])
        if name in ("lfloor", "lceil"):
            node = self._below(self._sum)
            closing = name.replace("l", "r", 1)
            if not self._is_command(closing):
                raise NotMathematics(f"\\{closing} is missing")
            self._advance()
            return Call("floor" if name == "lfloor" else "ceil", (node,))
        if name == "langle":
            items = self._below(self._list)
            if not self._is_command("rangle"):
                raise NotMathematics("\\rangle is missing")
            self._advance()
            return Bracketed("(", ")", items.items if isinstance(items, Several) else (items,))
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
        if self._top.kind == "number" and len(self._top.value) > 1 and self._top.value.isdigit():
            token = self._top
            if self._peek().kind != "{":
                rest = [Token("number", token.value[0], False), Token("number", token.value[1], False)]
                if len(token.value) > 2:
                    rest.append(Token("number", token.value[2:], False))
                self._tokens[self._position : self._position + 1] = rest
                self._top = self._tokens[self._position]
        return self._argument(), self._argument()

    def _root(self) -> Node:
        if self._top.kind == "[":
            self._advance()
            index = self._below(self._sum)
            self._expect("]")
            return Call("root", (self._argument(), index))
        return Call("sqrt", (self._argument(),))

    def _argument(self, *, exponent: bool = False) -> Node:
        """What stands in braces, or the next single thing."""
        if self._top.kind == "{":
            return self._below(self._primary)
        if exponent and self._top.kind in ("-", "+"):
            negative = self._advance().kind == "-"
            node = self._argument()
            return _negative(node) if negative else node
        if self._top.kind == "number":
            return _number(self._advance().value)
        if self._top.kind == "word" and len(self._top.value) > 1 and self._top.value not in FUNCTIONS:
            token = self._top
            self._tokens[self._position : self._position + 1] = [
                Token("word", token.value[0], token.spaced),
                Token("word", token.value[1:], False),
            ]
            self._top = self._tokens[self._position]
        return self._below(self._primary)

    def _function(self, name: str) -> Node:
        if name == "sqrt":
            return Call("sqrt", (self._argument(),))
        base: Node | None = None
        power: Node | None = None
        for _ in range(2):
            if self._top.kind == "_" and name in ("log", "max", "min"):
                self._advance()
                base = self._argument()
            elif self._top.kind == "^":
                self._advance()
                power = self._argument(exponent=True)
        if power == Negative(Number(Fraction(1))) and name in INVERSE:
            name, power = INVERSE[name], None
        arguments = self._arguments()
        if base is not None and name == "log":
            arguments = (*arguments, base)
        elif name == "log10":
            name, arguments = "log", (*arguments, Number(Fraction(10)))
        least, most = _ARGUMENTS.get(name, (1, 1))
        if not least <= len(arguments) <= most:
            raise NotMathematics(f"{name} does not take {len(arguments)} arguments")
        node: Node = Call(name, arguments)
        return node if power is None else Power(node, power)

    def _arguments(self) -> tuple[Node, ...]:
        """``(x, y)``, or the factors up to the next sign, function or bracket: ``\\sin 2x \\cos y``."""
        if self._top.kind == "(":
            inside = self._below(self._brackets)
            return inside.items if isinstance(inside, Bracketed) else (inside,)
        factors = [self._signed_power()]
        while self._starts_factor():
            token = self._top
            if token.kind in ("(", "[", "|") or (token.kind in ("command", "word") and _is_function(token.value)):
                break
            factors.append(self._power())
        if self._top.kind == "/" and self._peek().kind == "number":  # sin x/2
            self._advance()
            return (Quotient(_product(factors), self._power()),)
        return (_product(factors),)

    def _brackets(self) -> Node:
        left = self._advance().kind
        bars, self._bar_ends = self._bar_ends, 0
        inside = self._below(lambda: self._list(in_brackets=True))
        self._bar_ends = bars
        right = self._expect(")", "]")
        if isinstance(inside, Several) and inside.kind == "list":
            return Bracketed(left, right, inside.items)
        if left == "(" and right == ")":
            return inside
        if left == "[" and right == "]":
            return inside if isinstance(inside, Matrix) else Bracketed(left, right, (inside,))
        raise NotMathematics("an interval needs two ends")

    def _set(self) -> Node:
        self._advance()
        if self._accept("\\}"):
            return Constant("emptyset")
        bars, self._bar_ends = self._bar_ends, 1
        inside = self._below(self._list)
        self._bar_ends = bars
        if self._top.kind in ("|", ":"):
            self._advance()
            condition = self._below(self._answer)
            self._expect("\\}")
            return SetBuilder(inside, condition)
        self._expect("\\}")
        return Several("set", inside.items if isinstance(inside, Several) else (inside,))

    def _environment(self) -> Node:
        name = self._advance().value
        if "matrix" not in name and name != "array":
            raise NotMathematics(f"the environment {name!r} is no answer")
        rows: list[tuple[Node, ...]] = []
        cells: list[Node] = []
        while self._top.kind != "end":
            if self._top is _END:
                raise NotMathematics(f"\\end{{{name}}} is missing")
            if self._accept("&"):
                continue
            if self._accept("row"):
                if cells:
                    rows.append(tuple(cells))
                cells = []
                continue
            cells.append(self._below(self._sum))
        self._advance()
        if cells:
            rows.append(tuple(cells))
        if not rows or len({len(row) for row in rows}) != 1:
            raise NotMathematics("the rows of a matrix differ in length")
        return Matrix(tuple(rows))

    def _big_operator(self, name: str) -> Node:
        lower: Node | None = None
        upper: Node | None = None
        for _ in range(2):
            if self._top.kind == "_":
                self._advance()
                lower = Symbol(self._index())
            elif self._top.kind == "^":
                self._advance()
                upper = self._argument(exponent=True)
        return BigOperator(name, lower, upper, self._below(self._product))


_ARGUMENTS = {"max": (1, 99), "min": (1, 99), "gcd": (1, 99), "lcm": (1, 99), "log": (1, 2), "binom": (2, 2)}
"""The least and the most arguments of the functions that do not take exactly one."""
_NO_FACTOR = {
    "cdot", "times", "div", "pm", "mp", "circ", "land", "lor", "rfloor", "rceil", "rangle", "bmod", "mod", "pmod",
    "choose", "begin", "end", "right", "left",
}  # fmt: skip
_UNIT_LETTERS = frozenset("mgshlLNJW")
_SHORT_WORDS = frozenset(
    [
        "yes", "no", "odd", "all", "any", "one", "two", "six", "ten", "the", "of", "is", "it", "to", "by",
        "none", "nan", "zoo", "not", "and", "or",
    ]
)  # fmt: skip
_SPLITTABLE = (
    "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "sqrt", "sin", "cos", "tan", "cot", "sec", "csc", "log",
    "ln",
)  # fmt: skip


def _function_prefix(word: str) -> str | None:
    """``sin`` of ``sinx``: people forget the space."""
    for name in _SPLITTABLE:
        if word.startswith(name) and len(word) - len(name) in (1, 2):
            return name
    return None


def _is_function(name: str) -> bool:
    return name in FUNCTIONS or name in BIG_OPERATORS


def _is_membership(node: Node) -> bool:
    if not isinstance(node, Relation) or node.operators != ("in",):
        return False
    member, domain = node.operands
    while isinstance(domain, Power):  # Z^+
        domain = domain.base
    names_set = isinstance(domain, Symbol) and domain.name in ("Z", "N", "R", "Q", "C")
    return isinstance(member, Symbol) and (names_set or isinstance(domain, Constant))


def _spoken(plain: str) -> Node:
    """Words as a ``Text``, or as a list of them where commas or "and" divide them."""
    parts = [part for part in _DIVISION.split(plain) if part]
    if len(parts) > 1:
        return Several("list", tuple(_letters(part) for part in parts))
    return _letters(plain)


def _letters(text: str) -> Node:
    if text in NUMBER_WORDS:
        return Number(Fraction(NUMBER_WORDS[text]))
    for name, phrases in PHRASES.items():
        if text in phrases:
            return Constant(name)
    return Symbol(text) if len(text) == 1 and text.isalpha() else Text(text)


def _unit_name(raw: str) -> str:
    r"""``square feet`` as ``foot^2``, ``meters per second`` as ``meter/second``, a counted thing as it is."""
    power = ""
    tokens = raw.replace("²", "^2").replace("³", "^3").replace(" per ", "/").split()
    for prefix, exponent in (("square", "^2"), ("sq", "^2"), ("sq.", "^2"), ("cubic", "^3")):
        if len(tokens) == 2 and tokens[0] == prefix:
            tokens, power = tokens[1:], exponent
    parts = []
    for part in " ".join(tokens).split("/"):
        name, caret, exponent = part.strip().partition("^")
        parts.append(UNITS.get(name.rstrip("."), name) + caret + exponent.strip("{}"))
    return "/".join(parts) + power


def _number(literal: str) -> Number:
    if literal.isdigit():
        return Number(Fraction(int(literal)))
    mantissa = literal.lower().partition("e")[0]
    if "." not in mantissa:
        return Number(Fraction(literal))
    whole, _, decimals = mantissa.partition(".")
    if not decimals:
        return Number(Fraction(literal))
    return Number(Fraction(literal), len(decimals), len((whole + decimals).lstrip("0")))


def _repeating(literal: str, repeating: str) -> Number:
    """``0.8`` and ``4`` for 0.8444..."""
    shift = len(literal.partition(".")[2])
    return Number(Fraction(literal) + Fraction(int(repeating), (10 ** len(repeating) - 1) * 10**shift))


def _proper(node: Node) -> Fraction | None:
    """The value of a fraction of two integers between 0 and 1, which makes a number before it a mixed number."""
    if not isinstance(node, Quotient):
        return None
    above, below = node.numerator, node.denominator
    if not isinstance(above, Number) or not isinstance(below, Number):
        return None
    if above.places is not None or below.places is not None or not 0 < above.value < below.value:
        return None
    return above.value / below.value


def _negative(node: Node) -> Node:
    return Quantity(Negative(node.value), node.unit) if isinstance(node, Quantity) else Negative(node)


def _product(factors: list[Node]) -> Node:
    if len(factors) == 1:
        return factors[0]
    last = factors[-1]
    if isinstance(last, Quantity) and last.unit in ("degree", "percent") and len(factors) == 2:
        return Quantity(Product((factors[0], last.value)), last.unit)
    return Product(tuple(factors))
