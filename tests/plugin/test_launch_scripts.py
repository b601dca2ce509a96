"""The scripts for GPUs: their flags are taken, their variables reach them, their plan is the paper's, and what they
leave to memory is sized by `checks.room`."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from openrlhf_gtpo.checks import room

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
    rows += [line.strip().split(" ", 1) for line in flags.splitlines()]
    return {name.strip(): " ".join(value).strip() for name, *value in rows}


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


SEVEN = ("Qwen/Qwen2.5-7B", "--ds.zero_stage=3", "--data.max_len=6144", "--actor.num_gpus_per_node")
SMALL = ("--ds.zero_stage=2", "--data.max_len=1536", "--actor.num_gpus_per_node", "1")
HALF, LARGER = (("Qwen/Qwen2.5-0.5B", *SMALL), ("Qwen/Qwen2.5-1.5B", *SMALL))
FITTED = [
    # GiB of the larger micro-batches and of those that are taken, beside which 2 stay free. A logit has 10 bytes in
    # training and 6 in log-probabilities, a layer's input 2; an engine that sleeps and CUDA take 2 each.
    ("80", (*SEVEN, "8"), "16384 32768 --ds.enable_sleep 0.8 8"),  # 52.9
    ("40", (*SEVEN, "8"), "8192 12288 --ds.enable_sleep 0.8 8"),  # 52.9, 35.1
    ("80", (*SEVEN, "4"), "16384 32768 --ds.enable_sleep 0.8 4"),  # 68.9
    ("80", (*SEVEN, "2"), "16384 32768 --ds.adam_offload 0.6 2"),  # 79.7 at least; 100.8 without 42.6 of Adam
    ("80", (*SEVEN, "4", "--ds.adam_offload"), "16384 32768 --ds.adam_offload 0.6 4"),  # as the command line says
    ("80", LARGER, "16384 32768 --ds.enable_sleep 0.75 1"),  # 61.9
    ("48", LARGER, "8192 12288 --ds.enable_sleep 0.75 1"),  # 61.9, 45.0
    ("46", LARGER, "4096 8192 --ds.enable_sleep 0.75 1"),  # 45.0, 40.1
    ("40", LARGER, "2048 4096 --ds.enable_sleep 0.75 1"),  # 40.1, 36.4
    ("24", LARGER, "2048 4096 --ds.adam_offload 0.6 1"),  # 36.4; without Adam's state 22.8, 19.1
    ("32", HALF, "8192 12288 --ds.enable_sleep 0.75 1"),  # 41.7, 25.1
    ("24", HALF, "4096 8192 --ds.enable_sleep 0.75 1"),  # 25.1, 20.3
    ("16", HALF, "2048 4096 --ds.adam_offload 0.6 1"),  # 16.8; without Adam's state 14.8, 11.3
    ("4", HALF, "2048 4096 --ds.adam_offload 0.6 1"),  # nothing fits: the check of a command line says so
]


@pytest.mark.parametrize(("gigabytes", "words", "expected"), FITTED)
def test_micro_batches_are_the_largest_that_the_gpu_has_room_for(
    gigabytes: str,
    words: tuple[str, ...],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And Adam's state goes to the node's memory where none has room."""
    monkeypatch.setenv("GPU_GB", gigabytes)
    shared = ["--train.colocate_all", "--vllm.enable_sleep", "--train.dynamic_batch_enable"]
    known = [*shared, "--actor.gradient_checkpointing_enable", *words[1:]]
    for model in (words[0], "nobody/unknown"):  # which is taken to be as large
        assert room.main([words[0], "--actor.model_name_or_path", model, *known]) == 0
        train, rollout, policy, share, engines = expected.split()
        assert capsys.readouterr().out.split() == [
            f"--train.max_tokens_per_gpu={train}",
            f"--rollout.max_tokens_per_gpu={rollout}",
            policy,
            f"--vllm.gpu_memory_utilization={share}",
            f"--vllm.num_engines={engines}",
        ]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"GPU_GB": "24"}, "Qwen/Qwen2.5-0.5B-Instruct 4096 0.75 1536"),
        ({"GPU_GB": "24", "SIZE": "1.5b", "TASK": "math"}, "Qwen/Qwen2.5-1.5B-Instruct 2048 0.6 3072"),
        ({"GPU_GB": "48", "TASK": "math", "PRESET": "grpo_s"}, "Qwen/Qwen2.5-1.5B-Instruct 8192 0.75 3072"),
        ({"MODEL": "nobody/other", "STEPS": "7"}, "nobody/other 16384 0.75 1536"),
    ],
)
def test_one_gpu_is_given_what_fits_it(environment: dict[str, str], expected: str) -> None:
    """The larger model where its optimizer is on the GPU too, or where it is asked for."""
    told = plan("train_one_gpu.sh", **environment)
    names = ["actor.model_name_or_path", "train.max_tokens_per_gpu", "vllm.gpu_memory_utilization", "data.max_len"]
    assert " ".join(told[f"--{name}"] for name in names) == expected
    assert told["training"].startswith("1 GPU(s), ZeRO stage 2")
    assert told["generation"].startswith("1 engine(s) of 1 GPU(s)")
    assert told["--train.max_steps"] == environment.get("STEPS", "100")
    assert ("--algo.advantage.is_correction_level" in told) == ("PRESET" not in environment)
    assert ("--ds.adam_offload" in told) == ("--ds.enable_sleep" not in told) == ("SIZE" in environment)
    assert " fit: more GPUs" not in told.get("warning", "")


def test_the_variables_of_a_cluster_reach_the_run(tmp_path: Path) -> None:
    """And flags behind the script's name are sized too. A cluster of CPUs has no micro-batches of tokens."""
    (tmp_path / "data.jsonl").write_text('{"question": "1 + 1 =", "answer": "2"}\n' * 64)
    named = {"MODEL": "nobody/other", "DATA": str(tmp_path / "data.jsonl"), "OUT": str(tmp_path), "STEPS": "9"}
    named |= {"INPUT_KEY": "question", "LABEL_KEY": "answer", "NODES": "2", "GPUS": "4", "REWARD_URL": "http://r:1"}
    told = plan("train_gtpo.sh", "--data.max_len=40000", **named)
    assert told["training"] == "8 GPU(s), ZeRO stage 3, bf16"
    assert told["--vllm.num_engines"] == "8"
    assert "--ds.adam_offload" in told, "whose logits take 57 of 80 GiB"
    assert (told["--actor.model_name_or_path"], told["--data.input_key"]) == ("nobody/other", "question")
    assert (told["--data.label_key"], told["steps"]) == ("answer", "9 at most")
    assert (told["--ckpt.path"], told["rewards"]) == (f"{tmp_path}/state", "http://r:1")
    cpu = plan("train_dapo.sh", DEVICE="cpu", GPUS="2", MODEL="nobody/other")
    assert cpu["generation"] == "2 engine(s) of 1 process(s), 128 responses at once in each"
    assert (cpu["--rollout.over_sampling_batch_size"], cpu["--reward.overlong_buffer_len"]) == ("32", "10.0")
    assert not {"--train.colocate_all", "--train.max_tokens_per_gpu", "--ds.enable_sleep"} & {*cpu}


REFUSED = [
    ("train_one_gpu.sh", {"GPU_GB": "large"}, "GPU_GB", "large"),
    ("train_one_gpu.sh", {"SIZE": "7b"}, "launch/train_one_gpu.sh", "SIZE", "7b", "0.5b or 1.5b"),
    ("train_one_gpu.sh", {"TASK": "chess"}, "launch/train_one_gpu.sh", "TASK", "chess", "gsm8k or math"),
    ("train_one_gpu.sh", {"STEPS": "0"}, "launch/train_one_gpu.sh", "STEPS", "0"),
    ("train_gtpo.sh", {"SIZE": "70b"}, "launch/train_cluster.sh", "SIZE", "70b", "7b or 32b"),
    ("train_gtpo.sh", {"SIZE": "32b", "NODES": "1", "GPUS": "6"}, "1 x 6 GPUs", "NODES or GPUS"),
    ("train_gtpo.sh", {"GPU_GB": "-8"}, "GPU_GB", "-8"),
    ("train_gtpo.sh", {"DEVICE": "tpu"}, "--device", "tpu"),
    ("train_gtpo.sh", {"NODES": "2"}, "launch/train_cluster.sh", "2 nodes", "`math-reward serve`"),
]


@pytest.mark.parametrize(
    ("script", "environment", "named"), [(script, where, named) for script, where, *named in REFUSED]
)
def test_what_cannot_be_is_refused_before_a_plan(script: str, environment: dict[str, str], named: list[str]) -> None:
    result = run(script, **environment)
    assert result.returncode == 2
    assert_refusal(result.stderr, *named)
    assert "estimator" not in result.stdout


def test_help_is_the_trainings_and_a_wrong_flag_is_refused_once() -> None:
    helped = run("train_gtpo.sh", "--help")
    assert (helped.returncode, helped.stdout.count("usage:")) == (0, 1)
    wrong = run("train_gtpo.sh", "--shaping.alpha", "1")
    assert (wrong.returncode, wrong.stderr.count("--shaping.alpha:")) == (2, 1)
