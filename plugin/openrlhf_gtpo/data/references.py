"""Whether the reward service's grader can read reference answers."""

import json
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from openrlhf_gtpo.errors import SettingsError

_PLAIN = re.compile(r"-?\d{1,15}(\.\d{1,6})?")
# Numbers that the grader reads as everybody does: most data sets have no others, and do not wait for its start.

_NO_ANSWERS = {"proof", "notfound", "not found", "no answer", "see solution", "see the solution", "none", "n/a", "nan"}
_PROOF = re.compile(
    r"\b(?:q\.?\s?e\.?\s?d|proof|proved|prove that|as desired)\b|\\blacksquare|\\square\s*$", re.IGNORECASE
)
_NO_PROSE = re.compile(r"\$[^$]*\$|\\\(.*?\\\)|\\[a-zA-Z]+|[{}]", re.DOTALL)
SENTENCE = 5
"""Words of prose from which on an answer is a sentence."""

MOST = 50_000
"""How many different answers are looked at, half a minute's work; of more, so many from all over them."""


def kind_of(reference: str) -> str | None:
    """``proof`` or ``sentence`` for a reference answer that no response can be compared with, else None."""
    if reference.strip(" .").lower() in _NO_ANSWERS or _PROOF.search(reference):
        return "proof"
    words = re.findall(r"[^\W\d_]{2,}", _NO_PROSE.sub(" ", reference))
    return "sentence" if len(words) >= SENTENCE else None


def ungradable(labels: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The reference answers among ``labels``, which all differ, that are none or that the grader cannot read, each
    with half a sentence why; and those that were not looked at.

    Raises:
        SettingsError: the grader fails.
    """
    hard = [label for label in labels if not _PLAIN.fullmatch(label)]
    asked = hard[:: math.ceil(len(hard) / MOST) or 1]
    graded = grades([{"label": label} for label in asked]) if asked else []
    bad = {label: "it is a proof or a note, and no answer" for label in asked if kind_of(label) == "proof"}
    for label, grade in zip(asked, graded, strict=True):
        if grade["verdict"] == "bad_reference":
            bad[label] = grade["detail"].partition(": ")[2].rstrip(".")
    return bad, [*set(hard).difference(asked)]


def grades(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The grades of rows with a label and perhaps a completion, by the reward service's grader.

    Raises:
        SettingsError: the grader fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        asked, answers = Path(folder, "asked.jsonl"), Path(folder, "graded.jsonl")
        with asked.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps({"completion": "", **row}, ensure_ascii=False) + "\n" for row in rows)
        command = [sys.executable, "-m", "math_reward", "grade", "--file", str(asked), "--output", str(answers)]
        done = subprocess.run([*command, "--reference-key", "label"], capture_output=True, text=True)
        try:
            return [json.loads(line) for line in answers.read_text(encoding="utf-8").splitlines()]
        except (OSError, ValueError):
            last = (done.stderr.strip().splitlines() or ["no output"])[-1]
    raise SettingsError(
        f"The references cannot be checked, because the grader failed: {last}: install it by pip install math-reward."
    )
