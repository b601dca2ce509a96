"""The driver on its way into OpenRLHF's script: what it has prepared when Ray starts."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from openrlhf_gtpo import train

from ..refusals import assert_refusal

REWARDS = Path(__file__).resolve().parents[2] / "docs" / "examples" / "reward_function.py"
"""A file with rewards, of which no service is asked."""

PROGRAM = """
import json, sys
import ray._private.worker as worker

merge = worker._merge_runtime_env

def merged(*args, **kwargs):
    found = merge(*args, **kwargs)
    if found is None:  # a conflict, of which Ray tells
        return None
    print(json.dumps(found["env_vars"]))
    sys.exit(0)  # before a cluster is started

worker._merge_runtime_env = merged
from openrlhf_gtpo.train import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_jobs_variables_win_over_those_that_openrlhf_hands_to_ray(tmp_path: Path, tiny_model: Path) -> None:
    """Both name NCCL_DEBUG and two more, which is a conflict to Ray unless it is told that it is none."""
    data = tmp_path / "train.jsonl"
    data.write_text('{"input": "1 + 1 =", "label": "2"}\n' * 32)
    wanted = {"NCCL_DEBUG": "INFO", "TOKENIZERS_PARALLELISM": "false", "RAY_ENABLE_ZERO_COPY_TORCH_TENSORS": "0"}
    job = {"runtime_env": {"env_vars": wanted}, "metadata": {}}  # what a submitted job finds in its environment
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    flags = f"--data.prompt_dataset={data} --ckpt.output_dir={tmp_path} --actor.model_name_or_path={tiny_model}"
    flags += f" --device=gpu --preset=gtpo --data.label_key=label --data.max_len=128 --reward.remote_url={REWARDS}"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *flags.split(), "--rollout.max_new_tokens=40", "--vllm.num_engines=1"],
        # "local": no cluster that somebody else runs here
        env={**environment, **wanted, "RAY_ADDRESS": "local", "RAY_JOB_CONFIG_JSON_ENV_VAR": json.dumps(job)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    assert wanted.items() <= found.items()


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
