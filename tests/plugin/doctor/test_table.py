"""How findings are shown."""

import json

from openrlhf_gtpo.checks.findings import Finding, fault, ok, places, skipped, warning
from openrlhf_gtpo.doctor.table import as_json, line, summary
from openrlhf_gtpo.errors import reason

FINDINGS = [
    ok("Python", "It is 3.11.7."),
    warning("data: repeats", "Two."),
    fault("GPU", "There is none: plug one in, please, and look again."),
    skipped("disk", "Give --out."),
]


def test_columns_are_aligned() -> None:
    assert [line(finding, 13, width=None, colour=False) for finding in FINDINGS] == [
        "ok       Python         It is 3.11.7.",
        "warning  data: repeats  Two.",
        f"fault    GPU            {FINDINGS[2].sentence}",
        "skipped  disk           Give --out.",
    ]


def test_on_a_terminal_states_are_coloured_and_sentences_wrapped() -> None:
    first, second = line(FINDINGS[2], 3, width=44, colour=True).split("\n")
    assert first.startswith("\x1b[31mfault  \x1b[0m  GPU  ")
    assert second == "              please, and look again."


def test_the_summary_counts() -> None:
    assert summary(FINDINGS) == "1 fault to fix, 1 warning to look at, in 3 checks; 1 skipped."
    assert "fault" not in summary(FINDINGS[:2])
    assert "1 warning " in summary(FINDINGS[:2])
    assert summary(FINDINGS[:1]).endswith("well, in 1 check.")


def test_programs_get_the_same() -> None:
    found = json.loads(as_json(FINDINGS))
    assert found["checks"][0] == {"name": "Python", "state": "ok", "sentence": "It is 3.11.7."}
    assert found["counts"] == {"ok": 1, "warning": 1, "fault": 1, "skipped": 1}
    assert found["summary"] == summary(FINDINGS)
    assert [Finding(**check) for check in found["checks"]] == FINDINGS


def test_lines_are_named_and_many_counted() -> None:
    assert places([7]) == "line 7"
    assert places([7, 9]) == "lines 7 and 9"
    assert places([1, 2, 3, 4, 5]) == "lines 1, 2, 3, 4 and 5"
    assert places(list(range(1, 1008))) == "lines 1, 2, 3, 4, 5 and 1,002 more"


def test_an_exception_is_a_part_of_a_sentence() -> None:
    assert reason(ValueError("\nIt is bad.\nVery bad.")) == "It is bad"
    assert reason(KeyError()) == "KeyError"
