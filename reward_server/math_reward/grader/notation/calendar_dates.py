"""Reads dates in the forms that people write: ``May 1, 2019``, ``1st of May``, ``2019-05-01``, ``2019年5月1日``."""

from __future__ import annotations

import re
from typing import NamedTuple

_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_MONTH = r"(?P<month>[A-Za-z]{3,9})\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>\d{4})"
_WEEKDAY = r"(?:(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day,? )?"
_FORMS = (
    re.compile(rf"{_WEEKDAY}{_MONTH} (?:the )?{_DAY}(?:,? {_YEAR})?", re.IGNORECASE),
    re.compile(rf"{_WEEKDAY}(?:the )?{_DAY} (?:of )?{_MONTH}(?:,? {_YEAR})?", re.IGNORECASE),
    re.compile(r"(?P<year>\d{4})[-/](?P<month>\d{2})[-/](?P<day>\d{2})"),
    re.compile(r"(?:(?P<year>\d{4}) ?年 ?)?(?P<month>\d{1,2}) ?月 ?(?P<day>\d{1,2}) ?[日号]"),
)
_COMMAND = re.compile(r"\\(?:text|mathrm) ?\{|\\displaystyle|[{}$]|\\[ ,;()\[\]]|~")


class Date(NamedTuple):
    """A day; ``year`` is None if the text names none."""

    year: int | None
    month: int
    day: int


def date(text: str) -> Date | None:
    """``text`` as a date; None if it is not one, or more than one."""
    if not 4 <= len(text) <= 60:
        return None
    bare = " ".join(_COMMAND.sub(" ", text).split()).strip(" .")
    for form in _FORMS:
        if match := form.fullmatch(bare):
            month = _month(match["month"])
            day = int(match["day"])
            if month is None or not 1 <= day <= 31:
                return None
            return Date(int(match["year"]) if match["year"] else None, month, day)
    return None


def _month(name: str) -> int | None:
    if name.isdigit():
        return int(name) if 1 <= int(name) <= 12 else None
    for number, month in enumerate(_MONTHS, 1):
        if name.lower() == month or (len(name) >= 3 and month.startswith(name.lower()) and len(name) <= 4):
            return number
    return None


def same_date(reference: Date, answer: Date) -> bool:
    """Whether both are the same day. A year that only one of them names is dropped."""
    years = {reference.year, answer.year} - {None}
    return len(years) < 2 and (reference.month, reference.day) == (answer.month, answer.day)
