"""The names of units, and what they measure."""

import re
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from math_reward.grader.words.foreign_units import FOREIGN_UNITS
from math_reward.grader.words.number_words import WORDS
from math_reward.grader.words.vocabulary import NEGATIONS

_CHANGES = re.compile(
    "[半倍错误假非约或超负]|至[少多]|左右|以[上下内外]|[加减乘除][一二两三四五六七八九十]|的平方|的立方"
)
"""Chinese words that change the number before them."""
MAX_WORDS = 5
"""How many words the name of a counted thing may have."""


OWN = "its own dimension"


class Unit(NamedTuple):
    """A unit by its name."""

    spellings: str
    """The words for it, in lower case."""
    definition: str = ""
    """What it is: ``OWN``, a number and another unit, or SI's units; empty for a prefix and a unit."""
    symbol: str = ""
    """The symbol of a unit that takes SI's prefixes."""


_TABLE = {
    "degree": Unit("degree degrees deg °", OWN),
    "radian": Unit("radian radians rad", OWN),
    "percent": Unit("percent pct percentage %", OWN),
    "dollar": Unit("dollar dollars usd $ bucks", "100 cent"),
    "cent": Unit("cent cents ¢", OWN),
    "rupee": Unit("rupee rupees ₹ rs rs. inr", OWN),
    "euro": Unit("euro euros eur €", OWN),
    "pound sterling": Unit("£ gbp", OWN),
    "yen": Unit("yen jpy", OWN),
    "yuan": Unit("yuan rmb cny", OWN),
    "¥": Unit("¥", OWN),
    "meter": Unit("meter meters metre metres", OWN, "m"),
    "centimeter": Unit("cm centimeter centimeters centimetre centimetres"),
    "millimeter": Unit("mm millimeter millimeters millimetre millimetres"),
    "kilometer": Unit("km kilometer kilometers kilometre kilometres"),
    "decimeter": Unit("dm decimeter decimeters"),
    "inch": Unit("in inch inches", "0.0254 meter"),
    "foot": Unit("ft foot feet", "0.3048 meter"),
    "yard": Unit("yd yard yards", "0.9144 meter"),
    "mile": Unit("mi mile miles", "1609.344 meter"),
    "second": Unit("sec secs second seconds", OWN, "s"),
    "minute": Unit("min mins minute minutes", "60 second"),
    "hour": Unit("hr hrs hour hours", "3600 second"),
    "day": Unit("day days", "86400 second"),
    "week": Unit("week weeks", "604800 second"),
    "month": Unit("month months", OWN),
    "year": Unit("yr yrs year years", "12 month"),
    "gram": Unit("gram grams", OWN, "g"),
    "kilogram": Unit("kg kilogram kilograms kgs"),
    "milligram": Unit("mg milligram milligrams"),
    "ton": Unit("ton tons tonne tonnes", "1000000 gram"),
    "pound": Unit("lb lbs pound pounds", "453.59237 gram"),
    "ounce": Unit("oz ounce ounces", "28.349523125 gram"),
    "liter": Unit("liter liters litre litres", "dm^3", "L"),
    "milliliter": Unit("ml milliliter milliliters millilitre millilitres"),
    "gallon": Unit("gallon gallons gal", "16 cup"),
    "quart": Unit("quart quarts", "4 cup"),
    "pint": Unit("pint pints", "2 cup"),
    "cup": Unit("cup cups", OWN),
    "mile/hour": Unit("mph"),
    "kilometer/hour": Unit("kph kmph"),
    "joule": Unit("joule joules", "kg m^2 s^-2", "J"),
    "newton": Unit("newton newtons", "kg m s^-2", "N"),
    "watt": Unit("watt watts", "kg m^2 s^-3", "W"),
    "volt": Unit("volt volts", "kg m^2 s^-3 A^-1", "V"),
    "ampere": Unit("ampere amperes amp amps", OWN, "A"),
    "ohm": Unit("ohm ohms", "kg m^2 s^-3 A^-2", "Ω"),
    "pascal": Unit("pascal pascals", "kg m^-1 s^-2", "Pa"),
    "hertz": Unit("hertz", "s^-1", "Hz"),
    "coulomb": Unit("coulomb coulombs", "A s", "C"),
    "kelvin": Unit("kelvin kelvins", OWN, "K"),
    "mole": Unit("mole moles mol", OWN, "mol"),
    "molar": Unit("molar", "1000 mole meter^-3"),
    "millimolar": Unit("millimolar", "1 mole meter^-3"),
    "calorie": Unit("calorie calories", "4.184 joule"),
    "unit": Unit("unit units", OWN),
    "farad": Unit("", "kg^-1 m^-2 s^4 A^2", "F"),
    "tesla": Unit("", "kg s^-2 A^-1", "T"),
    "weber": Unit("", "kg m^2 s^-2 A^-1", "Wb"),
    "henry": Unit("", "kg m^2 s^-2 A^-2", "H"),
    "electronvolt": Unit("", OWN, "eV"),
    "byte": Unit("", OWN, "B"),
    "bit": Unit("", OWN, "bit"),
    "hectare": Unit("", "10000 meter^2"),
    "acre": Unit("", "4046.8564224 meter^2"),
    "watthour": Unit("", "3600 joule"),
    "kilowatthour": Unit("", "3600000 joule"),
    "megawatthour": Unit("", "3600000000 joule"),
    "bar": Unit("", "Mg cm^-1 s^-2", "bar"),
    "atmosphere": Unit("", "101325 pascal"),
    "celsius": Unit("", OWN),
    "fahrenheit": Unit("", OWN),
    "won": Unit("", OWN),
    "ruble": Unit("", OWN),
    "peso": Unit("", OWN),
}
UNITS = {
    **{word: name for name, unit in _TABLE.items() for word in unit.spellings.split()},
    **{word: name for name, words in FOREIGN_UNITS.items() for word in words.split()},
}
"""A word in lower case to its unit."""
BEFORE_NUMBERS = frozenset(["rs", "inr", "usd", "eur", "gbp", "rmb", "cny", "jpy"])
"""Currencies that are written before the number: Rs. 42."""

PLAIN_UNITS = {"sq", *(word for word in UNITS if len(word) > 1)} - {"in", "min", "deg", "sec", "rad", "rs"}
r"""Words that are units even without ``\text``, where letters such as m, s and g are variables."""


CERTAIN_SYMBOLS = frozenset(
    [
        "Hz", "kHz", "MHz", "GHz", "THz", "kPa", "MPa", "GPa", "hPa", "kJ", "kN", "kW", "kWh", "keV", "MeV", "GeV",
        "mL",
    ]
)  # fmt: skip
"""Symbols that are units after a number even without ``\\text``: nobody multiplies H by z."""


class Measure(NamedTuple):
    """What a unit measures, and its size."""

    size: Fraction
    """In the units of ``dimension``."""
    dimension: tuple[tuple[str, int], ...]
    """Units with a dimension of their own, and their powers, sorted."""


_PREFIXES = {
    "tera": ("T", 12), "giga": ("G", 9), "mega": ("M", 6), "kilo": ("k", 3), "hecto": ("h", 2), "deci": ("d", -1),
    "centi": ("c", -2), "milli": ("m", -3), "micro": ("µ", -6), "nano": ("n", -9), "pico": ("p", -12),
    "femto": ("f", -15), "peta": ("P", 15),
}  # fmt: skip

_METRIC = {name: unit for name, unit in _TABLE.items() if unit.symbol}
_SYMBOLS = {unit.symbol: name for name, unit in _METRIC.items()}
_PREFIXED_WORDS = dict[str, str]()
"""A word for a unit with a prefix, in lower case, to its name: ``kilometres``, ``kilometer``."""
_PREFIXED = dict[str, tuple[str, int]]()
"""The name of a unit with a prefix to the unit, and the prefix's power of ten."""
for _prefix, (_letter, _power) in _PREFIXES.items():
    for _name, _unit in _METRIC.items():
        _SYMBOLS.setdefault(_letter + _unit.symbol, _prefix + _name)
        _PREFIXED[_prefix + _name] = (_name, _power)
        if _unit.symbol == "L":
            _SYMBOLS.setdefault(_letter + "l", _prefix + _name)
        if _prefix == "micro":
            _SYMBOLS.setdefault("u" + _unit.symbol, _prefix + _name)
        _PREFIXED_WORDS |= dict.fromkeys([_prefix + word for word in _unit.spellings.split()], _prefix + _name)
# What people mean by letters that could also be a prefix and a unit.
_SYMBOLS |= {
    "min": "minute", "h": "hour", "d": "day", "ft": "foot", "l": "liter", "ml": "milliliter", "Ohm": "ohm",
    "Wh": "watthour", "kWh": "kilowatthour", "MWh": "megawatthour", "cal": "calorie", "atm": "atmosphere",
    "ha": "hectare", "Nm": "newton meter", "M": "molar", "mM": "millimolar",
}  # fmt: skip

POWERS = {"square": "^2", "sq": "^2", "sq.": "^2", "cubic": "^3", "cu": "^3", "cu.": "^3"}
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
            "gross", "score", "pair", "pairs", "couple", "couples", "myriad", "teens", "permille", "ppm", "ppb", "bps",
            "doubled", "tripled", "halved", "quadrupled", "quadruple", "negated", "inverted", "reversed",
            "incremented", "zillion", "gazillion", "bazillion", "multiple", "tens", "trio", "trios",
            "decremented", "increased", "decreased", "negative", "imaginary", "reciprocal", "inverse", "opposite",
            "bogus", "fake", "invalid", "mistaken", "unsure", "guess", "guessed", "approximately", "approx", "roughly",
            "nearly", "almost", "around", "odd", "oddly", "binary", "octal", "hex", "hexadecimal", "ish", "unlikely",
            "other", "another", "else", "otherwise", "instead", "unless", "shy", "short", "off", "lower", "higher",
            "larger", "extra", "added", "subtracted", "removed", "complement", "log", "exponent", "she", "he", "has",
        ]
    )
)  # fmt: skip


def unit_name(raw: str) -> str:
    r"""The name of a unit: ``foot^2`` for ``square feet``, ``meter/second`` for ``meters per second``; a counted thing
    stays as it is.
    """
    text = raw.replace("\\cdot", " ").replace("\\times", " ").replace(" per ", "/")
    text = text.replace("²", "^2").replace("³", "^3")
    return "/".join(map(_named, text.split("/")))


def _named(part: str) -> str:
    """A product of units by their names."""
    names: list[str] = []
    power = ""
    words = part.replace("*", " ").replace("·", " ").split()
    for place, word in enumerate(words):
        if word.lower() in POWERS and place + 1 < len(words):
            power = POWERS[word.lower()]
            continue
        name, caret, exponent = word.partition("^")
        names.append(one_unit(name.rstrip(".")) + (caret + exponent.strip("{}") or power))
        power = ""
    return " ".join(names)


def one_unit(word: str) -> str:
    """The name of one unit; a word that is not a unit stays as it is, in lower case."""
    if len(word) == 1 and word.isascii() and word.isalpha():
        return _SYMBOLS.get(word, word)  # N is newton, and n a number.
    return _SYMBOLS.get(word) or UNITS.get(word.lower()) or _PREFIXED_WORDS.get(word.lower()) or word.lower()


LETTERS = {
    one_unit(word): word for word in ("m", "g", "s", "h", "l", "N", "J", "W", "d", "mg", "ml", "cm", "kg", "ms")
}
"""The name of a unit to its symbol, which may be variables too: mg is m times g."""


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
    unit = _TABLE.get(name)
    if unit is not None and unit.definition == OWN:
        return Measure(Fraction(1), ((name, 1),))
    if unit is not None and unit.symbol:
        return measure(_named(unit.definition))
    if unit is not None and unit.definition:
        count, _, other = unit.definition.partition(" ")
        base = measure(other)
        return None if base is None else Measure(Fraction(count) * base.size, base.dimension)
    if name in _PREFIXED:
        base_name, power = _PREFIXED[name]
        base = _measure_of(base_name)
        return None if base is None else Measure(base.size * Fraction(10) ** power, base.dimension)
    return None


# ── counted things ──

_AFTER_THINGS = frozenset(["each", "left", "remaining", "altogether", "overall", "apiece", "clock", "o", "exactly"])
_PLURALS = frozenset(
    [
        "people", "children", "men", "women", "mice", "feet", "teeth", "geese", "oxen", "sheep", "fish", "deer",
        "dice", "cattle", "police", "salmon", "bacteria", "data", "vertices", "matrices", "indices", "lice", "staff",
        "pence", "buses", "am", "pm", "m", "a", "p",
    ]
)  # fmt: skip


def is_thing(words: list[str]) -> bool:
    """Whether the words after a number can name a counted thing, and say nothing else about the number."""
    if not words or words[-1] in POWERS or len(words) > MAX_WORDS:
        return False  # "5 feet square" is no 5 feet.
    return not _NOT_A_THING.intersection(words) and not _CHANGES.search("".join(words))


def is_countable(unit: str, one: bool) -> bool:
    """Whether an answer may add ``unit`` to a number: a known unit, a word in the plural (apples, children), or with
    ``one`` in the singular. In another word there may be a remark: too many, wrong, north.
    """
    words = [word for word in re.findall(r"[^\W\d_]+", unit) if word not in _STOP_WORDS | _AFTER_THINGS]
    is_part = unit.startswith("of the ")  # 1/2 of the pie
    if measure(unit) is not None or not unit.isascii() or not words or is_part:
        return True
    return any(
        measure(one_unit(word)) is not None
        or word in _PLURALS
        or (word.endswith("s") and not word.endswith(("ss", "us", "is", "ous")) and word[:-1] not in _NOT_A_THING)
        or (one and len(word) > 2)
        for word in words
    )


def same_thing(unit: str, other: str) -> bool:
    """Whether two names mean the same counted thing, of which one may be longer: lollipops, lollipop candies.

    All the words of one must be in the other, so "increase" is not "decrease", and "people in the east" are not
    "people in the west".
    """
    words, others = _stems(unit), _stems(other)
    if re.findall(r"\^-?\d+", unit) != re.findall(r"\^-?\d+", other):
        return False
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
