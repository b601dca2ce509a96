"""The driver around OpenRLHF's script: its last words, and how it ends."""

import importlib
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import ActorDiedError, ActorDiedErrorContext, RayTaskError, UnserializableException

from openrlhf_gtpo import train
from openrlhf_gtpo.controller import watch
from openrlhf_gtpo.errors import EntropyMissing
from openrlhf_gtpo.terminal import MARK

from ..refusals import assert_refusal


def test_a_disk_that_filled_up_is_reported_whatever_torch_says_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: Any) -> str:
        raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 1585216 vs 1585104")

    monkeypatch.setattr(train, "prepare", lambda args, terminal: args)
    monkeypatch.setattr(train, "_train", fails)
    monkeypatch.setattr(train.signal, "signal", lambda *_: None)
    monkeypatch.setattr(train.shutil, "disk_usage", lambda folder: SimpleNamespace(free=5e6))
    assert train.main(["--device=cpu", f"--ckpt.path={tmp_path}"]) == 1
    assert_refusal(
        capsys.readouterr().err.splitlines()[-1], f"--ckpt.path {tmp_path} is full", "5 MB", "--ckpt.max_num"
    )


@pytest.fixture
def main(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The driver's status with this in place of OpenRLHF's training, without Ray. It writes to ``tmp_path``."""
    monkeypatch.setattr(importlib.import_module("openrlhf_gtpo.cpu.platform"), "start_ray", lambda given: None)
    monkeypatch.setattr(train.bindings, "bind", lambda *_: None)
    monkeypatch.setattr(train.signal, "signal", lambda *_: None)
    (tmp_path / "train.jsonl").write_text('{"input": "1 + 1 =", "label": "2"}\n' * 32)
    given = {
        "--device": "cpu",
        "--preset": "gtpo",
        "--actor.model_name_or_path": tiny_model,
        "--data.prompt_dataset": tmp_path / "train.jsonl",
        "--data.label_key": "label",
        "--data.max_len": 128,
        "--rollout.max_new_tokens": 40,
        "--reward.remote_url": Path(__file__).resolve().parents[2] / "docs" / "examples" / "reward_function.py",
        "--ckpt.output_dir": tmp_path,
    }

    def trained(by: Callable[[Any], None]) -> int:
        monkeypatch.setattr("openrlhf.cli.train_ppo_ray.train", by)
        return train.main([str(word) for flag in given.items() for word in flag])

    return trained


@pytest.mark.parametrize("steps", [0, 2])
def test_a_run_does_not_end_before_its_last_step_is_shown_and_says_where_it_made_none(
    steps: int, main: Callable[..., int], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Ray passes on what the controller prints when it comes to it."""

    def trains(_: Any) -> None:
        (tmp_path / "metrics.jsonl").write_text("".join(f'{{"step": {step + 1}}}\n' for step in range(steps)))
        threading.Timer(0.5, lambda: print(f"(Trainer pid=1) {MARK}step 2     reward 0.900")).start()

    status = main(trains)
    told = capfd.readouterr()
    if steps:
        assert status == 0
        assert f"{MARK}step 2     reward 0.900" in told.out
    else:
        assert status == 1
        assert_refusal(told.err.splitlines()[-1], "ended without a step", str(tmp_path / "train.log"))


@pytest.mark.parametrize("before", [False, True], ids=["a new folder", "a record of an earlier run"])
def test_a_start_that_takes_long_is_told_until_the_controller_has_written_its_record(
    before: bool,
    main: Callable[..., int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    lines: queue.Queue[str] = queue.Queue()
    ended: list[bool] = []

    def printed(line: str, **more: Any) -> None:
        lines.put(line)
        print(line, **more)

    def watching() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "watch"]

    def trains(_: Any) -> None:
        for _ in range(2):  # once would be said before anybody has looked whether it is over
            lines.get(timeout=30)
        (tmp_path / "run.json").write_text("{}")
        for thread in watching():
            thread.join(30)
        ended.append(not watching())

    if before:
        (tmp_path / "run.json").write_text("{}")
        os.utime(tmp_path / "run.json", (0, 0))
    monkeypatch.setattr(watch, "FIRST_SECONDS", 0.01)
    monkeypatch.setattr(watch, "print", printed, raising=False)
    assert main(trains) == 1, "without a step"
    assert ended == [True]
    said = [line for line in capfd.readouterr().out.splitlines() if "no step begun" in line]
    assert f"minutes: waiting for Ray, its actors and engines to start; {tmp_path / 'train.log'} has" in said[0]


def test_a_start_that_fails_is_watched_no_more(main: Callable[..., int]) -> None:
    def fails(_: Any) -> None:
        raise RuntimeError("no luck")

    before = set(threading.enumerate())
    assert main(fails) == 1
    begun = [thread for thread in set(threading.enumerate()) - before if thread.name == "watch"]
    for thread in begun:
        thread.join(30)
    assert not any(thread.is_alive() for thread in begun)


@pytest.mark.parametrize(
    ("before", "saves", "recommended"), [(0, 1, True), (1, 2, True), (1, 0, False), (0, 0, False)]
)
def test_a_resume_is_recommended_from_a_checkpoint_of_this_run_alone(
    before: int, saves: int, recommended: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """One that was there is another run's, or the command that failed was its resume."""
    (tmp_path / "_actor").mkdir()

    def save(step: int) -> None:
        (tmp_path / "_actor" / "latest").write_text(f"global_step{step}")

    def fails(*_: Any) -> str:
        for step in range(before, before + saves):
            save(step + 1)
        raise RuntimeError("no luck")

    for step in range(before):
        save(step + 1)
    monkeypatch.setattr(train, "prepare", lambda args, terminal: args)
    monkeypatch.setattr(train, "_train", fails)
    monkeypatch.setattr(train.signal, "signal", lambda *_: None)
    assert train.main(["--device=cpu", f"--ckpt.path={tmp_path}"]) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    after = f". The same command with --ckpt.load_enable goes on after step {before + saves}."
    assert said == f"{MARK}error: RuntimeError: no luck{after if saves else ''}"


ENDS = """
import ctypes, os, signal, sys, time
from openrlhf_gtpo import train

def trains(args, terminal, cleanup):
    cleanup.callback({cleans}, 600)
    {stops}

train.CLEAN_UP_SECONDS, train.prepare, train._train = 1, lambda args, terminal: args, trains
sys.exit(train.main(["--device=cpu"]))
"""


@pytest.mark.parametrize(
    ("stops", "cleans", "status", "said"),
    [
        ("raise RuntimeError('no luck')", "time.sleep", 1, "error: RuntimeError: no luck"),
        ("raise KeyboardInterrupt", "time.sleep", 130, "interrupted"),
        ("os.kill(os.getpid(), signal.SIGTERM)", "time.sleep", 143, None),
        ("return 'the policy is in model'", "time.sleep", 0, "the policy is in model"),
        ("raise RuntimeError('no luck')", "ctypes.PyDLL(None).sleep", 1, "error: RuntimeError: no luck"),
    ],
    ids=["an error", "Ctrl-C", "SIGTERM", "a good end", "an error, and C code keeps Python's lock"],
)
def test_a_run_whose_clean_up_hangs_has_said_why_it_ended_and_ends_with_its_status(
    stops: str, cleans: str, status: int, said: str | None
) -> None:
    program = ENDS.replace("{stops}", stops).replace("{cleans}", cleans)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == status, done.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith(MARK)] == ([MARK + said] if said else [])


def brought(cause: Exception, behind: str = "") -> Any:
    """An exception as Ray brings it from another process."""
    last = f"{type(cause).__module__}.{type(cause).__name__}: {cause}".removeprefix("builtins.")
    text = f"{behind}Traceback (most recent call last):\n  File somewhere\n{last}"
    return pickle.loads(pickle.dumps(RayTaskError("step", text, cause)))


OURS = EntropyMissing("Engine 1 has no entropies: start it anew.")
FULL = OSError(28, "No space left on device")
KILLED = ActorDiedError(cause=ActorDiedErrorContext(class_name="RolloutActor", actor_id=bytes(16)))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (brought(OURS).as_instanceof_cause(), str(OURS)),
        (ActorDiedError(brought(OURS)), str(OURS)),
        (brought(ActorDiedError(brought(OURS))).as_instanceof_cause(), str(OURS)),
        (brought(KeyError("x"), f"openrlhf_gtpo.errors.EntropyMissing: {OURS}\n\n").as_instanceof_cause(), str(OURS)),
        (brought(FULL).as_instanceof_cause(), "OSError: [Errno 28] No space left on device"),
        (ActorDiedError(brought(FULL)), "OSError: [Errno 28] No space left on device"),
        (UnserializableException("Traceback ...\nodd.Odd: 1 2"), "odd.Odd: 1 2"),
        (KILLED, "The Ray actor RolloutActor died: it crashed, was killed, or there was no memory left for it."),
        (brought(KILLED).as_instanceof_cause(), "The Ray actor RolloutActor died: it crashed, was killed, or"),
    ],
    ids=lambda value: None if isinstance(value, str) else type(value).__name__,
)
def test_what_another_process_died_of_is_said_in_its_own_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, said: str
) -> None:
    def fails(*_: Any) -> str:
        raise error

    monkeypatch.setattr(train, "prepare", lambda args, terminal: args)
    monkeypatch.setattr(train, "_train", fails)
    monkeypatch.setattr(train.signal, "signal", lambda *_: None)
    assert train.main(["--device=cpu"]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"{MARK}error: {said}")
