"""What people's machines give a process."""

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from openrlhf_gtpo import surroundings


def test_a_socket_fits_into_the_temporary_folder_of_a_slurm_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setenv("TMPDIR", str(long))
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", None)
    with surroundings.prepared():
        folder = tempfile.gettempdir()
        assert folder == os.environ["TMPDIR"] == os.environ["RAY_TMPDIR"]
        sockets = Path(folder, "ray", "session_2026-11-26_12-00-00_000000_1234567", "sockets")
        sockets.mkdir(parents=True)
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(sockets / "plasma_store"))
    assert not Path(folder).exists()
    assert (os.environ["TMPDIR"], "RAY_TMPDIR" in os.environ) == (str(long), False)
    monkeypatch.setenv("TMPDIR", "/tmp")
    monkeypatch.setattr(tempfile, "tempdir", None)
    with surroundings.prepared():
        assert tempfile.gettempdir() == "/tmp", "a short one stays"


def test_a_terminal_that_is_not_utf_8_gets_what_it_can_print(tmp_path: Path) -> None:
    path = tmp_path / "é.jsonl"
    done = subprocess.run(
        [sys.executable, "-m", "openrlhf_gtpo", "data", "prepare", "other", "--from", str(path), "--out", "."],
        env=os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
    )
    assert done.returncode == 2
    assert rb"\xe9.jsonl" in done.stderr
