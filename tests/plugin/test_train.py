"""The driver on its way into OpenRLHF's script: what it has prepared when Ray starts."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from openrlhf_gtpo import train

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
