"""The driver on its way into OpenRLHF's script: what it has prepared when Ray starts."""

import importlib
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from openrlhf_gtpo import train
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


def test_a_run_does_not_end_before_its_last_step_is_shown(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Ray passes on what the controller prints when it comes to it."""

    def trains(_: Any) -> None:
        (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n{"step": 2}\n')
        threading.Timer(0.5, lambda: print(f"(Trainer pid=1) {MARK}step 2     reward 0.900")).start()

    monkeypatch.setattr("openrlhf.cli.train_ppo_ray.train", trains)
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
    assert train.main([str(word) for flag in given.items() for word in flag]) == 0
    assert f"{MARK}step 2     reward 0.900" in capfd.readouterr().out
