r"""Finds units that stand together behind a number: ``J mol^{-1} K^{-1}``, ``kg·m/s²``, ``\mathrm{g/cm^3}``."""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple

from math_reward.grader.words.units import CERTAIN_SYMBOLS, PLAIN_UNITS, is_unit

MAX_FACTORS = 6
MAX_CHARACTERS = 80
_FACTOR = re.compile(
    r"(?:\s|~|\\[,;: ]){0,3}(?:\\(?:text|mathrm|operatorname|rm)\s?\{\s?)?"
    r"(?P<symbol>\\mu\s?[a-zA-Z]{1,3}|\\Omega|[a-zA-Zµμ°Ω℃]{1,14})(?![a-zA-Z])(?:\s?\})?"
    r"(?:\s?\^\s?\{?\s?(?P<power>[-−]?\d)\s?\}?|(?P<raised>⁻?[¹²³⁴])(?![⁰¹²³⁴⁵⁶⁷⁸⁹]))?(?:\s?\})?"
)
_JOINT = re.compile(
    r"\s?(?P<over>/|\bper\b)\s?(?P<open>\()?|\s?(?:[*·⋅×]|\\(?:cdot|times|,|;| )|~)\s?|\s|(?=\\(?:text|mathrm))"
)
_RAISED = str.maketrans("⁻¹²³⁴", "-1234")
# "6.63 x 10^-34 J s" at the end of a text
_QUANTITY = re.compile(
    r"(?<![\w.,^])(?P<value>[-−]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+|,\d{1,2})?"
    r"(?P<power>\s?(?:[×x*·]|\\times|\\cdot)\s?10\s?(?:\^\s?\{?\s?[-−+]?\d{1,3}\s?\}?|[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3}))?\s?\$?"
    r"(?P<units>(?![\d.,^])[^\n=;:!?<>]{0,40}?))(?:[\s.$)*]*|\\\))$"
)
_FRACTION = re.compile(r"\\frac ?\{([^{}]{1,40})\} ?\{([^{}]{1,40})\}$")
# Where units may begin: behind a number or a bracket.
_NUMBER_ENDS = re.compile(r"(?<=[\d})])(?=(?:\s|~|\\[,;: ]){0,3}(?!\\(?:times|cdot)|[eE]-?\d)[a-zA-Zµ\\])")
_MARKED = re.compile(r"\s?\\text ?\{[^{}]*\}")
MEASURED = {
    "A": "current amp",
    "V": "volt potential emf",
    "J": "joule energy work heat",
    "N": "newton force tension weight thrust friction",
    "W": "watt power",
    "K": "kelvin temperature",
    "C": "coulomb charge",
    "T": "tesla magnetic",
    "F": "farad capacit",
    "H": "henr induct",
    "M": "molar concentration",
    "g": "gram mass",
    "s": "second seconds time how_long period",
    "m": "meter metre distance height how_far displacement radius wavelength",
    "L": "liter litre volume",
    "h": "hour hours time",
}
"""How a prompt names what a letter measures: where it does, the letter behind a number is no variable."""
MEASURED_TOGETHER = {
    "m": "length long wide width deep tall perimeter",
    "m s^-1": "speed velocity how_fast 速度 米每秒",
    "m s^-2": "acceleration accelerate 加速度",
    "m^2": "area 面积",
    "m^3": "volume 体积",
    "h": "how_long",
}
"""How a prompt names what units measure that could be variables: where it does, and never uses one as a variable."""
_ASKS_FOR_LETTERS = re.compile(r"\b(?:simplif|expand|factor|terms of|multipl|divide|express|solve for|variable)")
_IN_ROMAN = re.compile(r"\\(?:text|mathrm|rm|operatorname)\s?\{[^{}]*\}")
_NO_SYMBOLS = frozenset(["in", "a", "per", "°", "deg", "rs", "unit", "units"])
"""Words and signs of units that mean something else between others."""


class UnitExpression(NamedTuple):
    """Units that stand together."""

    end: int
    """Where they end in the text."""
    name: str
    """Each with its power: ``J mol^-1 K^-1``."""
    is_certain: bool
    """Whether one of them has a symbol that nobody takes for variables: kg, and not m or g."""
    factors: int


def unit_expression(text: str, begin: int) -> UnitExpression | None:
    """The units that stand in ``text`` from ``begin`` on; None if the first word there is no unit."""
    names: list[str] = []
    is_certain, below, opened, place, end = False, False, False, begin, begin
    while len(names) < MAX_FACTORS and (factor := _FACTOR.match(text, place)) is not None:
        symbol = factor["symbol"].replace("\\mu", "µ").replace("μ", "µ").replace("\\Omega", "Ω").replace(" ", "")
        if symbol in _NO_SYMBOLS or not is_unit(symbol):
            break
        power = int((factor["power"] or factor["raised"] or "1").translate(_RAISED).replace("−", "-"))
        names.append(f"{symbol}^{-power if below else power}".removesuffix("^1"))
        is_certain = is_certain or symbol in CERTAIN_SYMBOLS or symbol.lower() in PLAIN_UNITS
        below, end = below and opened, factor.end()
        if opened and text[end : end + 1] == ")":
            below, opened, end = False, False, end + 1
        joint = _JOINT.match(text, end)
        if joint is None:
            break
        below, opened = below or joint["over"] is not None, opened or joint["open"] is not None
        place = joint.end()
    return UnitExpression(end, " ".join(names), is_certain, len(names)) if names else None


def quantity_at_end(text: str) -> re.Match[str] | None:
    """The number and the units together that a text ends with: "9.8 m/s^2", "6.63 x 10^-34 J s"; else None.

    The match's group ``value`` is both. A number with one unit is found without this.
    """
    match = _QUANTITY.search(text)
    if match is None:
        return None
    unit = unit_expression(match["units"], 0)
    if unit is None:
        return match if match["power"] and not match["units"].strip() else None
    is_whole = not match["units"][unit.end :].strip(" })\\$")
    return match if is_whole and (unit.factors > 1 or match["power"]) else None


def with_units(text: str, prompt: str = "") -> str:
    r"""An answer whose units are marked as such: ``1.2 \text{g cm^-3}`` for ``1.2 g/cm^3``.

    Args:
        text: the answer in one spelling.
        prompt: its question, in lower case. Letters are units where it names what they measure; without it, where
            they stand beside a unit that is none of variables.
    """
    for place in itertools.islice(_NUMBER_ENDS.finditer(text), MAX_FACTORS):
        units = _FRACTION.sub(r"\1/(\2)", text[place.end() : place.end() + MAX_CHARACTERS])
        unit = unit_expression(units, 0)
        if unit is None or units[unit.end :].strip(" })") or _MARKED.fullmatch(units):
            continue
        symbols = (name.partition("^")[0] for name in unit.name.split())
        is_named = bool(prompt) and (
            all(_names(prompt, MEASURED.get(symbol, symbol)) for symbol in symbols)
            or (_names(prompt, MEASURED_TOGETHER.get(unit.name, "")) and not _has_variable(prompt, unit.name))
        )
        is_unit_alone = unit.is_certain and unit.factors > 1
        return rf"{text[: place.end()]} \text{{{unit.name}}}" if is_named or is_unit_alone else text
    return text


def _names(prompt: str, words: str) -> bool:
    return any(word.replace("_", " ") in prompt for word in words.split())


def _has_variable(prompt: str, letters: str) -> bool:
    """Whether a prompt may use one of these letters as a variable: ``$m$``, ``5m``, and not ``5 m`` in words."""
    formulas = _IN_ROMAN.sub(" ", prompt)
    names = "".join({letter for letter in letters.lower() if letter.isalpha()})
    in_words = re.search(rf"(?<![^\W_])[{names}](?![^\W_])", re.sub(r"(?<=\d) [a-z]{1,2}(?:/[a-z]\b)?", " ", formulas))
    in_formulas = any(
        re.search(rf"[{names}]", formula) for formula in re.findall(r"\$[^$]*\$|\\\((?:(?!\\\().)*?\\\)", formulas)
    )
    adjacent = re.search(rf"\d[{names}](?![a-z])", formulas)
    return bool(_ASKS_FOR_LETTERS.search(prompt) or in_words or in_formulas or adjacent)
