"""`ray job submit -- bash launch/train_gtpo.sh` on a running Ray cluster of two nodes, both on this machine, and the
scripts for GPUs in a rehearsal."""

import json
import os
import re
import secrets
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from openrlhf_gtpo.cpu.platform import WORKERS

from .. import preloaded
from .loop import own_gap
from .ray_cluster import RAY, RayCluster
from .trouble import Service

pytestmark = pytest.mark.engine
ROOT = Path(__file__).resolve().parents[2]


def preloaded_python() -> dict[str, str]:
    """Variables with which a script's driver and its workers start quickly."""
    return {"PYTHON": preloaded.python(), WORKERS: preloaded.python()}


def metrics_of(folder: Path) -> list[dict[str, Any]]:
    """What a run that went on for its steps has logged; its engines have the policy's weights."""
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in metrics] == list(range(1, len(metrics) + 1))
    for line in metrics:
        assert line["entropy/token_mean"] > 0, "the hook is in the engines, wherever they are"
        assert line["mismatch/logprob_gap"] <= own_gap(), "each engine has the weights of its policy"
    return metrics


SMALL = {
    "data.max_len": 96,
    "data.max_samples": 32,
    "train.max_steps": 2,
    "train.batch_size": 64,
    "train.micro_batch_size": 16,
    "rollout.batch_size": 16,
    "rollout.n_samples_per_prompt": 8,
    "rollout.micro_batch_size": 16,
    "rollout.max_new_tokens": 40,
    "ds.zero_stage": 2,
}
"""What makes the cluster's settings small enough for a CPU; flags after the script's name win."""


def test_a_submitted_job_trains_over_two_nodes_and_keeps_its_secret(policy: Path, tmp_path: Path) -> None:
    """launch/runtime_env.yaml edited as a user would edit it. Each node has one logical GPU: the policy and the engine
    have to be on different nodes."""
    token, file = secrets.token_hex(16), tmp_path / "token"
    file.write_text(token + "\n")
    service = Service(MATH_REWARD_TOKEN_FILE=str(file))
    edited = yaml.safe_load((ROOT / "launch" / "runtime_env.yaml").read_text())
    edited["working_dir"] = str(ROOT)
    edited["py_modules"] = [str(ROOT / module) for module in edited["py_modules"]]
    edited["env_vars"] = {
        **preloaded_python(),
        "DEVICE": "cpu",
        "GPUS": "1",
        "MODEL": str(policy / "model"),
        "DATA": str(policy / "train.jsonl"),
        "OUT": str(tmp_path / "out"),
        "REWARD_URL": service.url,
        "MATH_REWARD_TOKEN_FILE": str(file),
        "OMP_NUM_THREADS": "1",  # also one of the CPU platform's: no conflict with what the job brings
    }
    (tmp_path / "runtime_env.yaml").write_text(yaml.safe_dump(edited))
    node = ["--num-cpus=4", "--num-gpus=1"]
    try:
        with RayCluster(node, node) as cluster:
            command = [RAY, "job", "submit", "--address", cluster.dashboard, "--runtime-env", "runtime_env.yaml", "--"]
            command += ["bash", "launch/train_gtpo.sh"]
            done = subprocess.run(
                [*command, *(part for name, value in SMALL.items() for part in (f"--{name}", str(value)))],
                cwd=tmp_path,  # not the repository's root
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=800,
            )
            assert [str(path) for path in cluster.files() if token.encode() in path.read_bytes()] == []
    finally:
        service.kill()
    assert done.returncode == 0, done.stdout[-5000:]
    metrics = metrics_of(tmp_path / "out")
    assert all(line["shaped_reward/wrong_mean"] < 0 for line in metrics), "the controller has the shaping's settings"
    assert len(metrics) == 2
    assert metrics[-1]["reward/items_total"] == 2 * 16 * 8, "the token is with the rollout actors"
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["environment"]["nodes"] == 2
    assert (record["settings"]["preset"], record["settings"]["shaping.grop"]) == ("gtpo", True)
    assert f" go to {tmp_path / 'out'}" in done.stdout
    assert "step 2" in done.stdout, "progress reaches whoever submitted the job"
    assert token not in done.stdout
    assert token not in (tmp_path / "out" / "run.json").read_text()


EVENT = re.compile(r"(\d+\.\d+) on logical GPU (\w+:\d+): (engine|policy) (.+)")
BEGINNING = [("engine", "sleeps"), ("policy", "sleeps")]
GENERATION = [("engine", "has its weights back"), ("engine", "has its kv_cache back")]
TRAINING = [("engine", "sleeps"), ("policy", "is awake"), ("policy", "sleeps")]
"""Between the policy's falling asleep and the cache's return the engine has its weights alone, and gets new ones."""


def rehearsed(script: str, *flags: str, **environment: str) -> str:
    """What a GPU script with REHEARSE=1 writes to the terminal."""
    variables = {"REHEARSE": "1", **preloaded_python(), "RAY_DEDUP_LOGS": "0", **environment}
    unset = {name: value for name, value in os.environ.items() if name not in ("RAY_ADDRESS", "GPU_GB", "SIZE")}
    done = subprocess.run(
        ["bash", str(ROOT / "launch" / script), *flags],
        env=unset | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=800,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    return done.stdout


@pytest.mark.parametrize(
    ("script", "gpus", "steps", "stage"),
    [("train_gtpo.sh", 2, 3, 3), pytest.param("train_one_gpu.sh", 1, 1, 2, marks=pytest.mark.nightly)],
)
def test_a_gpu_scripts_own_flags_run_in_a_rehearsal(
    script: str, gpus: int, steps: int, stage: int, policy: Path, tmp_path: Path
) -> None:
    """Packing, ZeRO, colocation and sleep; a policy's rank and an engine on every logical GPU: two on two nodes, or
    one."""
    sources = {"MODEL": str(policy / "model"), "DATA": str(policy / "train.jsonl")}
    printed = rehearsed(script, f"--train.max_steps={steps}", OUT=str(tmp_path), **sources)
    placed = re.findall(r"node \d \((\w{6})\), 1 logical GPUs: policy ranks (\d); engines (\d), 1 of", printed)
    assert [(rank, engine) for _, rank, engine in placed] == [("0", "0"), ("1", "1")][:gpus]
    settings = json.loads((tmp_path / "run.json").read_text())["settings"]
    assert all(
        settings[name] for name in ("ds.packing_samples", "train.colocate_all", "vllm.enable_sleep", "ds.enable_sleep")
    )
    assert (settings["ds.zero_stage"], settings["vllm.sync_backend"]) == (stage, "nccl")
    assert len(metrics_of(tmp_path)) == steps

    printed += (tmp_path / "train.log").read_text(errors="replace")
    told = sorted((float(time), gpu, (who, what)) for time, gpu, who, what in EVENT.findall(printed))
    assert len({gpu for _, gpu, _ in told}) == gpus
    for gpu in {gpu for _, gpu, _ in told}:
        turns = [event for _, where, event in told if where == gpu]
        assert turns[:4] == [*BEGINNING, *GENERATION], turns
        expected = [*TRAINING, *GENERATION] * steps
        assert turns[4:] in (expected, expected[:-1]), turns  # after the last step nothing is generated
