"""Files with one JSON object a line, each beginning with its step. They are read line by line, since rollouts.jsonl
may be large."""

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path

_BEGINNING = re.compile(rb'\{"step": ?(\d+)[,}]')


def steps_and_lines(path: Path) -> Iterator[tuple[float, bytes]]:
    """Each line with its step; infinity for a line that is cut off or has no step."""
    with path.open("rb", buffering=2**20) as file:
        for line in file:
            yield _step_of(line), line


def keep_steps(path: Path, wanted: Callable[[float], bool]) -> None:
    """Rewrite a file with the lines of some steps. The old file stays until the new one is whole.

    Args:
        path: of the file.
        wanted: whether a step's lines are kept.
    """
    part = path.with_suffix(".part")
    with part.open("wb") as kept:
        kept.writelines(line for step, line in steps_and_lines(path) if wanted(step))
    part.replace(path)


def _step_of(line: bytes) -> float:
    if line.endswith(b"}\n") and (match := _BEGINNING.match(line)):
        return int(match[1])  # without parsing the line, which may have 100 kB
    try:
        return json.loads(line)["step"] if line.endswith(b"\n") else math.inf
    except (ValueError, KeyError, TypeError):
        return math.inf
