"""How many labelled rows of the repository are graded otherwise without each row of the grader's tables [TABLE ...]"""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from math_reward.grader import Options, asked_form, compared, grade, grading
from math_reward.grader.extraction import phrases, prose, thoughts, values_at_end
from math_reward.grader.words import doubts

PLAIN = (
    (prose, "PLACES"), (prose, "STATED"), (values_at_end, "ENDINGS"), (values_at_end, "VALUES"),
    (asked_form, "FORMS"), (compared, "RULES"), (compared, "SECOND_READINGS"), (grading, "SECOND_CHANCES"),
)  # fmt: skip
TABLES: list[tuple[Any, str, str, Any]] = [  # whose it is, its name, that of what is made of it, and how
    (thoughts, "THOUGHTS", "MARKS", thoughts.any_of), (phrases, "PHRASES", "PHRASE", phrases.any_of),
    (doubts, "DOUBTS", "SAYS", doubts.compiled), *((module, name, name, tuple) for module, name in PLAIN),
]  # fmt: skip
FILES = (Path(__file__).parents[1] / "reward_server" / "grader").glob("[go]*.jsonl")  # golden verdicts, own rows


def graded(row: dict[str, Any]) -> object:
    completion = row.get("completion", f"{row.get('prompt', '')} " + rf"\boxed{{{row.get('answer')}}}")
    options = msgspec.convert(row.get("options", {}), Options)
    try:
        return grade(completion, row["reference"], row.get("prompt"), options)
    except Exception as error:  # a rule reads what another was to take off
        return str(error)


ROWS = [(row, graded(row)) for file in FILES for row in map(json.loads, file.read_text("utf-8").splitlines())]
for module, name, used, made in [one for one in TABLES if one[1] in (sys.argv[1:] or one)]:
    for left in (rows := getattr(module, name)):
        setattr(module, used, made([row for row in rows if row is not left]))
        grading.forget()
        print(sum(graded(row) != was for row, was in ROWS), name, repr(left.example), sep="\t", flush=True)
    setattr(module, used, made(rows))
