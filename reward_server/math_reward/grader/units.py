"""Units: what their names are and how they are read."""

from math_reward.grader.vocabulary import UNITS


def unit_name(raw: str) -> str:
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
