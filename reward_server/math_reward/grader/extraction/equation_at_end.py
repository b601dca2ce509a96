"""Finds the equation at the end of a text without LaTeX: "so y − 2 = 3(x − 1)"."""

from __future__ import annotations

import re

from math_reward.grader.extraction.bare import is_bare
from math_reward.grader.extraction.denials import denied_before, is_denied, is_tried
from math_reward.grader.words.doubts import says

_LETTER = re.compile(r"(?<![a-zA-Z])(?!e(?![a-zA-Z]))[a-zA-Z](?![a-zA-Z])")
_QUANTITY = re.compile(r"[-−]?[\d.,×·*^⁰¹²³⁴-⁹⁻ ]+ [A-Za-zΩµ°][\w/²³⁻¹·^]{0,12}(?: [\w/²³⁻¹^]{1,6}){0,3}")
_AND = r"(?:and|und|et|и|or|oder|ou|или|[ye](?=\s\w{1,2}\s?=))"
_EQUATION = re.compile(
    rf"(?:^|\s)(?:{_AND}\s)?(?P<left>(?:(?!\s{_AND}\s)[^=,:→⇒]){{1,60}}?)(?:=|\s(?:is|equals|is equal to)\s)\s?"
    r"(?P<right>[^=≈→⇒]{1,120})\Z"
)
_CALCULATED = re.compile(r"[-+*/^(!−·²³]")
# x in x₁ = 2, x₂ = 3, and in x = 2 or x = 3
_NUMBERED = re.compile(r"(?P<letter>[^\W\d_])(?:_?\d|[₀-₉])?\s")
# "the line is 2x - y - 3 = 0", and not "It is parallel to 2x - y = 3"
_OF_A_CURVE = re.compile(
    r"(?:.*\b(?:line|circle|plane|equation|parabola|ellipse|curve|tangent)\b[^.]{0,40}\b(?:is|:)\s)\Z",
    re.IGNORECASE,
)
_WORD_BEFORE_NAME = re.compile(r"(?<![^\W\d_])(?!(?:sin|cos|tan|log|exp|ln|xy|ab)\s)[^\W\d_₀-₉]{2,}[.:]?\s")
# "..., with A, B arbitrary constants", "for any real t", "n any integer", "k ∈ ℤ"
_KINDS = (
    r"(?:any|all|every|some|an?|is|are|being|arbitrary|free|real|integers?|positive|constants?|numbers?|parameters?)"
)
_LETTERS = r"[A-Za-z](?:_?\d|[₀-₉])?(?:(?:,| and|, and)\s[A-Za-z](?:_?\d|[₀-₉])?)*"
_DECLARED = re.compile(
    rf"(?:,\s|\s(?=(?:with|where|for|and|any|all|every)\s)|\s(?=\())\(?(?=[^=]{{1,80}}\Z)(?:(?:with|where|for|and)\s)?(?:{_KINDS}\s)*"
    rf"(?P<names>{_LETTERS})(?:\s?∈\s?[ℝℤℕRZN]|(?:\s{_KINDS}){{1,5}}(?: of integration)?|(?<=\w\w\s\w))\)?\Z"
)


def equation_at_end(text: str) -> str | None:
    r"""The equations in letters that a text without LaTeX ends with, and what it says of the letters: "so y = kx for
    real k" gives ``y = kx, k \in \mathbb{R}``. Numbers are left to the other places, which know their units.
    """
    sentence = re.split(r"[.!?。]\s|[\n;]", re.sub(r",\s+", ", ", text[-300:].rstrip(" .。*")))[-1]
    if "$" in sentence or "\\" in sentence or sentence.count("=") > 4:
        return None
    declared = _DECLARED.search(sentence)
    rest = sentence[: declared.start()] if declared is not None else sentence
    equations: list[str] = []
    letters: set[str] = set()
    has_letters = False
    while (said := _EQUATION.search(rest)) is not None:
        words = list(_WORD_BEFORE_NAME.finditer(said["left"]))
        begin = words[-1].end() if words else 0
        name = said["left"][begin:].strip(" *(")
        right = said["right"].strip()
        is_verb = "=" not in rest[said.end("left") : said.start("right")]
        in_letters = (_LETTER.search(right) or "!" in right) and not _QUANTITY.fullmatch(right)
        before = rest[: said.start("left") + begin]
        is_curve = (
            not is_verb
            and len({*_LETTER.findall(name)}) > 1
            and _OF_A_CURVE.match(before)
            and not says("curve", before)
        )
        numbered = None if is_verb or in_letters else _NUMBERED.fullmatch(f"{name} ")
        is_denial = denied_before(before)
        if is_denial or is_denied(rest, said) or is_tried(before) or says("equation", before):
            return "" if is_denial and (in_letters or is_curve) else None
        if not (in_letters or is_curve or numbered) or not is_bare(right):
            break
        has_letters = has_letters or numbered is None
        letters.add(numbered["letter"] if numbered else name)
        if is_verb or "∫" in said["left"]:
            equations += [right] if _CALCULATED.search(right) and not equations else []
            break
        if not name or not is_bare(name):
            break
        equations.insert(0, f"{name} = {right}")
        rest = rest[: said.start()].removesuffix(",") if name == said["left"].strip() else ""
    if not has_letters and (len(equations) < 2 or len(letters) > 1):
        return None
    if equations and declared is not None:
        names = re.findall(r"(?<![a-zA-Z])[a-zA-Z](?:_?\d|[₀-₉])?(?![a-zA-Z])", declared["names"])
        whole = "integer" in declared[0] or declared[0].rstrip(" )").endswith(("ℤ", "Z"))
        equations += [rf"{name} \in \mathbb{{{'Z' if whole else 'R'}}}" for name in names]
    return ", ".join(equations) or None
