"""The scripts for clusters: every flag is one of OpenRLHF's or ours, and the plan is the paper's."""

import atexit
import functools
import math
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from openrlhf_gtpo.cpu.zygote import PRELOADED
from openrlhf_gtpo.train import prepare

from .zygote_driver import Driver

LAUNCH = Path(__file__).parents[2] / "launch"


@functools.cache
def python() -> str:
    """One that has what takes each dry run seconds to import."""
    driver = Driver(*PRELOADED)
    atexit.register(driver.stop)
    return driver.python


@functools.cache
def data() -> str:
    """A row of prompts and references; the scripts' own default is made by `openrlhf-gtpo data prepare`."""
    folder = tempfile.TemporaryDirectory(prefix="launch_scripts_")
    atexit.register(folder.cleanup)
    path = Path(folder.name) / "train.jsonl"
    path.write_text('{"input": "1 + 1 =", "label": "2"}\n')
    return str(path)


def run(script: str, *flags: str, **environment: str) -> subprocess.CompletedProcess[str]:
    names = [
        "PRESET",
        "SIZE",
        "MODEL",
        "DATA",
        "INPUT_KEY",
        "LABEL_KEY",
        "NODES",
        "GPUS",
        "GPU_GB",
        "GPU_KIND",
        "REWARD_URL",
    ]
    names += ["GPU_KIND", "OUT", "TASK", "STEPS"]
    kept = {name: value for name, value in os.environ.items() if name not in names}
    return subprocess.run(
        ["bash", str(LAUNCH / script), *flags],
        # As on a machine that asks the hub: what it has under a name is not looked up.
        env={**kept, "PYTHON": python(), "DATA": data(), "HF_HUB_OFFLINE": "0", **environment},
        capture_output=True,
        text=True,
        timeout=200,
    )


def plan(*args: str, **environment: str) -> dict[str, str]:
    result = run(*args, "--dry-run", **environment)
    assert result.returncode == 0, result.stderr[-2000:]
    return as_rows(result.stdout)


def as_rows(told: str) -> dict[str, str]:
    rows = (line.split("  ", 1) for line in told.splitlines() if "  " in line)
    return {name.strip(): value.strip() for name, value in rows}


def test_a_node_of_eight_gpus_trains_the_papers_7b_policy() -> None:
    told = plan("train_grpo_s.sh")
    assert told["preset"] == "grpo_s", "nothing of the preset is overridden"
    assert told["clip"] == "0.2 below, 0.28 above"
    assert told["KL"] == "none"
    assert told["rollout"] == "128 prompts x 16 responses = 2,048 a step"
    assert told["lengths"] == "up to 6,144 tokens in all, 4,096 of them a response's"
    assert told["training"] == "8 GPU(s), ZeRO stage 3"
    assert told["generation"] == "8 engine(s) of 1 GPU(s)"
    assert told["at once"] == "256 responses in each engine", "2,048 on 8"
    assert told["policy"] == "Qwen/Qwen2.5-7B"


def test_the_plan_has_the_hours_of_the_papers_run_and_its_cost() -> None:
    """As docs/training.md has them."""
    told = plan("train_gtpo.sh", "--price", "2.5")
    assert told["hours"].startswith("9.4 likely, 4.0 to 29.8, for 210 steps on 8 x H100: 47% of it writing, ")
    assert told["cost"] == "188 likely, 81 to 596, at 2.5 a GPU-hour"
    result = run("train_gtpo.sh", "--dry-run", GPU_KIND="T800")
    assert result.returncode == 2
    assert "GPU_KIND is T800, but what is known is H100, H200, " in result.stderr


@pytest.mark.parametrize("preset", ["gtpo", "grpo_s", "dapo"])
def test_the_preset_alone_plans_the_run_that_the_script_plans(
    preset: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Prompts, updates, lengths, steps and learning rate; and what is learned."""
    needed = {"actor.model_name_or_path": "Qwen/Qwen2.5-7B", "data.prompt_dataset": data(), "data.label_key": "label"}
    needed |= {"vllm.num_engines": "8", "vllm.tensor_parallel_size": "1", "ckpt.output_dir": str(tmp_path)}
    words = [word for name, value in needed.items() for word in (f"--{name}", value)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "0")
        prepare(["--preset", preset, "--device", "gpu", "--dry-run", *words])
    told = as_rows(capsys.readouterr().out)
    script = plan(f"train_{preset}.sh")
    for row in ("preset", "estimator", "clip", "KL", "besides", "rollout", "updates", "steps", "warm-up", "lengths"):
        assert told[row] == script[row], row
    assert told["learning rate"] == script["learning rate"]


def test_the_plan_says_what_fits_and_a_smaller_gpu_takes_fewer_responses_at_once() -> None:
    told = plan("train_gtpo.sh")
    assert told["memory"].startswith(
        "at most 73.0 GiB of a GPU's 80.0 for training: 1.8 weights, 1.8 gradients, 14.2 "
    )
    assert told["prefill"] == "each prompt once, since its responses share its cache"
    assert told["disk"].startswith("320 GB in "), "3 x 14 bytes x 7.6e9 parameters"
    assert "warning" not in told
    told = plan("train_gtpo.sh", GPU_GB="48")
    assert told["memory"].startswith("at most 47.3 GiB of a GPU's 48.0 for training: "), "4 responses at once, not 8"
    assert "warning" not in told
    told = plan("train_gtpo.sh", GPU_GB="24")
    assert told["warning"].startswith("Training takes up to 47.3 GiB of a GPU that has 24.0: ")


def test_eight_nodes_train_the_32b_policy_and_flags_of_ones_own_win() -> None:
    told = plan("train_gtpo.sh", "--actor.adam.lr", "2e-6", SIZE="32b", REWARD_URL="http://rewards:8000")
    assert told["training"] == "64 GPU(s), ZeRO stage 3"
    assert told["generation"] == "16 engine(s) of 4 GPU(s)"
    assert told["policy"] == "Qwen/Qwen2.5-32B"
    assert told["rewards"] == "http://rewards:8000"
    assert told["learning rate"].startswith("2e-06, ")


@pytest.mark.parametrize(
    ("script", "environment"),
    [
        ("train_gtpo.sh", {}),
        ("train_grpo_s.sh", {}),
        ("train_dapo.sh", {}),
        ("train_gtpo.sh", {"SIZE": "32b", "REWARD_URL": "http://rewards:8000"}),
    ],
)
def test_each_script_reaches_the_papers_learning_rate_in_the_papers_210_steps(
    script: str, environment: dict[str, str]
) -> None:
    """210 steps of 2,048 responses in updates of 512 are 840 updates, of which the first 3 % warm up: 25.2, so 26.
    Step 1 ends with the fourth update, at 3/26 of the highest rate (the first has 0); step 105 with the 420th, where
    the cosine stands at (419 - 26) / (840 - 26) of its way from 1e-6 to a tenth of it."""
    told = plan(script, **environment)
    assert told["steps"] == "210 at most, in which 840 updates"
    assert told["warm-up"] == "26 updates"
    middle = 1e-6 * (0.1 + 0.9 * (1 + math.cos(math.pi * (419 - 26) / (840 - 26))) / 2)
    assert told["learning rate"] == (
        f"1e-06, cosine_with_min_lr: 1.15e-07 in step 1, {middle:.3g} in step 105, 1e-07 in step 210"
    )


@pytest.mark.parametrize(
    ("environment", "policy", "at_once"),
    [
        (
            {"GPU_GB": "24"},
            "Qwen/Qwen2.5-0.5B-Instruct",
            "from 2 responses at once, or 5.5 for log-probabilities of 4",
        ),
        ({"GPU_GB": "24", "SIZE": "1.5b", "TASK": "math"}, "Qwen/Qwen2.5-1.5B-Instruct", "from 1 responses at once"),
        ({"GPU_GB": "48", "TASK": "math"}, "Qwen/Qwen2.5-1.5B-Instruct", "from 2 responses at once"),
        ({"GPU_GB": "80"}, "Qwen/Qwen2.5-1.5B-Instruct", "from 8 responses at once"),
    ],
)
def test_one_gpu_is_given_what_fits_it(environment: dict[str, str], policy: str, at_once: str) -> None:
    result = run("train_one_gpu.sh", "--dry-run", **environment)
    assert result.returncode == 0, result.stderr[-2000:]
    assert re.search(rf"^policy +{policy}$", result.stdout, re.MULTILINE)
    assert at_once in result.stdout
    assert re.search(r"^training +1 GPU\(s\), ZeRO stage 2$", result.stdout, re.MULTILINE)
    assert re.search(r"^generation +1 engine\(s\) of 1 GPU\(s\)$", result.stdout, re.MULTILINE)
    needed = re.search(r"^memory +at most ([\d.]+) GiB of a GPU's ([\d.]+)", result.stdout, re.MULTILINE)
    assert needed
    assert float(needed[1]) < 0.95 * float(needed[2])
    assert "warning" not in result.stdout


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"GPU_GB": "16"}, "GPU_GB is 16, but the smallest supported GPU has 24 GiB."),
        ({"GPU_GB": "large"}, "GPU_GB is large, but needs to be the memory of the GPU in GiB, a whole number."),
        ({"GPU_GB": "24", "SIZE": "7b"}, "SIZE is 7b, but needs to be 0.5b or 1.5b."),
        ({"GPU_GB": "24", "TASK": "chess"}, "TASK is chess, but needs to be gsm8k or math."),
        ({"GPU_GB": "24", "STEPS": "0"}, "STEPS is 0, but needs to be a whole number from 1 up."),
        ({}, "nvidia-smi finds no GPU: set GPU_GB to the memory of the GPU in GiB, such as GPU_GB=24."),
    ],
)
def test_one_gpu_that_will_not_do_is_refused_in_one_sentence(
    environment: dict[str, str], sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    result = run("train_one_gpu.sh", PATH=f"{tmp_path}:/usr/bin:/bin", **environment)
    assert result.returncode == 2
    assert result.stderr == f"launch/train_one_gpu.sh: {sentence}\n"


@pytest.mark.parametrize("preset", ["gtpo", "grpo_s", "dapo"])
def test_the_scripts_differ_in_the_preset_alone(preset: str) -> None:
    text = (LAUNCH / f"train_{preset}.sh").read_text()
    assert text.splitlines()[-1] == (
        f'PRESET={preset} exec bash "$(dirname "${{BASH_SOURCE[0]}}")/train_cluster.sh" "$@"'
    )


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"SIZE": "70b"}, "SIZE is 70b, but needs to be 7b or 32b."),
        (
            {"SIZE": "32b", "NODES": "1", "GPUS": "6"},
            "1 x 6 GPUs do not divide into vLLM engines of 4: change NODES or GPUS.",
        ),
        ({"GPU_GB": "much"}, "GPU_GB is much, but needs to be the memory of a GPU in GiB, a whole number."),
        ({"NODES": "2"}, "2 nodes share a reward service: start `math-reward serve`"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence_before_python_starts(
    environment: dict[str, str], sentence: str
) -> None:
    result = run("train_gtpo.sh", **environment)
    assert result.returncode == 2
    assert sentence in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("script", ["train_gtpo.sh", "train_one_gpu.sh"])
def test_a_script_finds_the_clones_python_or_says_what_to_type(script: str, tmp_path: Path) -> None:
    shutil.copytree(LAUNCH, tmp_path / "launch")
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    environment = {"PATH": f"{other.parent}:/usr/bin:/bin", "GPU_GB": "80", "DATA": data()}
    command = ["bash", str(tmp_path / "launch" / script), "--dry-run"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert "python3 has no openrlhf-gtpo: run `bash launch/setup_gpu.sh` first" in done.stderr
    assert len(done.stderr.splitlines()) == 1

    found = tmp_path / ".venv" / "bin" / "python"
    found.parent.mkdir(parents=True)
    found.write_text('#!/bin/sh\necho "$0 $*"\n')
    found.chmod(0o755)
    environment["HOME"] = str(tmp_path)
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert str(found) in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("script", ["train_gtpo.sh", "train_grpo_s.sh", "train_dapo.sh", "train_one_gpu.sh"])
@pytest.mark.parametrize(
    ("flags", "environment", "sentence"),
    [
        ([], {"DATA": "data/nothing.jsonl"}, "--data.prompt_dataset: There is no file data/nothing.jsonl"),
        ([], {"MODEL": "/no/such/model"}, "--actor.model_name_or_path: There is no folder /no/such/model"),
        ([], {"MODEL": "nobody/nothing", "HF_HUB_OFFLINE": "1"}, "--actor.model_name_or_path: There is no folder nob"),
        (["--vllm.num_engines", "0"], {}, "--vllm.num_engines is 0, "),
        (["--train.agent_func_path", "agent.py"], {}, "--train.agent_func_path: There is no file agent.py"),
        (["--rollout.n_sample_per_prompt", "8"], {}, "There is no flag --rollout.n_sample_per_prompt: did you mean "),
    ],
)
def test_a_mistake_through_a_script_has_the_sentence_that_it_has_without(
    script: str, flags: list[str], environment: dict[str, str], sentence: str
) -> None:
    result = run(script, *flags, "--dry-run", GPU_GB="80", **environment)
    assert result.returncode == 2
    assert f"openrlhf-gtpo train: error: {sentence}" in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stderr.count(": error: ") == 1
