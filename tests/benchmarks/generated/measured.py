"""Units, money, times of day, durations, dates, words."""

# Notations are lists of texts: a line for each would be a page for each kind.
# ruff: noqa: E501

from __future__ import annotations

import datetime
import random
from fractions import Fraction

LENGTHS = {"mm": Fraction(1, 1000), "cm": Fraction(1, 100), "m": Fraction(1), "km": Fraction(1000)}


def length(source: random.Random) -> tuple[int, str]:
    return source.randint(2, 900), source.choice(sorted(LENGTHS))


def write_length(tree: tuple[int, str]) -> list[str]:
    n, unit = tree
    names = {"mm": "millimeters", "cm": "centimeters", "m": "meters", "km": "kilometers"}
    texts = [
        rf"{n} \text{{ {unit}}}",
        rf"{n}\,\mathrm{{{unit}}}",
        f"{n} {names[unit]}",
        rf"{n}~\text{{{names[unit]}}}",
    ]
    for other, size in LENGTHS.items():
        count = n * LENGTHS[unit] / size
        if count.denominator == 1 and count < 10**6:
            texts.append(rf"{count} \text{{ {other}}}")
    return texts


def change_length(tree: tuple[int, str], source: random.Random) -> tuple[int, str]:
    n, unit = tree
    return source.choice([(n + 1, unit), (n, source.choice(sorted({*LENGTHS} - {unit}))), (n * 10, unit)])


def speed(source: random.Random) -> tuple[int, str]:
    return source.randint(2, 90), source.choice(["m/s", "km/h", "kg m/s^2", "g/cm^3"])


def write_speed(tree: tuple[int, str]) -> list[str]:
    n, unit = tree
    spelled = {
        "m/s": ["meters per second", r"m s^{-1}"], "km/h": ["kilometers per hour", "km per hour"],
        "kg m/s^2": ["N", r"kg\,m\,s^{-2}"], "g/cm^3": ["grams per cubic centimeter", r"g\,cm^{-3}"],
    }[unit]  # fmt: skip
    return [rf"{n} \text{{ {unit}}}", *(rf"{n} \text{{ {other}}}" for other in spelled if "\\," not in other)]


def change_speed(tree: tuple[int, str], source: random.Random) -> tuple[int, str]:
    n, unit = tree
    others = sorted({"m/s", "km/h", "kg m/s^2", "g/cm^3"} - {unit})
    return source.choice([(n + 1, unit), (n, source.choice(others)), (-n, unit)])


def money(source: random.Random) -> int:
    return source.randint(101, 99_999)


def write_money(cents: int) -> list[str]:
    amount = f"{cents // 100}.{cents % 100:02d}"
    return [
        rf"\${amount}",
        f"${amount}",
        rf"{amount} \text{{ dollars}}",
        amount,
        rf"\${cents // 100:,}.{cents % 100:02d}",
    ]


def clock(source: random.Random) -> tuple[int, int]:
    return source.randint(1, 11), source.randint(0, 59)


def write_clock(tree: tuple[int, int]) -> list[str]:
    hour, minute = tree
    texts = [rf"{hour}:{minute:02d} \text{{ PM}}", f"{hour}:{minute:02d} p.m.", f"{hour + 12}:{minute:02d}:00"]
    return [*texts, f"{hour + 12}:{minute:02d}", *([f"{hour} pm"] if minute == 0 else [])]


def duration(source: random.Random) -> tuple[int, int]:
    return source.randint(1, 20), source.randint(1, 59)


def write_duration(tree: tuple[int, int]) -> list[str]:
    hours, minutes = tree
    return [
        f"{hours} hours {minutes} minutes", rf"{hours} \text{{ h }} {minutes} \text{{ min}}", f"{60 * hours + minutes} minutes",
        f"{hours} hours and {minutes} minutes", rf"{60 * hours + minutes} \text{{ min}}", f"{hours}小时{minutes}分钟",
        f"{60 * (60 * hours + minutes)} seconds",
    ]  # fmt: skip


def change_duration(tree: tuple[int, int], source: random.Random) -> tuple[int, int]:
    hours, minutes = tree
    return source.choice([(hours + 1, minutes), (hours, minutes % 59 + 1), (hours + 10, minutes)])


def day(source: random.Random) -> datetime.date:
    return datetime.date(2000, 1, 1) + datetime.timedelta(days=source.randrange(15_000))


def write_day(tree: datetime.date) -> list[str]:
    month = tree.strftime("%B")
    suffix = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}.get(tree.day, "th")
    return [
        f"{month} {tree.day}, {tree.year}", f"{tree.day} {month} {tree.year}", tree.isoformat(), rf"\text{{{month} {tree.day}, {tree.year}}}",
        f"{month} {tree.day}{suffix}, {tree.year}", f"{month[:3]} {tree.day}, {tree.year}", f"the {tree.day}{suffix} of {month} {tree.year}",
        f"{tree.year}年{tree.month}月{tree.day}日", f"{tree:%Y/%m/%d}", f"{tree:%A}, {month} {tree.day}, {tree.year}",
    ]  # fmt: skip


def change_day(tree: datetime.date, source: random.Random) -> datetime.date:
    return tree + datetime.timedelta(days=source.choice([1, -1, 30, 31, 365, 366]))


WORDS = [
    "Monday",
    "Tuesday",
    "red",
    "blue",
    "even",
    "odd",
    "Alice",
    "Bob",
    "increasing",
    "decreasing",
    "circle",
    "ellipse",
]


def write_word(word: str) -> list[str]:
    return [
        word,
        rf"\text{{{word}}}",
        rf"\textbf{{{word}}}",
        word.lower(),
        rf"\text{{ {word} }}",
        rf"\mathrm{{{word}}}",
    ]
