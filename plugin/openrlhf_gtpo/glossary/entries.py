"""The names that are logged, read from metrics.csv, which has a row for each metric or family of metrics.

A metric of ours cannot be logged without a row there: tests hold the names in the sources, what the functions that
make them return, and every line of a real run against it.
"""

import csv
import functools
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

FAMILIES: Mapping[str, Mapping[str, str]] = {
    "of": {"": "all responses", "correct_": "correct responses", "wrong_": "wrong responses"},
    "quantile": {
        "mean": "mean",
        "q10": "value that a tenth is below",
        "q50": "median",
        "q90": "value that nine tenths are below",
    },
    "extreme": {"mean": "mean", "std": "standard deviation", "min": "lowest", "max": "highest"},
}
"""Placeholder of a row -> what may stand there in a name -> the same in words."""
OPEN = {"source": r".+", "k": r"\d+", "verdict": r".+"}
"""Placeholders that stay: what a run's data decide, as patterns."""


@dataclass(frozen=True)
class Entry:
    """One name and what it says, for people."""

    name: str
    text: str
    over: str
    unit: str
    file: str
    """Where it is computed, from the repository's root, or in OpenRLHF's package."""
    when: str
    """What has to be set for it; empty where it is always there."""
    place: int
    """Among all."""
    repeats: bool
    """Whether the same command gives the same values on the same CPU. Times do not repeat, nor do counts of requests:
    who compares runs leaves them out."""

    @property
    def sentence(self) -> str:
        """Everything but the name, in one line."""
        condition = f" Logged {self.when}." if self.when else ""
        unit = f" Unit: {self.unit}." if self.unit else ""
        varies = "" if self.repeats else " Varies between equal runs."
        return f"{self.text} Over {self.over}.{unit}{condition}{varies} Computed in {self.file}."


def _family(name: str, text: str, over: str) -> Iterator[tuple[str, str, str]]:
    """The names of a row, each with its words."""
    for family, parts in FAMILIES.items():
        if (place := f"{{{family}}}") in name:
            for part, words in parts.items():
                yield from _family(name.replace(place, part), text.replace(place, words), over.replace(place, words))
            return
    yield name, text, over


def _entries() -> Iterator[Entry]:
    places = itertools.count()
    with Path(__file__).with_name("metrics.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            for name, text, over in _family(row["name"], row["what it is"], row["over"]):
                file_and_when = row["computed in"], row["logged"]
                yield Entry(name, text, over, row["unit"], *file_and_when, next(places), row["repeats"] == "")


GLOSSARY = tuple(_entries())


@functools.cache
def describe(name: str) -> Entry | None:
    """What a logged name says; None where it is declared nowhere, as with a reward's extra_logs."""
    for entry in GLOSSARY:
        pattern = re.escape(entry.name)
        for place, values in OPEN.items():
            pattern = pattern.replace(rf"\{{{place}\}}", f"(?P<{place}>{values})")
        if match := re.fullmatch(pattern, name):
            return replace(entry, name=name, text=entry.text.format(**match.groupdict()))
    return None
