"""Prints findings, as lines for people or as JSON for programs."""

import json
import textwrap
from collections import Counter
from collections.abc import Sequence

from openrlhf_gtpo.checks.findings import Finding, State

COLOURS: dict[State, str] = {"ok": "32", "warning": "33", "fault": "31", "skipped": "2"}
"""ANSI codes: green, yellow, red, faint."""
NARROWEST = 30
"""Least width of the column of sentences, however narrow the terminal is."""


STATES = max(map(len, COLOURS))


def line(finding: Finding, names: int, *, width: int | None, colour: bool) -> str:
    """State, name and sentence in columns.

    Args:
        finding: the finding.
        names: width of the column of names.
        width: of the terminal, to which sentences are wrapped; None does not wrap.
        colour: whether states are coloured.
    """
    state = f"{finding.state:<{STATES}}"
    if colour:
        state = f"\x1b[{COLOURS[finding.state]}m{state}\x1b[0m"
    sentence = [finding.sentence]
    indent = STATES + names + 4
    if width is not None:
        room = max(NARROWEST, width - indent)
        sentence = textwrap.wrap(finding.sentence, room, break_long_words=False, break_on_hyphens=False)
    return f"{state}  {finding.name:<{names}}  " + f"\n{' ' * indent}".join(sentence)


def summary(findings: Sequence[Finding]) -> str:
    """One sentence."""
    count = Counter(finding.state for finding in findings)
    checked = len(findings) - count["skipped"]
    if count["fault"]:
        said = f"{_number(count['fault'], 'fault')} to fix"
    elif count["warning"]:
        said = "Nothing has to be fixed"
    else:
        said = "All is well"
    if count["warning"]:
        said += f", {_number(count['warning'], 'warning')} to look at"
    said += f", in {_number(checked, 'check')}"
    return said + (f"; {count['skipped']} skipped." if count["skipped"] else ".")


def _number(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def as_json(findings: Sequence[Finding]) -> str:
    """``{"checks": [{"name", "state", "sentence"}, ...], "counts": {state: n}, "summary": sentence}``."""
    count = Counter(finding.state for finding in findings)
    counts = {state: count[state] for state in COLOURS}
    checks = [vars(finding) for finding in findings]
    return json.dumps({"checks": checks, "counts": counts, "summary": summary(findings)}, indent=2, ensure_ascii=False)
