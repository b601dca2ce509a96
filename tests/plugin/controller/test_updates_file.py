"""Another run's numbers of updates: what is read of its metrics, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openrlhf_gtpo.checks.files import check_updates
from openrlhf_gtpo.controller.updates_file import read_updates
from openrlhf_gtpo.settings import Settings

from ...refusals import assert_refusal


def write(folder: Path, *rows: dict[str, Any]) -> str:
    path = folder / "metrics.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"step": 9, "policy/upd')
    return str(path)


MADE = ({"step": 1, "reward": 0.5, "policy/updates": 12.0}, {"step": 2, "policy/updates": 4.0})


def test_a_runs_metrics_have_its_updates_by_step_also_where_the_run_was_cut_off(tmp_path: Path) -> None:
    assert read_updates(write(tmp_path, *MADE), 2) == [12, 4]
    assert read_updates(write(tmp_path, *MADE), 1) == [12]


@pytest.mark.parametrize(
    ("rows", "step"),
    [
        (MADE, 3),
        ((MADE[1],), 1),
        (({"step": 1},), 1),
        (({"step": 1, "policy/updates": 0.0},), 1),
        (({"step": 1, "policy/updates": "12"},), 1),
        (None, None),
    ],
)
def test_a_file_without_a_number_of_updates_for_each_step_is_refused_before_the_run(
    settings: Callable[..., Settings], tmp_path: Path, rows: tuple[dict[str, Any], ...] | None, step: int | None
) -> None:
    path = str(tmp_path / "gone.jsonl") if rows is None else write(tmp_path, *rows)
    (found,) = check_updates(settings("--train.updates_from", path, "--train.max_steps", 3))
    assert found.state == "fault"
    assert_refusal(found.sentence, "--train.updates_from", path, f"step {step}" if step else "cannot be read")


def test_a_good_file_and_no_file_are_not_refused(settings: Callable[..., Settings], tmp_path: Path) -> None:
    assert check_updates(settings("--train.updates_from", write(tmp_path, *MADE), "--train.max_steps", 2)) == []
    assert check_updates(settings()) == []
