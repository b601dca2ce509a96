"""The unit that stands behind a number in a text."""

from __future__ import annotations

import re

from math_reward.grader.words.foreign_words import CHINESE_UNIT
from math_reward.grader.words.number_words import MULTIPLIERS
from math_reward.grader.words.units import is_unit

# What belongs to a number behind it: "8:50 p.m.", "30 hours", "90 joules".
_HALF_OF_DAY = re.compile(r"\s?[ap]\.?\s?m\b\.?", re.IGNORECASE)
_UNIT = re.compile(
    r"\s?(?P<unit>(?![\u3040-\u9fff])[^\W\d_]{3,16}|[ckm]m|[km]g|[mM][lL]|[kMGT]?Hz|[kM]?eV|[kMG]?Pa|[kmM][JWVN]|[NJWV](?=[.,;]?(?:\s|$))|[gsmLh](?=[.!]?\s*$))(?![\w^/*-])"
)
_FOREIGN_NAME = r"[\u0400-\u052f\u0600-\u06ff\u0900-\u097f]{1,20}"
_FOREIGN_UNIT = re.compile(rf"\s?(?P<unit>{_FOREIGN_NAME})(?:(?:/|\sв\s|\sप्रति\s)(?P<per>{_FOREIGN_NAME}))?")
_CHINESE_UNIT = re.compile(rf"\s?{CHINESE_UNIT}")
_PER = re.compile(r"\sper\s([A-Za-z]{1,16})(?![\w-])")
_SCALE = re.compile(r"\s(?:hundred|thousand|million|billion|trillion)(?![\w-])")


def unit_after(text: str, end: int) -> str:
    """The unit that stands behind a number, with the space before it; or nothing."""
    half = _HALF_OF_DAY.match(text, end) if ":" in text[max(0, end - 6) : end] else None
    if half is not None:
        return half[0].rstrip(".")
    scale = _SCALE.match(text, end)
    if scale is not None:
        return scale[0] + unit_after(text, scale.end())
    if (chinese := _CHINESE_UNIT.match(text, end)) is not None:
        return chinese[0]
    foreign = _FOREIGN_UNIT.match(text, end)
    if foreign is not None:
        names = [name.lower() for name in foreign.groups() if name is not None]
        return foreign[0] if all(is_unit(name) or name in MULTIPLIERS for name in names) else ""
    unit = _UNIT.match(text, end)
    rate = None if unit is None else _PER.match(text, unit.end())
    if rate is not None and unit is not None and is_unit(unit["unit"].lower()) and is_unit(rate[1].lower()):
        return text[end : rate.end()]
    known = unit is not None and (is_unit(unit["unit"]) or is_unit(unit["unit"].lower()))
    return unit[0] if unit is not None and known else ""
