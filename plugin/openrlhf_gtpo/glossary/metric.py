"""One metric, or a family of them, and what each of its names says."""

import functools
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

__all__ = ["Entry", "Metric"]

OPEN = {"source": r".+", "k": r"\d+", "verdict": r".+"}
"""What a run's data decide, as patterns."""


@dataclass(frozen=True)
class Entry:
    """One name and what it says, for people."""

    name: str
    unit: str
    over: str
    text: str
    file: str
    when: str = ""
    repeats: bool = True

    @property
    def sentence(self) -> str:
        """Everything but the name, in one line."""
        condition = f" Logged {self.when}." if self.when else ""
        unit = f" Unit: {self.unit}." if self.unit else ""
        varies = "" if self.repeats else " Varies between equal runs."
        return f"{self.text} Over {self.over}.{unit}{condition}{varies} Computed in {self.file}."


@dataclass(frozen=True)
class Metric:
    """A metric, or a family of them whose names and descriptions differ in some words.

    ``name``, ``over`` and ``text`` may hold ``{placeholders}``; ``variants`` says for each what it is in the name and
    what in the words. A placeholder of the name without variants stands for what a run's data decide.
    """

    name: str
    unit: str
    over: str
    text: str
    file: str
    """Where it is computed, from the repository's root, or in OpenRLHF's package."""
    when: str = ""
    """What has to be set for it; always there unless given."""
    repeats: bool = True
    """Whether the same command gives the same values on the same CPU. Times do not repeat, nor do counts of requests:
    who compares runs leaves them out."""
    variants: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def entries(self) -> Iterator[Entry]:
        """Under each of its names; what a run's data decide stays a ``{placeholder}``."""
        for chosen in itertools.product(*self.variants.values()):
            yield self._entry(dict(zip(self.variants, chosen, strict=True)))

    def entry_of(self, name: str) -> Entry | None:
        """Under this name, if it is one of its."""
        match = self._pattern.fullmatch(name)
        return self._entry(match.groupdict()) if match else None

    def _entry(self, chosen: Mapping[str, str]) -> Entry:
        """For what stands in the place of the name's placeholders."""
        chosen = {**{key: f"{{{key}}}" for key in OPEN}, **chosen}
        words = {**chosen, **{key: values[chosen[key]] for key, values in self.variants.items()}}
        over, text = self.over.format(**words), self.text.format(**words)
        return Entry(self.name.format(**chosen), self.unit, over, text, self.file, self.when, self.repeats)

    @functools.cached_property
    def _pattern(self) -> re.Pattern[str]:
        parts = re.split(r"\{(\w+)\}", self.name)  # literal, placeholder, literal, ...
        parts[::2] = map(re.escape, parts[::2])
        for place in range(1, len(parts), 2):
            key = parts[place]
            choices = "|".join(map(re.escape, self.variants[key])) if key in self.variants else OPEN[key]
            parts[place] = f"(?P<{key}>{choices})"
        return re.compile("".join(parts))
