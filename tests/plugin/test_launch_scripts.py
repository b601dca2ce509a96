"""The scripts for GPUs: their flags are taken, their variables reach them, and their plan is the paper's."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .. import preloaded
from ..refusals import assert_refusal

LAUNCH = Path(__file__).parents[2] / "launch"


@pytest.fixture(scope="module", autouse=True)
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Rows of prompts and references; the scripts' own default is made by `openrlhf-gtpo data prepare`."""
    path = tmp_path_factory.mktemp("data") / "train.jsonl"
    path.write_text('{"input": "1 + 1 =", "label": "2"}\n' * 64)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PRESET", "SIZE", "MODEL", "NODES", "GPUS", "GPU_GB", "REWARD_URL", "OUT", "TASK", "STEPS"):
            patch.delenv(name, raising=False)
        patch.setenv("DATA", str(path))
        yield


def run(script: str, *flags: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(LAUNCH / script), *flags],
        # As on a machine that asks the hub: what it has under a name is not looked up.
        env={**os.environ, "PYTHON": preloaded.python(), "HF_HUB_OFFLINE": "0", **environment},
        capture_output=True,
        text=True,
        timeout=200,
    )


def plan(*args: str, **environment: str) -> dict[str, str]:
    """The plan's rows by their names, and the flags that it lists by theirs."""
    result = run(*args, "--dry-run", **environment)
    assert result.returncode == 0, result.stderr[-2000:]
    plan, _, flags = result.stdout.partition("flags that are not at their defaults:\n")
    rows = [line.split("  ", 1) for line in plan.splitlines() if "  " in line]
    rows += [line.split(maxsplit=1) for line in flags.splitlines() if " " in line.strip()]
    return {name.strip(): value.strip() for name, value in rows}


def test_a_node_of_eight_gpus_trains_the_papers_7b_policy() -> None:
    """In 210 steps at the paper's learning rate."""
    told = plan("train_grpo_s.sh")
    assert told["estimator"] == "grpo_s"
    assert told["steps"] == "210 at most"
    assert told["updates"] == "4 a step, of 512 responses"
    assert told.get("--actor.adam.lr", "1e-06") == "1e-06"
    assert told.get("--actor.lr_warmup_ratio", "0.03") == "0.03"
    assert told["--actor.lr_scheduler"] == "constant_with_warmup"
    assert told["a step"] == "128 prompts x 16 responses = 2,048"
    assert told["lengths"] == "up to 6,144 tokens, 4,096 of them a response's"
    assert told["training"] == "8 GPU(s), ZeRO stage 3, bf16"
    assert told["generation"] == "8 engine(s) of 1 GPU(s), 256 responses at once in each", "2,048 on 8"
    assert told["--actor.model_name_or_path"] == "Qwen/Qwen2.5-7B"
    assert told["--actor.eps_clip_low_high"] == "0.2 0.28"
    assert told["--algo.kl.init_coef"] == "0.0"
    assert " fit: more GPUs" not in told.get("warning", ""), "this disk may be too small for its checkpoints"


def test_eight_nodes_train_the_32b_policy_and_flags_of_ones_own_win() -> None:
    told = plan("train_gtpo.sh", "--actor.adam.lr", "2e-6", SIZE="32b", REWARD_URL="http://rewards:8000")
    assert told["training"] == "64 GPU(s), ZeRO stage 3, bf16"
    assert told["generation"].startswith("16 engine(s) of 4 GPU(s), ")
    assert told["--actor.model_name_or_path"] == "Qwen/Qwen2.5-32B"
    assert told["rewards"] == "http://rewards:8000"
    assert told["--actor.adam.lr"] == "2e-06"


def test_dapo_draws_twice_a_steps_prompts_at_once_for_those_that_it_filters() -> None:
    told = plan("train_dapo.sh")
    assert told["a step"] == "128 prompts x 16 responses = 2,048"
    assert told["--rollout.over_sampling_batch_size"] == "256"
    assert told["generation"] == "8 engine(s) of 1 GPU(s), 512 responses at once in each", "4,096 on 8"
    assert "--rollout.over_sampling_batch_size" not in plan("train_gtpo.sh")
    small = plan("train_one_gpu.sh", PRESET="dapo", GPU_GB="24")
    assert small["a step"] == "64 prompts x 8 responses = 512"
    assert small["--rollout.over_sampling_batch_size"] == "128"


def test_the_larger_model_fits_what_a_card_of_24_gb_has() -> None:
    """Which is 22.5 GiB, beside an engine that sleeps."""
    for task in ("gsm8k", "math"):
        told = plan("train_one_gpu.sh", SIZE="1.5b", GPU_GB="24", TASK=task)
        needed = re.match(r"at most ([\d.]+) GiB", told["memory"])
        assert needed
        assert float(needed[1]) < 0.9 * 22.5


@pytest.mark.parametrize(
    ("environment", "policy"),
    [
        ({"GPU_GB": "24"}, "Qwen/Qwen2.5-0.5B-Instruct"),
        ({"GPU_GB": "48", "TASK": "math"}, "Qwen/Qwen2.5-1.5B-Instruct"),
    ],
)
def test_one_gpu_is_given_what_fits_it(environment: dict[str, str], policy: str) -> None:
    told = plan("train_one_gpu.sh", **environment)
    assert told["--actor.model_name_or_path"] == policy
    assert told["training"].startswith("1 GPU(s), ZeRO stage 2")
    assert told["generation"].startswith("1 engine(s) of 1 GPU(s)")
    needed = re.match(r"at most ([\d.]+) GiB of a GPU's ([\d.]+)", told["memory"])
    assert needed
    assert float(needed[1]) < 0.95 * float(needed[2])
    assert " fit: more GPUs" not in told.get("warning", "")


REFUSED = [
    ("train_one_gpu.sh", {"GPU_GB": "16"}, "GPU_GB", "16", "24 GiB"),
    ("train_one_gpu.sh", {"GPU_GB": "large"}, "GPU_GB", "large"),
    ("train_one_gpu.sh", {"GPU_GB": "24", "SIZE": "7b"}, "SIZE", "7b", "0.5b or 1.5b"),
    ("train_one_gpu.sh", {"GPU_GB": "24", "TASK": "chess"}, "TASK", "chess", "gsm8k or math"),
    ("train_one_gpu.sh", {"GPU_GB": "24", "STEPS": "0"}, "STEPS", "0"),
    ("train_one_gpu.sh", {}, "nvidia-smi", "GPU_GB=24"),
    ("train_gtpo.sh", {"SIZE": "70b"}, "SIZE", "70b", "7b or 32b"),
    ("train_gtpo.sh", {"SIZE": "32b", "NODES": "1", "GPUS": "6"}, "1 x 6 GPUs", "NODES or GPUS"),
    ("train_gtpo.sh", {"GPU_GB": "much"}, "GPU_GB", "much"),
    ("train_gtpo.sh", {"NODES": "2"}, "2 nodes", "`math-reward serve`"),
]


@pytest.mark.parametrize(
    ("script", "environment", "named"), [(script, where, named) for script, where, *named in REFUSED]
)
def test_what_cannot_be_is_refused_before_python_starts(
    script: str, environment: dict[str, str], named: list[str], tmp_path: Path
) -> None:
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    result = run(script, PATH=f"{tmp_path}:/usr/bin:/bin", **environment)
    assert result.returncode == 2
    assert_refusal(result.stderr, "launch/", *named)
    assert result.stdout == ""
