"""Reads numbers in Chinese characters, 二十五, 三分之二, 负一百零五, 三点一四, and in digits with units: 3万5千."""

from __future__ import annotations

from fractions import Fraction

_DIGITS = {character: value for value, character in enumerate("零一二三四五六七八九")} | {"两": 2, "〇": 0}
_UNITS = {"十": 10, "百": 100, "千": 1_000}
_GROUPS = {"万": 10**4, "亿": 10**8}
_CHARACTERS = frozenset([*_DIGITS, *_UNITS, *_GROUPS, *"负分之点"])
MAX_CHARACTERS = 24
UNITS_AFTER_DIGITS = (
    r"(?![百千][米克瓦焦帕伏赫卡牛欧安升分])[十百千万亿]{1,3}(?:\d{1,8}[十百千万亿]{1,2}){0,4}\d{0,8}"
    r"(?![\d十百千万亿]|\.\d)"
)
"""A pattern for what follows the first digits of 3万5千; not for 千米 and 百分点, which are words."""


def number_in_characters(text: str) -> Fraction | None:
    """The number that ``text`` names in Chinese characters; None if it is something else."""
    if not 0 < len(text) <= MAX_CHARACTERS or not _CHARACTERS.issuperset(text):
        return None
    if text[0] == "负":
        rest = number_in_characters(text[1:]) if "负" not in text[1:] else None
        return None if rest is None else -rest
    below, parted, above = text.partition("分之")
    if parted:
        numerator, denominator = _whole(above), _whole(below)
        return None if numerator is None or not denominator else Fraction(numerator, denominator)
    whole, pointed, decimals = text.partition("点")
    value = _whole(whole)
    if value is None or (pointed and (not decimals or not _DIGITS.keys() >= set(decimals))):
        return None
    return Fraction(f"{value}.{''.join(str(_DIGITS[digit]) for digit in decimals)}" if pointed else value)


def _whole(text: str) -> int | None:
    """A whole number: digits, each with its unit (十, 百, 千), in groups with 万 or 亿."""
    total, group, digit = 0, 0, None
    for character in text:
        if character in _DIGITS:
            if digit:
                return None  # Two digits without a unit between them: a telephone number, a year.
            digit = _DIGITS[character]
        elif character in _UNITS:
            group += (1 if digit is None else digit) * _UNITS[character]
            digit = None
        elif character in _GROUPS:
            total = (total + group + (digit or 0)) * _GROUPS[character]
            group, digit = 0, None
        else:
            return None
    return total + group + (digit or 0) if text else None


def number_in_digits_and_units(text: str) -> int | None:
    """The number that ``text`` names in digits with Chinese units: 35000 for 3万5千 and 3万5000, 2500 for 2.5千.

    None if it is something else or could be two numbers: 3万5 is 30005 to some and 35000 to others.
    """
    value = _with_units(text) if 0 < len(text) <= MAX_CHARACTERS else None
    return None if value is None or value.denominator != 1 else value.numerator


def _with_units(text: str) -> Fraction | None:
    for unit, size in sorted((_UNITS | _GROUPS).items(), key=lambda item: -item[1]):
        before, has_unit, after = text.partition(unit)
        if not has_unit:
            continue
        times = _with_units(before)
        if times is None or not after:
            return None if times is None else times * size
        if after.isdecimal() and len(str(size)) - 1 != len(after):
            return None  # Only digits for all places below the unit leave no doubt.
        rest = _with_units(after)
        return None if rest is None or "." in text or rest >= size else times * size + rest
    whole, pointed, decimals = text.partition(".")
    return Fraction(text) if whole.isdecimal() and (decimals.isdecimal() or not pointed) else None
