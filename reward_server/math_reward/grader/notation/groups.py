"""Parses groups in brackets, braces, bars or ``\\begin`` and ``\\end``, and the big operators."""

from __future__ import annotations

from collections.abc import Callable

from math_reward.grader.errors import NotMathematics
from math_reward.grader.notation.grammar import Grammar
from math_reward.grader.notation.stream import END
from math_reward.grader.notation.syntax import (
    BigOperator,
    Bracketed,
    Call,
    Collection,
    Constant,
    Matrix,
    Node,
    Product,
    SetBuilder,
    Sum,
    differential,
)

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
