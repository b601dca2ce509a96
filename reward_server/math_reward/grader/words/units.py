"""The names of units, and what they measure."""

import re
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from math_reward.grader.words.number_words import WORDS
from math_reward.grader.words.vocabulary import NEGATIONS, UNITS

MAX_WORDS = 5
"""How many words the name of a counted thing may have."""


class Measure(NamedTuple):
    """What a unit measures, and its size."""

    size: Fraction
    """In SI's base units, or in the first unit of the dimension that the table names."""
    dimension: tuple[tuple[str, int], ...]
    """Base dimensions and their powers, sorted."""


_PREFIXES = {
    "tera": ("T", 12), "giga": ("G", 9), "mega": ("M", 6), "kilo": ("k", 3), "hecto": ("h", 2), "deci": ("d", -1),
    "centi": ("c", -2), "milli": ("m", -3), "micro": ("µ", -6), "nano": ("n", -9), "pico": ("p", -12),
}  # fmt: skip

# Name, symbol, and what it is: "kg m s^-2". These take SI's prefixes.
_METRIC = {
    "meter": ("m", "m"), "gram": ("g", "g"), "second": ("s", "s"), "ampere": ("A", "A"), "kelvin": ("K", "K"),
    "mole": ("mol", "mol"), "newton": ("N", "kg m s^-2"), "joule": ("J", "kg m^2 s^-2"),
    "watt": ("W", "kg m^2 s^-3"), "pascal": ("Pa", "kg m^-1 s^-2"), "hertz": ("Hz", "s^-1"), "coulomb": ("C", "A s"),
    "volt": ("V", "kg m^2 s^-3 A^-1"), "ohm": ("Ω", "kg m^2 s^-3 A^-2"), "farad": ("F", "kg^-1 m^-2 s^4 A^2"),
    "tesla": ("T", "kg s^-2 A^-1"), "weber": ("Wb", "kg m^2 s^-2 A^-1"), "henry": ("H", "kg m^2 s^-2 A^-2"),
    "liter": ("L", "dm^3"), "electronvolt": ("eV", "electronvolt"), "byte": ("B", "byte"), "bit": ("bit", "bit"),
}  # fmt: skip

# Name, and the number and name of another unit that it equals.
_OTHERS = {
    "minute": ("60", "second"), "hour": ("3600", "second"), "day": ("86400", "second"), "week": ("604800", "second"),
    "year": ("12", "month"), "inch": ("0.0254", "meter"), "foot": ("0.3048", "meter"), "yard": ("0.9144", "meter"),
    "mile": ("1609.344", "meter"), "ton": ("1000000", "gram"), "pound": ("453.59237", "gram"),
    "ounce": ("28.349523125", "gram"), "gallon": ("16", "cup"), "quart": ("4", "cup"), "pint": ("2", "cup"),
    "dollar": ("100", "cent"), "hectare": ("10000", "meter^2"), "acre": ("4046.8564224", "meter^2"),
    "calorie": ("4.184", "joule"),
    "watthour": ("3600", "joule"), "kilowatthour": ("3600000", "joule"), "megawatthour": ("3600000000", "joule"),
    "bar": ("100000", "pascal"), "atmosphere": ("101325", "pascal"),
    "square": ("1", ""), "cubic": ("1", ""),
}  # fmt: skip
_BASES = {"m", "g", "s", "A", "K", "mol", "electronvolt", "byte", "bit"}
_OWN_DIMENSION = (
    "month", "cent", "cup", "euro", "pound sterling", "yen", "degree", "radian", "percent", "unit", "celsius",
    "fahrenheit", "rupee", "won", "ruble", "peso",
)  # fmt: skip

_SYMBOLS = {symbol: name for name, (symbol, _) in _METRIC.items()}
for _name, (_symbol, _definition) in _METRIC.items():
    for _prefix, (_letter, _power) in _PREFIXES.items():
        _SYMBOLS.setdefault(_letter + _symbol, _prefix + _name)
# What people mean by letters that could also be a prefix and a unit.
_SYMBOLS |= {
    "min": "minute", "h": "hour", "d": "day", "ft": "foot", "l": "liter", "ml": "milliliter", "Ohm": "ohm",
    "Wh": "watthour", "kWh": "kilowatthour", "MWh": "megawatthour", "cal": "calorie", "atm": "atmosphere",
    "ha": "hectare", "Nm": "newton meter",
}  # fmt: skip

_FACTORS = re.compile(r"(?P<slash>/)?\s*(?P<name>[^\s/^*·]+)(?:\^\{?(?P<power>-?\d{1,2})\}?)?\s*[*·]?\s*")
_STOP_WORDS = frozenset(["of", "the", "a", "an", "different", "possible", "distinct", "total", "in", "all"])
_NOT_A_THING = (
    WORDS
    | NEGATIONS
    | frozenset(
        [
            "and", "or", "squared", "cubed", "plus", "minus", "times", "divided", "multiplied", "over", "factorial",
            "more", "less", "fewer", "than", "greater", "smaller", "least", "most", "about", "up", "infinity",
            "double", "twice", "triple", "mod", "modulo", "point", "repeating", "root", "power", "base", "between",
            "but", "maybe", "perhaps", "possibly", "because", "while", "is", "are", "was", "equals", "equal",
        ]
    )
)  # fmt: skip


def unit_name(raw: str) -> str:
    r"""The name of a unit: ``foot^2`` for ``square feet``, ``meter/second`` for ``meters per second``; a counted thing
    stays as it is.
    """
    text = raw.replace("\\cdot", " ").replace("\\times", " ").replace(" per ", "/")
    text = text.replace("²", "^2").replace("³", "^3")
    return "/".join(_powered(part) for part in text.split("/"))


def _powered(part: str) -> str:
    tokens = part.split()
    for prefix, exponent in (("square", "^2"), ("sq", "^2"), ("sq.", "^2"), ("cubic", "^3")):
        if len(tokens) == 2 and tokens[0].lower() == prefix:
            return _named(tokens[1]) + exponent
    return _named(part)


def _named(part: str) -> str:
    """A product of units by their names."""
    names = []
    for word in part.replace("*", " ").replace("·", " ").split():
        name, caret, exponent = word.partition("^")
        names.append(one_unit(name.rstrip(".")) + caret + exponent.strip("{}"))
    return " ".join(names)


def one_unit(word: str) -> str:
    """The name of one unit; a word that is not a unit stays as it is, in lower case."""
    return _SYMBOLS.get(word) or UNITS.get(word.lower()) or _prefixed(word.lower()) or word.lower()


def _prefixed(word: str) -> str | None:
    """``kilometer`` for ``kilometres``."""
    for prefix in _PREFIXES:
        if word.startswith(prefix) and UNITS.get(word[len(prefix) :]) in _METRIC:
            return prefix + UNITS[word[len(prefix) :]]
    return None


def is_unit(word: str) -> bool:
    """Whether a word, with or without a power, names a unit of the table."""
    return measure(one_unit(word.partition("^")[0])) is not None


@lru_cache(maxsize=1024)
def measure(unit: str) -> Measure | None:
    """What a unit such as ``kilogram meter/second^2`` measures; None if a part of its name is not a known unit."""
    size, powers = Fraction(1), dict[str, int]()
    position = 0
    while position < len(unit):
        match = _FACTORS.match(unit, position)
        if match is None or match.end() == position:
            return None
        one = _measure_of(match["name"])
        if one is None:
            return None
        power = int(match["power"] or 1) * (-1 if match["slash"] else 1)
        size *= one.size**power
        for dimension, exponent in one.dimension:
            powers[dimension] = powers.get(dimension, 0) + exponent * power
        position = match.end()
    return Measure(size, tuple(sorted((dimension, power) for dimension, power in powers.items() if power)))


def _measure_of(name: str) -> Measure | None:
    if name in _OWN_DIMENSION:
        return Measure(Fraction(1), ((name, 1),))
    if name in _OTHERS:
        count, other = _OTHERS[name]
        base = measure(other)
        return None if base is None else Measure(Fraction(count) * base.size, base.dimension)
    if name in _METRIC:
        symbol, definition = _METRIC[name]
        if symbol in _BASES or name in _BASES:
            return Measure(Fraction(1), ((symbol, 1),))
        return _defined(definition)
    for prefix, (_, power) in _PREFIXES.items():
        if name.startswith(prefix) and name[len(prefix) :] in _METRIC:
            base = _measure_of(name[len(prefix) :])
            return None if base is None else Measure(base.size * Fraction(10) ** power, base.dimension)
    return None


def _defined(definition: str) -> Measure:
    found = measure(_named(definition))
    assert found is not None
    return found


# ── counted things ──


def is_thing(words: list[str]) -> bool:
    """Whether the words after a number can name a counted thing, and say nothing else about the number."""
    return len(words) <= MAX_WORDS and not _NOT_A_THING.intersection(words)


def same_thing(unit: str, other: str) -> bool:
    """Whether two names mean the same counted thing, of which one may be longer: lollipops, lollipop candies.

    All the words of one must be in the other, so "increase" is not "decrease", and "people in the east" are not
    "people in the west".
    """
    words, others = _stems(unit), _stems(other)
    return bool(words and others) and (words <= others or others <= words)


def _stems(unit: str) -> frozenset[str]:
    return frozenset(_stem(word) for word in re.findall(r"\w+", unit.lower()) if word not in _STOP_WORDS)


def _stem(word: str) -> str:
    """The singular of most words."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("ches", "shes", "xes", "sses", "oes")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
