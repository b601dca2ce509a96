"""The limits that ``math-reward grade`` reads without pydantic are the ones that the service's settings hold."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from math_reward.limits import MAX_DEADLINE, MAX_WORKERS, GradingLimits, LimitRefused, grading_limits, usable_cores
from math_reward.settings import SettingsError, load_settings

WRITTEN = st.one_of(
    st.integers(-5, 2000).map(str),
    st.floats().map(repr),
    st.sampled_from(["", " 4 ", "1e2", "NaN", "two", "1_000", "0x10", "-0", "5.0", "9" * 5000]),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=6),
)


def outcome(read: Any, **values: Any) -> Any:
    try:
        found = read(**values)
    except (LimitRefused, SettingsError) as refusal:
        return str(refusal)
    return found.workers, found.deadline


def test_a_flag_comes_before_the_variable_and_the_variable_before_the_default():
    variables = {"MATH_REWARD_WORKERS": "3", "MATH_REWARD_DEADLINE": "0.5"}
    assert grading_limits(environment={}) == GradingLimits(usable_cores(), 2.0)
    assert grading_limits(environment=variables) == GradingLimits(3, 0.5)
    assert grading_limits(7, None, variables) == GradingLimits(7, 0.5)
    assert grading_limits(None, 1.5, variables) == GradingLimits(3, 1.5)


@pytest.mark.parametrize(
    ("files", "share"),
    [
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.max": "100000 100000\n"}, 1),
        ({"cpu.max": "5000 100000\n"}, 1),
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "100000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 1),
        ({}, None),
    ],
)
def test_a_container_with_a_share_of_the_cores_has_no_more_workers(
    files: dict[str, str], share: int | None, tmp_path: Path
):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    mine = len(os.sched_getaffinity(0))

    assert usable_cores(tmp_path) == (mine if share is None else min(share, mine))


@given(workers=WRITTEN, deadline=WRITTEN)
@example(workers="0", deadline="1")
@example(workers=str(MAX_WORKERS + 1), deadline="1")
@example(workers=str(MAX_WORKERS), deadline=str(MAX_DEADLINE))
@example(workers="1", deadline="600.1")
def test_command_and_service_read_the_same_variables_alike_and_refuse_in_the_same_words(workers: str, deadline: str):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MATH_REWARD_WORKERS", workers)
        patch.setenv("MATH_REWARD_DEADLINE", deadline)
        ours, theirs = outcome(grading_limits), outcome(load_settings)
    if isinstance(ours, tuple):
        assert ours == theirs
    else:  # The service's sentences name every setting that is refused, the command's the first.
        assert theirs == ours or theirs.startswith(f"{ours} ")
