"""Probes in processes of their own: answers, errors, crashes and hangs."""

import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from openrlhf_gtpo.checks.isolated import ProbeFailed, isolated

PYTHON = sys.executable


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a program in the place of the probes; it gets the probe's name and the file for the answer."""

    def put(program: str) -> None:
        path = tmp_path / "python"
        path.write_text(f"#!{PYTHON}\n" + textwrap.dedent(program))
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(path))

    return put


def test_what_a_probe_raises_is_told() -> None:
    with pytest.raises(ProbeFailed, match=r"^KeyError: 'no_such_probe'$"):
        isolated("no_such_probe", {}, 60)


def test_an_answer_comes_back_whatever_else_is_printed(stand_in: Callable[[str], None]) -> None:
    stand_in(
        """
        import json, sys
        print("noise" * 100_000)
        *_, probe, answer = sys.argv
        open(answer, "w").write(json.dumps({"value": [probe, json.load(sys.stdin)]}))
        """
    )
    assert isolated("look", {"at": "this"}, 60) == ["look", {"at": "this"}]


def test_a_crash_is_told_with_the_last_line(stand_in: Callable[[str], None]) -> None:
    stand_in("import os, signal; print('one'); print('two\\n', flush=True); os.kill(os.getpid(), signal.SIGSEGV)")
    with pytest.raises(ProbeFailed, match=r"SIGSEGV.*: two$"):
        isolated("look", {}, 60)
    stand_in("raise SystemExit(3)")
    with pytest.raises(ProbeFailed, match=r"exit code 3.*: \(nothing\)$"):
        isolated("look", {}, 60)


def test_a_hang_is_ended_with_all_its_processes(stand_in: Callable[[str], None], tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    stand_in(
        f"""
        import os, subprocess, time
        child = subprocess.Popen(["sleep", "600"])
        open({str(pids)!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
        time.sleep(600)
        """
    )
    with pytest.raises(ProbeFailed, match=r"no answer within 5 s$"):
        isolated("look", {}, 5)
    for pid in map(int, pids.read_text().split()):
        give_up_at = time.monotonic() + 60
        while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < give_up_at
            time.sleep(0.05)
