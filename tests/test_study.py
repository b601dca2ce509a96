"""launch/study.sh: what it refuses before it makes a worktree."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "launch" / "study.sh"


@pytest.mark.parametrize(
    ("study", "sentence"),
    [
        ("tpu", "STUDY is tpu, but needs to be cpu, gpu, dose, traps, pivotal, pivotal_1, guide or noise."),
        ("dose", "run `git fetch --unshallow` first."),
    ],
)
def test_an_unknown_study_and_a_clone_without_the_commit_are_refused_in_one_sentence(
    study: str, sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "launch").mkdir()
    shutil.copy(SCRIPT, tmp_path / "launch")
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    command = ["bash", str(tmp_path / "launch" / "study.sh")]
    done = subprocess.run(command, env={**os.environ, "STUDY": study}, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("launch/study.sh: ")
    assert done.stderr.endswith(f"{sentence}\n")
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "runs").exists()
