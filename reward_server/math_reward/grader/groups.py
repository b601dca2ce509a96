"""What stands between brackets, braces, bars or ``\\begin`` and ``\\end``, and the big operators."""

from __future__ import annotations

from math_reward.grader.stream import END, TokenStream
from math_reward.grader.syntax import (
    BigOperator,
    Bracketed,
    Constant,
    Matrix,
    Node,
    SetBuilder,
    Several,
    Symbol,
)
from math_reward.grader.tokens import NotMathematics


class GroupParser(TokenStream):
    """Groups; what they hold is read by the rules of ``parse.Parser``."""

    __slots__ = ()

    def _answer(self) -> Node:
        raise NotImplementedError

    def _list(self, *, in_brackets: bool = False) -> Node:
        raise NotImplementedError

    def _sum(self) -> Node:
        raise NotImplementedError

    def _product(self) -> Node:
        raise NotImplementedError

    def _argument(self, *, exponent: bool = False) -> Node:
        raise NotImplementedError

    def _index(self) -> str:
        raise NotImplementedError

    def _brackets(self) -> Node:
        left = self.advance().kind
        bars, self.bar_ends = self.bar_ends, 0
        inside = self.below(lambda: self._list(in_brackets=True))
        self.bar_ends = bars
        right = self.expect(")", "]")
        if isinstance(inside, Several) and inside.kind == "list":
            return Bracketed(left, right, inside.items)
        if left == "(" and right == ")":
            return inside
        if left == "[" and right == "]":
            return inside if isinstance(inside, Matrix) else Bracketed(left, right, (inside,))
        raise NotMathematics("an interval needs two ends")

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
        return Several("set", inside.items if isinstance(inside, Several) else (inside,))

    def _environment(self) -> Node:
        name = self.advance().value
        if "matrix" not in name and name != "array":
            raise NotMathematics(f"the environment {name!r} is no answer")
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
            cells.append(self.below(self._sum))
        self.advance()
        if cells:
            rows.append(tuple(cells))
        if not rows or len({len(row) for row in rows}) != 1:
            raise NotMathematics("the rows of a matrix differ in length")
        return Matrix(tuple(rows))

    def _big_operator(self, name: str) -> Node:
        lower: Node | None = None
        upper: Node | None = None
        for _ in range(2):
            if self.top.kind == "_":
                self.advance()
                lower = Symbol(self._index())
            elif self.top.kind == "^":
                self.advance()
                upper = self._argument(exponent=True)
        return BigOperator(name, lower, upper, self.below(self._product))
