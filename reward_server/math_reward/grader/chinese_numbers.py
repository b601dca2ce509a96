"""Reads numbers in Chinese characters: 二十五, 三分之二, 负一百零五, 三点一四."""

from __future__ import annotations

from fractions import Fraction

_DIGITS = {character: value for value, character in enumerate("零一二三四五六七八九")} | {"两": 2, "〇": 0}
_UNITS = {"十": 10, "百": 100, "千": 1_000}
_GROUPS = {"万": 10**4, "亿": 10**8}
_CHARACTERS = frozenset([*_DIGITS, *_UNITS, *_GROUPS, *"负分之点"])
MAX_CHARACTERS = 24


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
