"""`bash launch/test.sh same COMMIT`: finds a changed constant, and passes a renamed function."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHAPING, TABLE = (Path("plugin") / "openrlhf_gtpo" / place for place in ("shaping.py", "flags.py"))


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code as it is, as the one commit of a repository of its own."""
    folder = tmp_path_factory.mktemp("repository")
    for part in ("plugin", "reward_server", "launch"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__", "runs"))
    (folder / "launch" / "setup.sh").write_text("# .venv is there\n")
    (folder / ".gitignore").write_text(".venv\nruns/\n__pycache__/\n")
    (folder / ".venv").symlink_to(ROOT / ".venv")
    git = ["git", "-C", str(folder), "-c", "user.name=test", "-c", "user.email=test@localhost"]
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message=before"]):
        subprocess.run([*git, *command], check=True)
    return folder


def same(repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", "launch/test.sh", "same", *arguments]
    return subprocess.run(command, cwd=repository, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})


def change(path: Path, pattern: str, text: str) -> None:
    before = path.read_text()
    after = re.sub(pattern, text, before)
    assert after != before
    path.write_text(after)


@pytest.mark.nightly
@pytest.mark.engine
def test_a_changed_constant_is_found_and_a_renamed_function_passes(repository: Path, policy: Path) -> None:
    # The fixture has trained the policy: the copy takes it from the same cache.
    (repository / "runs" / "cache").mkdir(parents=True)
    (repository / "runs" / "cache" / "warm_start").symlink_to(ROOT / "runs" / "cache" / "warm_start")

    unchanged = (repository / TABLE).read_text()
    change(repository / TABLE, r"(shaping\.alpha2.*default=)0\.1\b", r"\g<1>0.100001")
    done = same(repository, "HEAD", "gtpo")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "gtpo  they part" in done.stdout
    assert re.search(r"They part in step 1: (shaped_reward|advantage)/\w+ is ", done.stdout)
    assert re.search(r"The first response that differs: step 1, group \d, shaped_reward, token \d+: ", done.stdout)

    (repository / TABLE).write_text(unchanged)
    change(repository / SHAPING, r"\b_normalised\b", "_in_deviations")
    done = same(repository, "HEAD", "gtpo")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "gtpo  the same to the bit" in done.stdout
