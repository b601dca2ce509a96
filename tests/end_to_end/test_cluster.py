"""`ray job submit -- bash launch/train_gtpo.sh` on a running Ray cluster of two nodes, both on this machine."""

import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from openrlhf_gtpo.cpu.platform import WORKERS

from .. import preloaded
from .loop import own_gap
from .ray_cluster import RAY, RayCluster, free_ports

pytestmark = pytest.mark.engine
ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent


def submit(
    cluster: RayCluster, environment: dict[str, str], *flags: str, cwd: Path
) -> subprocess.CompletedProcess[str]:
    """Submit launch/train_gtpo.sh with launch/runtime_env.yaml, edited as a user would edit it."""
    edited = yaml.safe_load((ROOT / "launch" / "runtime_env.yaml").read_text())
    edited["working_dir"] = str(ROOT)
    edited["py_modules"] = [str(ROOT / module) for module in edited["py_modules"]]
    edited["env_vars"] = environment
    path = cwd / "runtime_env.yaml"
    path.write_text(yaml.safe_dump(edited))
    command = [RAY, "job", "submit", "--address", cluster.dashboard, "--runtime-env", str(path)]
    return subprocess.run(
        [*command, "--", "bash", "launch/train_gtpo.sh", *flags],
        cwd=cwd,  # not the repository's root
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=800,
    )


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    """Two raylets, each with one logical GPU: the policy and the engine have to be on different nodes."""
    node = ["--num-cpus=4", "--num-gpus=1"]
    with RayCluster(node, node) as cluster:
        yield cluster


@pytest.fixture
def reward_service(tmp_path: Path) -> Iterator[tuple[str, Path, str]]:
    """A service of its own, as several nodes need: its URL, the file with its token, the token."""
    token = secrets.token_hex(16)
    file = tmp_path / "token"
    file.write_text(token + "\n")
    (port,) = free_ports(1)
    service = subprocess.Popen(
        [str(BIN / "math-reward"), "serve", "--port", str(port), "--workers", "1", "--exit-on-stdin-close"],
        stdin=subprocess.PIPE,  # so that it ends with a pytest that is killed
        env={**os.environ, "MATH_REWARD_TOKEN_FILE": str(file)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield f"http://127.0.0.1:{port}", file, token
    finally:
        service.terminate()
        service.wait(120)


def preloaded_python() -> dict[str, str]:
    """Variables with which a script's driver and its workers start quickly."""
    return {"PYTHON": preloaded.python(), WORKERS: preloaded.python()}


def small(policy: Path) -> list[str]:
    """What makes the cluster's settings small enough for a CPU; flags after the script's name win."""
    flags = {
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
    return [part for name, value in flags.items() for part in (f"--{name}", str(value))]


def test_a_submitted_job_trains_over_two_nodes_and_keeps_its_secret(
    cluster: RayCluster, reward_service: tuple[str, Path, str], policy: Path, tmp_path: Path
) -> None:
    url, file, token = reward_service
    environment = {
        **preloaded_python(),
        "DEVICE": "cpu",
        "GPUS": "1",
        "MODEL": str(policy / "model"),
        "DATA": str(policy / "train.jsonl"),
        "OUT": str(tmp_path / "out"),
        "REWARD_URL": url,
        "MATH_REWARD_TOKEN_FILE": str(file),
        "OMP_NUM_THREADS": "1",  # also one of the CPU platform's: no conflict with what the job brings
    }
    done = submit(cluster, environment, *small(policy), cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-5000:]
    metrics = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in metrics] == [1, 2]
    for line in metrics:
        assert line["entropy/token_mean"] > 0, "the hook is in the engine on the other node"
        assert line["shaped_reward/wrong_mean"] < 0, "the shaping's settings are in the controller"
        assert line["mismatch/logprob_gap"] <= own_gap(), "weights go from one node to the other"
    assert metrics[-1]["reward/items_total"] == 2 * 16 * 8, "the token is with the rollout actors"
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["environment"]["nodes"] == 2
    assert (record["settings"]["preset"], record["settings"]["shaping.grop"]) == ("gtpo", True)
    assert f" go to {tmp_path / 'out'}" in done.stdout
    assert "step 2" in done.stdout, "progress reaches whoever submitted the job"
    assert token not in done.stdout
    assert [str(path) for path in cluster.files() if token.encode() in path.read_bytes()] == []
    assert token not in (tmp_path / "out" / "run.json").read_text()


def test_a_job_that_the_nodes_cannot_hold_is_refused_at_once(
    cluster: RayCluster, reward_service: tuple[str, Path, str], policy: Path, tmp_path: Path
) -> None:
    url, file, _ = reward_service
    environment = {**preloaded_python(), "DEVICE": "cpu", "GPUS": "1", "MODEL": str(policy / "model")}
    environment |= {"DATA": str(policy / "train.jsonl"), "OUT": str(tmp_path / "out")}
    environment |= {"REWARD_URL": url, "MATH_REWARD_TOKEN_FILE": str(file)}
    done = submit(cluster, environment, *small(policy), "--vllm.num_engines", "9", cwd=tmp_path)
    assert done.returncode != 0
    assert re.search("train: error: .* 10 logical GPUs .*9 for engines.*ray start", done.stdout), done.stdout[-3000:]
    assert not (tmp_path / "out" / "metrics.jsonl").exists()


EVENT = re.compile(r"(\d+\.\d+) on logical GPU (\w+:\d+): (engine|policy) (.+)")


def rehearsed(script: str, policy: Path, folder: Path, *flags: str) -> str:
    """What a GPU script with REHEARSE=1 writes to the terminal and to train.log; its files are in
    ``folder / "out"``."""
    environment = {"REHEARSE": "1", "OUT": str(folder / "out"), **preloaded_python(), "RAY_DEDUP_LOGS": "0"}
    environment |= {"MODEL": str(policy / "model"), "DATA": str(policy / "train.jsonl")}
    unset = {name: value for name, value in os.environ.items() if name not in ("RAY_ADDRESS", "GPU_GB", "SIZE")}
    done = subprocess.run(
        ["bash", str(ROOT / "launch" / script), *flags],
        cwd=folder,
        env=unset | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=800,
    )
    log = folder / "out" / "train.log"
    written = done.stdout + (log.read_text(errors="replace") if log.is_file() else "")
    assert done.returncode == 0, written[-5000:]
    return written


def test_the_gpu_commands_own_flags_run_in_a_rehearsal_on_two_nodes(policy: Path, tmp_path: Path) -> None:
    """Packing, ZeRO-3, colocation and sleep; two policy ranks and two engines, one of each on every logical GPU."""
    printed = rehearsed("train_gtpo.sh", policy, tmp_path)
    placed = re.findall(r"node \d \((\w{6})\), 1 logical GPUs: policy ranks (\d); engines (\d), 1 of", printed)
    assert [(rank, engine) for _, rank, engine in placed] == [("0", "0"), ("1", "1")]

    settings = json.loads((tmp_path / "out" / "run.json").read_text())["settings"]
    assert all(
        settings[name] for name in ("ds.packing_samples", "train.colocate_all", "vllm.enable_sleep", "ds.enable_sleep")
    )
    assert (settings["ds.zero_stage"], settings["vllm.sync_backend"]) == (3, "nccl")
    metrics = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in metrics] == [1, 2, 3]
    for line in metrics:
        assert line["entropy/token_mean"] > 0
        assert line["mismatch/logprob_gap"] <= own_gap(), "each engine has the weights of its GPU"

    told = [(float(time), gpu, who, what) for time, gpu, who, what in EVENT.findall(printed)]
    assert {gpu for _, gpu, *_ in told} == {f"{node}:0" for node, *_ in placed}
    for gpu in {gpu for _, gpu, *_ in told}:
        turns = [(who, what) for _, where, who, what in sorted(told) if where == gpu]
        assert turns[:4] == [*BEGINNING, *GENERATION], turns
        steps = [*TRAINING, *GENERATION] * 3
        assert turns[4:] in (steps, steps[:-1]), turns  # after the last step nothing is generated


def test_the_one_gpu_scripts_flags_run_in_a_rehearsal_on_one_logical_gpu(policy: Path, tmp_path: Path) -> None:
    printed = rehearsed("train_one_gpu.sh", policy, tmp_path, "--train.max_steps", "1")
    settings = json.loads((tmp_path / "out" / "run.json").read_text())["settings"]
    assert all(
        settings[name] for name in ("ds.packing_samples", "train.colocate_all", "vllm.enable_sleep", "ds.enable_sleep")
    )
    assert settings["vllm.enable_prefix_caching"]
    (line,) = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    assert line["entropy/token_mean"] > 0
    assert line["mismatch/logprob_gap"] <= own_gap()
    turns = [(who, what) for _, _, who, what in sorted(EVENT.findall(printed))]
    assert turns[:7] == [*BEGINNING, *GENERATION, *TRAINING], "engine and policy are never awake together"


BEGINNING = [("engine", "sleeps"), ("policy", "sleeps")]
GENERATION = [("engine", "has its weights back"), ("engine", "has its kv_cache back")]
TRAINING = [("engine", "sleeps"), ("policy", "is awake"), ("policy", "sleeps")]
"""Between the policy's falling asleep and the cache's return the engine has its weights alone, and gets new ones."""


def test_a_rehearsal_of_the_32b_model_places_every_actor_on_64_logical_gpus() -> None:
    done = subprocess.run(
        ["bash", str(ROOT / "launch" / "train_grpo_s.sh")],
        env={**os.environ, "REHEARSE": "1", "SIZE": "32b", **preloaded_python()},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    nodes = re.findall(r"node \d \(\w+\), (\d) logical GPUs: policy ranks (.+); engines (.+), 4 of", done.stdout)
    assert [gpus for gpus, *_ in nodes] == ["8"] * 8
    assert sorted(number for _, ranks, _ in nodes for number in numbers(ranks)) == list(range(64))
    assert sorted(number for *_, engines in nodes for number in numbers(engines)) == list(range(16))


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(", ")]
