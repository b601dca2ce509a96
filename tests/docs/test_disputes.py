"""docs/disputes.md is what ``tests/benchmarks/disputes.py`` makes of its rows, and says of ours what is true today."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from math_reward.grader import grade

from ..scripts import script

ROWS_AT_LEAST = 200
PUBLIC = r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+"


@pytest.fixture(scope="module")
def disputes() -> ModuleType:
    return script(Path(__file__).resolve().parents[1] / "benchmarks" / "disputes.py")


def test_the_page_is_what_the_command_makes_of_the_rows(disputes: ModuleType) -> None:
    assert disputes.PAGE.read_text("utf-8") == disputes.markdown(*disputes.read()), (
        "run `python tests/benchmarks/disputes.py --page`"
    )


def test_our_verdicts_on_the_page_are_those_of_today(disputes: ModuleType) -> None:
    _, rows = disputes.read()
    today = {disputes.PAID: [], disputes.NOT: []}
    for row in rows:
        verdict = disputes.PAID if grade(row.graded, row.reference).correct else disputes.NOT
        if row.verdicts[disputes.OURS] != verdict:
            today[verdict].append((row.reference, row.graded))

    assert today == {disputes.PAID: [], disputes.NOT: []}, "run `python tests/benchmarks/disputes.py`"


def test_every_row_has_a_public_thread_a_complaint_a_label_and_the_verdict_of_every_grader(
    disputes: ModuleType,
) -> None:
    versions, rows = disputes.read()

    assert len(rows) >= ROWS_AT_LEAST
    assert len({(row.reference, row.graded) for row in rows}) == len(rows)
    assert set(versions) == set(disputes.VERSIONS)
    for row in rows:
        assert re.fullmatch(PUBLIC, row.thread), row
        assert bool(row.answer) != bool(row.completion), row
        assert row.kind, row
        assert row.complaint.endswith("."), row
        assert isinstance(row.equal, bool), row
        assert set(row.verdicts) == set(disputes.VERSIONS), row
        assert set(row.verdicts.values()) <= {disputes.PAID, disputes.NOT, disputes.CRASH, disputes.SLOW}, row


def test_the_rows_are_written_as_they_are_read(disputes: ModuleType, tmp_path: Path) -> None:
    disputes.write(*disputes.read(), tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == disputes.ROWS.read_bytes()


def test_a_grader_that_raises_or_hangs_has_that_as_its_verdict(disputes: ModuleType) -> None:
    class Fails:
        def __init__(self, hung: bool) -> None:
            self.tally = sys.modules["bench_grader"].Tally()
            self._hung = hung

        def grade(self, rows: list[object]) -> None:
            self.tally.verdicts.append(False)
            self.tally.hung += self._hung
            self.tally.failures += not self._hung

    row = disputes.read()[1][0]
    assert disputes._verdict(Fails(hung=True), row) == disputes.SLOW
    assert disputes._verdict(Fails(hung=False), row) == disputes.CRASH
