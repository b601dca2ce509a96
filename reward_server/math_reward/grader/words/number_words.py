"""Reads numbers in words: ``twenty-five``, ``three quarters``, ``minus one``, ``1.2 million``."""

import re
from fractions import Fraction

from math_reward.grader.words.foreign_numbers import FOREIGN_NUMBERS

SMALL = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
VALUES = {word: value for value, word in enumerate(SMALL)} | {word: 20 + 10 * i for i, word in enumerate(TENS)}
_MULTIPLES = {
    "dozen": 12,
    "hundred": 100,
    "thousand": 1_000,
    "lakh": 10**5,
    "million": 10**6,
    "crore": 10**7,
    "billion": 10**9,
    "trillion": 10**12,
}
_FOREIGN_MULTIPLES = {
    word: value
    for value, words in {
        1_000: "тысяч тысяча тысячи tausend mille nghìn ngàn ألف हज़ार हजार",
        10**5: "लाख",
        10**6: "миллион миллиона миллионов millionen millones milhão milhões triệu milyon مليون",
        10**7: "करोड़",
        10**9: "миллиард миллиарда миллиардов milliarde milliarden milyar tỷ مليار",
    }.items()
    for word in words.split()
}
MULTIPLIERS = _MULTIPLES | {f"{word}s": value for word, value in _MULTIPLES.items()} | _FOREIGN_MULTIPLES
"""A word to the factor for the number before it: 5 million."""
_PARTS = {
    word: value
    for value, words in {
        2: "half halves",
        3: "third thirds",
        4: "quarter quarters fourth fourths",
        5: "fifth fifths",
        6: "sixth sixths",
        7: "seventh sevenths",
        8: "eighth eighths",
        9: "ninth ninths",
        10: "tenth tenths",
        12: "twelfth twelfths",
        16: "sixteenth sixteenths",
        100: "hundredth hundredths",
    }.items()
    for word in words.split()
}
WORDS = frozenset([*VALUES, *MULTIPLIERS, *_PARTS])
_SPLIT = re.compile(r"[\s-]+")
MAX_WORDS = 16


def number_in_words(text: str) -> Fraction | None:
    """The number that ``text``, in lower case, names; None if it is something else."""
    if (foreign := FOREIGN_NUMBERS.get(text.strip())) is not None:
        return Fraction(foreign)
    words = [word for word in _SPLIT.split(text.strip()) if word]
    if not 0 < len(words) <= MAX_WORDS:
        return None
    if words[0] in ("minus", "negative"):
        rest = number_in_words(" ".join(words[1:]))
        return None if rest is None or words[1] in ("minus", "negative") else -rest
    if len(words) > 2 and "and" in words and words[-1] in _PARTS:
        place = len(words) - 1 - words[::-1].index("and")
        whole, part = _whole(words[:place]), number_in_words(" ".join(words[place + 1 :]))
        return None if whole is None or part is None or part >= 1 else whole + part
    if words == ["half"]:
        return Fraction(1, 2)
    if len(words) > 1 and words[-1] in _PARTS:
        above = 1 if words[:-1] in (["a"], ["an"]) else _whole(words[:-1])
        return None if above is None else Fraction(above, _PARTS[words[-1]])
    if words[0] == "a" and words[1:] and words[1] in MULTIPLIERS:
        words = ["one", *words[1:]]
    whole = _whole(words)
    return None if whole is None else Fraction(whole)


def _whole(words: list[str]) -> int | None:
    """A whole number such as ``one hundred and five``: each multiplier is smaller than the one before it."""
    total, group, last = 0, 0, 0
    for index, word in enumerate(words):
        if word in VALUES:
            value = VALUES[word]
            if last not in (0, 100) and not (20 <= last < 100 and 0 < value < 10):
                return None
            group, last = group + value, value or 1
        elif word == "hundred" and 0 < group < 10:
            group, last = group * 100, 100
        elif word in ("dozen", "dozens") and 0 < group < 100 and not total and words[index + 1 :] == []:
            group, last = group * 12, 12
        elif word in MULTIPLIERS and MULTIPLIERS[word] >= 1_000 and group:
            total, group, last = total + group * MULTIPLIERS[word], 0, 0
        elif not (word == "and" and 0 < index < len(words) - 1 and words[index - 1] in MULTIPLIERS):
            return None
    return total + group
