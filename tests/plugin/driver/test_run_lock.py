"""Two runs in one folder: the second is refused with the name of the first, and a killed run leaves no lock."""

import errno
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from openrlhf_gtpo.driver.run_lock import FILE, held
from openrlhf_gtpo.errors import SettingsError

from ...refusals import assert_refusal

HOLDER = """
import os, sys, time
from pathlib import Path
from openrlhf_gtpo.driver.run_lock import held

with held(Path(sys.argv[1]), "--ckpt.output_dir", print):
    if "fork" in sys.argv and os.fork() == 0:
        time.sleep(600)  # a child that outlives it
    print("held", flush=True)
    sys.stdin.read()
"""


class Holder:
    """Another process that holds a folder's lock."""

    def __init__(self, folder: Path, *how: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(folder), *how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "held\n"

    def end(self) -> None:
        self.process.communicate("")

    def kill(self) -> None:
        """As the kernel kills for memory: nothing can be cleaned up."""
        self.process.kill()
        self.process.wait()

    def kill_children(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[Holder]:
    found = Holder(tmp_path / "run")
    yield found
    if found.process.poll() is None:
        found.end()


def take(folder: Path, told: list[str]) -> None:
    with held(folder, "--ckpt.output_dir", told.append):
        pass


def test_the_second_run_is_refused_with_host_process_and_start_of_the_first(
    tmp_path: Path, holder: Holder, told: list[str]
) -> None:
    written = json.loads((tmp_path / "run" / FILE).read_text())
    assert (written["host"], written["pid"]) == (socket.gethostname(), holder.process.pid)
    for _ in range(2):  # who was refused leaves the lock in place
        with pytest.raises(SettingsError) as refused:
            take(tmp_path / "run", told)
    who = f"(process {holder.process.pid} on {socket.gethostname()} since {written['start']})"
    assert_refusal(str(refused.value), f"--ckpt.output_dir {tmp_path / 'run'}", who)
    take(tmp_path / "other", told)
    assert told == []


@pytest.mark.parametrize("how", ["end", "kill"])
def test_a_run_that_ended_or_was_killed_does_not_stop_the_next_on_its_machine(
    tmp_path: Path, holder: Holder, told: list[str], how: str
) -> None:
    getattr(holder, how)()
    assert (tmp_path / "run" / FILE).exists() == (how == "kill")
    take(tmp_path / "run", told)
    assert told == []


def test_a_child_that_outlives_a_killed_run_does_not_hold_its_lock(tmp_path: Path, told: list[str]) -> None:
    holder = Holder(tmp_path / "run", "fork")
    try:
        holder.kill()
        take(tmp_path / "run", told)
    finally:
        holder.kill_children()


def test_what_a_run_on_another_machine_left_is_told_and_not_refused(tmp_path: Path, told: list[str]) -> None:
    left = {"host": "node-7", "pid": 4711, "start": "2026-01-02 03:04:05+00:00"}
    (tmp_path / FILE).write_text(json.dumps(left))
    with held(tmp_path, "--ckpt.output_dir", told.append):
        assert json.loads((tmp_path / FILE).read_text())["pid"] == os.getpid()
    (sentence,) = told
    assert_refusal(sentence, "(process 4711 on node-7 since 2026-01-02 03:04:05+00:00)")


@pytest.mark.parametrize("name", ["ENOLCK", "ENOSYS", "EOPNOTSUPP"])
def test_on_a_file_system_without_locks_a_run_goes_on_and_is_told_of_another(
    tmp_path: Path, name: str, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lockf(*_: int) -> None:
        raise OSError(getattr(errno, name), "no locks here")

    monkeypatch.setattr(fcntl, "lockf", lockf)
    with held(tmp_path, "--ckpt.output_dir", told.append):
        assert told == []
        with held(tmp_path, "--ckpt.output_dir", told.append):
            (sentence,) = told
    assert f"(process {os.getpid()} on {socket.gethostname()} since " in sentence


@pytest.mark.parametrize("content", ["{", "[]", "\x00\x01", "{}"])
def test_a_file_that_no_run_can_have_written_is_written_over(tmp_path: Path, content: str, told: list[str]) -> None:
    (tmp_path / FILE).write_text(content)
    with held(tmp_path, "--ckpt.output_dir", told.append):
        assert json.loads((tmp_path / FILE).read_text())["pid"] == os.getpid()


def test_a_folder_that_cannot_be_written_to_is_refused_in_one_sentence(tmp_path: Path, told: list[str]) -> None:
    (tmp_path / "file").write_text("")
    for name, reason in (("file", "File exists"), ("file/inside", "Not a directory")):
        with pytest.raises(SettingsError) as refused:
            take(tmp_path / name, told)
        assert_refusal(str(refused.value), f"--ckpt.output_dir {tmp_path / name} ", reason)
