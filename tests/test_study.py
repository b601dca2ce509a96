"""launch/study.sh: what it refuses before it makes a worktree."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from .refusals import assert_refusal

SCRIPT = Path(__file__).resolve().parents[1] / "launch" / "study.sh"


@pytest.mark.parametrize(
    ("study", "named"),
    [
        ("tpu", ("tpu", "cpu", "gpu", "dose", "traps", "pivotal", "pivotal_1", "guide", "noise")),
        ("dose", ("git fetch",)),
    ],
)
def test_an_unknown_study_and_a_clone_without_the_commit_are_refused_in_one_sentence(
    study: str, named: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "launch").mkdir()
    shutil.copy(SCRIPT, tmp_path / "launch")
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    command = ["bash", str(tmp_path / "launch" / "study.sh")]
    done = subprocess.run(command, env={**os.environ, "STUDY": study}, capture_output=True, text=True)
    assert done.returncode == 2
    assert_refusal(done.stderr, "launch/study.sh", *named)
    assert not (tmp_path / "runs").exists()
