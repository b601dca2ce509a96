"""The words that an answer may have: functions, constants, units, and the prose around a formula."""

CONSTANTS = {
    "pi": "pi", "infty": "infinity", "infinity": "infinity", "inf": "infinity", "oo": "infinity",
    "emptyset": "emptyset", "R": "reals", "Z": "integers", "N": "naturals", "Q": "rationals", "C": "complexes",
}  # fmt: skip

GREEK = frozenset(
    [
        "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "rho",
        "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega", "Gamma", "Delta", "Theta", "Lambda", "Sigma", "Phi",
        "Psi", "Omega",
    ]
)  # fmt: skip
"""The names of letters that are written without a backslash too."""

RELATIONS = {
    "=": "=", "==": "=", ":=": "=", "<": "<", ">": ">", "<=": "<=", ">=": ">=", "!=": "!=", "~=": "~",
    "le": "<=", "ge": ">=", "ne": "!=", "approx": "~", "in": "in", "equiv": "=", "sim": "~", "cong": "~",
    "to": "to", "->": "to", "subset": "subset", "subseteq": "subset", "notin": "notin",
    "parallel": "parallel", "perp": "perp", "mapsto": "to",
}  # fmt: skip

MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""An inequality, and the same one read from the right."""
INEQUALITIES = frozenset([*MIRRORED, "!="])

SET_OPERATIONS = {"cup": "union", "cap": "intersection", "setminus": "difference"}

PHRASES = {
    "undefined": ("dne", "does not exist", "doesn't exist", "undefined", "not defined", "is undefined"),
    "integers": ("all integers", "the integers", "integers", "any integer", "every integer"),
    "naturals": ("all natural numbers", "the natural numbers", "natural numbers"),
    "emptyset": (
        "no solution",
        "no solutions",
        "no real solution",
        "no real solutions",
        "there is no solution",
        "there are no solutions",
        "there is no real solution",
        "there are no real solutions",
        "empty set",
        "the empty set",
        "none",
    ),
    "infinity": ("infinity", "positive infinity", "infinite"),
    "reals": ("all real numbers", "all reals", "any real number", "all real x", "the real numbers", "real numbers"),
}
"""The name of a set in the tree, and the words for it."""

BIG_OPERATORS = {"sum", "prod", "int", "iint", "iiint", "oint", "lim", "limsup", "liminf", "sup"}

LEADING = frozenset(
    [
        "a", "about", "all", "also", "an", "answer", "answered", "answers", "approximately", "are", "be",
        "choice", "correct", "equal", "equals", "exactly", "final", "find", "get", "have",
        "here", "in", "is", "it", "its", "just", "let", "of", "on", "only", "option",
        "our", "point", "possible", "result", "same", "simplest", "simply", "so", "solution",
        "solutions", "that", "the", "them", "then", "there", "therefore", "these", "they", "this", "thus",
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

NO_LABELS = NEGATIONS | frozenset(
    [
        "half", "halves", "twice", "thrice", "double", "doubled", "doubles", "triple", "tripled", "halved", "squared",
        "cubed", "reciprocal", "inverse", "opposite", "negated", "negative", "minus", "plus", "over", "divided",
        "multiplied", "added", "subtracted", "increased", "decreased", "modulo", "more", "less", "fewer", "than",
        "about",
        "almost", "nearly", "another", "fake", "bogus", "guess", "guessed", "maybe", "perhaps", "possibly", "unlikely",
        "unsure", "invalid", "mistaken", "bad", "instead", "or", "either", "if", "unless", "but", "factorial",
        "complement", "hundred", "hundreds", "thousand", "thousands", "million", "millions", "billion", "dozen",
    ]
)  # fmt: skip
"""Words with which a name before a value is the name of something else than the answer: "half the area"."""
