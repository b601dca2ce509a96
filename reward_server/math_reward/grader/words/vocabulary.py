"""The words that an answer may have: functions, constants, units, and the prose around a formula."""

CONSTANTS = {
    "pi": "pi", "infty": "infinity", "infinity": "infinity", "inf": "infinity", "oo": "infinity",
    "emptyset": "emptyset", "R": "reals", "Z": "integers", "N": "naturals", "Q": "rationals", "C": "complexes",
}  # fmt: skip

RELATIONS = {
    "=": "=", "==": "=", ":=": "=", "<": "<", ">": ">", "<=": "<=", ">=": ">=", "!=": "!=", "~=": "~",
    "le": "<=", "ge": ">=", "ne": "!=", "approx": "~", "in": "in", "equiv": "=", "sim": "~", "cong": "~",
    "to": "to", "->": "to", "subset": "subset", "subseteq": "subset", "notin": "notin",
    "parallel": "parallel", "perp": "perp", "mapsto": "to",
}  # fmt: skip

SET_OPERATIONS = {"cup": "union", "cap": "intersection", "setminus": "difference"}

PHRASES = {
    "undefined": ("dne", "does not exist", "doesn't exist", "undefined", "not defined", "is undefined"),
    "integers": ("all integers", "the integers", "integers", "any integer", "every integer"),
    "naturals": ("all natural numbers", "the natural numbers", "natural numbers"),
    "emptyset": ("no solution", "no solutions", "no real solution", "no real solutions", "empty set", "the empty set"),
    "reals": ("all real numbers", "all reals", "any real number", "all real x", "the real numbers", "real numbers"),
}
"""The name of a set in the tree, and the words for it."""

BIG_OPERATORS = {"sum", "prod", "int", "iint", "iiint", "oint", "lim", "limsup", "liminf", "sup"}

_UNITS = {
    "degree": "degree degrees deg °",
    "radian": "radian radians rad",
    "percent": "percent pct percentage %",
    "dollar": "dollar dollars usd $ bucks",
    "cent": "cent cents ¢",
    "euro": "euro euros eur €",
    "pound sterling": "£ gbp",
    "yen": "¥ yen yuan",
    "meter": "m meter meters metre metres",
    "centimeter": "cm centimeter centimeters centimetre centimetres",
    "millimeter": "mm millimeter millimeters millimetre millimetres",
    "kilometer": "km kilometer kilometers kilometre kilometres",
    "decimeter": "dm decimeter decimeters",
    "inch": "in inch inches",
    "foot": "ft foot feet",
    "yard": "yd yard yards",
    "mile": "mi mile miles",
    "second": "s sec secs second seconds",
    "minute": "min mins minute minutes",
    "hour": "h hr hrs hour hours",
    "day": "day days",
    "week": "week weeks",
    "month": "month months",
    "year": "yr yrs year years",
    "gram": "g gram grams",
    "kilogram": "kg kilogram kilograms kgs",
    "milligram": "mg milligram milligrams",
    "ton": "ton tons tonne tonnes",
    "pound": "lb lbs pound pounds",
    "ounce": "oz ounce ounces",
    "liter": "l liter liters litre litres",
    "milliliter": "ml milliliter milliliters millilitre millilitres",
    "gallon": "gallon gallons gal",
    "quart": "quart quarts",
    "pint": "pint pints",
    "cup": "cup cups",
    "mile/hour": "mph",
    "kilometer/hour": "kph kmph",
    "joule": "j joule joules",
    "newton": "n newton newtons",
    "watt": "w watt watts",
    "volt": "volt volts",
    "ampere": "ampere amperes amp amps",
    "ohm": "ohm ohms",
    "pascal": "pascal pascals",
    "hertz": "hertz",
    "coulomb": "coulomb coulombs",
    "kelvin": "kelvin kelvins",
    "mole": "mole moles mol",
    "calorie": "calorie calories",
    "unit": "unit units",
    "square": "sq square",
    "cubic": "cubic",
}
UNITS = {word: unit for unit, words in _UNITS.items() for word in words.split()}
"""A word in lower case to its unit."""

PLAIN_UNITS = {word for word in UNITS if len(word) > 1 and word not in {"in", "min", "deg", "sec", "rad"}}
r"""Words that are units even without ``\text``, where letters such as m, s and g are variables."""

LEADING = frozenset(
    [
        "a", "about", "all", "also", "an", "answer", "answered", "answers", "approximately", "are", "be",
        "choice", "correct", "equal", "equals", "exactly", "final", "find", "get", "has", "have", "he", "her",
        "here", "his", "i", "in", "is", "it", "its", "just", "let", "of", "on", "only", "option",
        "our", "possible", "result", "same", "she", "simplest", "simply", "so", "solution",
        "solutions", "sum", "that", "the", "them", "then", "there", "therefore", "these", "they", "this", "thus",
        "to", "total", "value", "values", "was", "we", "which", "will", "with", "yes",
    ]
)  # fmt: skip
"""Words before a formula that do not change its meaning."""

QUALIFIERS = (
    "for", "where", "with", "when", "if", "as", "such", "provided", "given", "on", "over", "per", "each", "every",
)  # fmt: skip
"""Words that begin a remark on the formula before them: "for all real x"."""

NEGATIONS = frozenset(
    [
        "not", "no", "never", "cannot", "wrong", "incorrect", "isn't", "neither", "nor", "none", "false",
        "except", "excluding",
    ]
)  # fmt: skip
