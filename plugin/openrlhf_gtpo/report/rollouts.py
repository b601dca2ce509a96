"""The groups of rollouts.jsonl, which may be larger than the memory: each is read when it is asked for."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from math_reward.json_lines import Line
from openrlhf_gtpo.data.json_lines import Unreadable, lines_of
from openrlhf_gtpo.errors import SettingsError

KEYS = ("step", "group", "prompt", "label", "correct", "tokens", "entropy", "shaped_reward", "advantage")
"""What a line of rollouts.jsonl has."""

_BEGINNING = re.compile(rb'\{"step": ?(\d+), ?"group": ?(\d+),')


class _Place(NamedTuple):
    """Where a group stands in the file."""

    name: tuple[int, int]
    first_line: int
    begin: int
    size: int
    """Bytes."""


class SavedGroups:
    """The groups of a file in its order, each the list of its responses."""

    def __init__(self, path: Path) -> None:
        """Find the groups, without keeping what they hold.

        Raises:
            SettingsError: a line is not what a run writes. A last line that is cut off is left out.
        """
        self.path = path
        self._places: list[_Place] = []
        last: tuple[int, int] | None = None
        for line, name in self._names():
            if name == last:
                place = self._places[-1]
                self._places[-1] = place._replace(size=line.offset + len(line.content) - place.begin)
            else:
                self._places.append(_Place(name, line.number, line.offset, len(line.content)))
            last = name

    @property
    def sizes(self) -> list[int]:
        """Bytes of each group in the file, about those that it takes on a page."""
        return [place.size for place in self._places]

    @property
    def names(self) -> list[tuple[int, int]]:
        """Step and number of each group."""
        return [place.name for place in self._places]

    def raw(self, index: int) -> bytes:
        """A group's lines as they stand in the file."""
        place = self._places[index]
        with self.path.open("rb") as file:
            file.seek(place.begin)
            return file.read(place.size)

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[list[dict[str, Any]]]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> list[dict[str, Any]]:
        lines = enumerate(self.raw(index).split(b"\n"), self._places[index].first_line)
        return [object_of_line(self.path, Line(number, 0, line), KEYS) for number, line in lines if line.strip()]

    def _names(self) -> Iterator[tuple[Line, tuple[int, int]]]:
        """Each line with its step and its group's number."""
        try:
            for line in lines_of(self.path):
                if not line.content.endswith(b"\n"):  # a run that is still going on may be writing it
                    try:
                        json.loads(line.content)
                    except ValueError:
                        continue
                if match := _BEGINNING.match(line.content):  # without parsing the line, which may have 100 kB
                    yield line, (int(match[1]), int(match[2]))
                else:
                    row = object_of_line(self.path, line, KEYS)
                    yield line, (row["step"], row["group"])
        except Unreadable as error:
            raise SettingsError(f"{self.path} cannot be read: {error}.") from None


def object_of_line(path: Path, line: Line, needed: Sequence[str]) -> dict[str, Any]:
    """The object of a line.

    Raises:
        SettingsError: it is none, lacks a key, or has a step that is no whole number.
    """
    try:
        row = json.loads(line.content)
    except ValueError:
        raise SettingsError(f"{path}, line {line.number}, is not JSON: fix or remove it.") from None
    missing = [key for key in needed if key not in row] if isinstance(row, dict) else needed
    if missing:
        raise SettingsError(f"{path}, line {line.number}, has no {missing[0]!r}: fix or remove it.")
    if "step" in needed and not isinstance(row["step"], int):
        raise SettingsError(f"{path}, line {line.number}, has a 'step' that is no whole number: fix or remove it.")
    return row
