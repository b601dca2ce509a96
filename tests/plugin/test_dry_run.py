"""The plan's figures against DeepSpeed's own estimate, and on real sizes of models."""

from collections.abc import Callable
from typing import Any

import pytest

from openrlhf_gtpo import dry_run, model_size
from openrlhf_gtpo.checks import Finding, room

from ..refusals import assert_refusal

Parse = Callable[..., dict[str, Any]]


def test_the_models_of_the_scripts_have_the_parameters_of_their_cards() -> None:
    for name, billions in (("0.5B", 0.494), ("1.5B", 1.544), ("7B", 7.616), ("32B", 32.764)):
        size = model_size.size_of(f"Qwen/Qwen2.5-{name}")
        assert size is not None
        assert size.parameters / 1e9 == pytest.approx(billions, abs=0.001)
        assert model_size.size_of(f"nobody/Qwen2.5-{name}-Instruct") == size
    assert model_size.size_of("nobody/other") is None


@pytest.mark.parametrize(("name", "ranks"), [("Qwen2.5-0.5B", 1), ("Qwen2.5-7B", 8), ("Qwen2.5-32B", 64)])
@pytest.mark.parametrize("stage", [2, 3])
def test_memory_of_training_is_deepspeeds_own_estimate(name: str, ranks: int, stage: int) -> None:
    from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs as zero3
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs as zero2

    size = model_size.size_of(name)
    assert size is not None
    nodes = {"num_gpus_per_node": min(ranks, 8), "num_nodes": -(-ranks // 8), "cpu_offload": False}
    if stage == 3:
        largest = model_size.QWEN[name][5] * model_size.QWEN[name][0]  # the embedding
        theirs = zero3(size.parameters, largest, **nodes, cpu_offload_params=False, zero_init=True)[1]
    else:
        theirs = zero2(size.parameters, **nodes)[1]
    assert room.training_bytes(size, stage, ranks) == pytest.approx(theirs, rel=0.2)


def of_seven_billion(parse: Parse, *words: str) -> dict[str, Any]:
    """Flags of Qwen2.5-7B on eight GPUs."""
    flags = {
        **parse("--actor.model_name_or_path=Qwen/Qwen2.5-7B", "--data.prompt_dataset=none", *words),
        "device": "gpu",
    }
    flags |= {
        name: value for name, value in (("vllm.num_engines", 8), ("actor.num_gpus_per_node", 8)) if flags[name] is None
    }
    flags["ds.param_dtype"] = "bf16"
    return flags


def found(parse: Parse, *words: str) -> dict[str, Finding]:
    """What training and a dry run find of memory and disk."""
    return {one.check: one for one in reversed([*room.check(of_seven_billion(parse, *words))])}


COLOCATED = ["--ds.zero_stage=3", "--data.max_len=6144", "--train.colocate_all", "--vllm.enable_sleep"]


@pytest.mark.parametrize(
    ("gpu", "words", "state"),
    [
        ("80", ["--train.micro_batch_size=1", "--rollout.micro_batch_size=1"], "ok"),
        ("80", ["--train.micro_batch_size=8", "--rollout.micro_batch_size=1"], "warning"),
        ("80", ["--train.micro_batch_size=1", "--rollout.micro_batch_size=16"], "warning"),
        ("80", ["--train.dynamic_batch_enable", "--train.max_tokens_per_gpu=16384"], "ok"),
        ("80", ["--train.dynamic_batch_enable", "--train.max_tokens_per_gpu=65536"], "warning"),
        ("80", ["--train.dynamic_batch_enable", "--rollout.max_tokens_per_gpu=131072"], "warning"),
        ("16", ["--train.micro_batch_size=1", "--rollout.micro_batch_size=1"], "fault"),
    ],
)
def test_memory_is_that_of_the_largest_micro_batch_and_states_that_do_not_fit_are_refused(
    parse: Parse, monkeypatch: pytest.MonkeyPatch, gpu: str, words: list[str], state: str
) -> None:
    monkeypatch.setenv("GPU_GB", gpu)
    memory = found(parse, *COLOCATED, "--vllm.gpu_memory_utilization=0.8", *words)["memory"]
    assert memory.state == state, memory
    assert f"of a GPU's {gpu}.0" in memory.sentence


def test_memory_of_a_micro_batch_of_tokens_is_what_was_computed_by_hand(parse: Parse, monkeypatch: Any) -> None:
    monkeypatch.setenv("GPU_GB", "80")
    words = ["--train.dynamic_batch_enable", "--train.max_tokens_per_gpu=16384", "--rollout.max_tokens_per_gpu=32768"]
    # 4 x 545 M + 18 x 7,616 M / 8 bytes; 6 x 32,768 x 152,064 bytes, more than 10 x 16,384 x 152,064; 28 layers of
    # 3,584 numbers in two bytes for each of 16,384 tokens
    planned = dry_run.plan(of_seven_billion(parse, *COLOCATED, *words, "--actor.gradient_checkpointing_enable"))
    assert "18.0 weights, gradients and optimizer, 27.8 logits, 3.1 inputs of layers, 2.0 an engine" in planned
    assert "at most 52.9 GiB of a GPU's 80.0" in planned
    without = dry_run.plan(of_seven_billion(parse, *COLOCATED, *words))
    assert "27.8 logits, and what its layers keep" in without, "which is not bounded"
    assert "at most" not in without.partition("memory")[2].partition("\n")[0]


def test_a_sleeping_engine_keeps_a_part_of_the_gpu(parse: Parse, monkeypatch: Any) -> None:
    words = ["--train.dynamic_batch_enable", "--train.max_tokens_per_gpu=16384", "--rollout.max_tokens_per_gpu=32768"]
    states = {}
    for gpu in ("47", "49"):  # 47.8 GiB alone, 49.8 beside an engine
        monkeypatch.setenv("GPU_GB", gpu)
        alone = [word for word in COLOCATED if "colocate" not in word]
        states[gpu] = [found(parse, *flags, *words)["memory"].state for flags in (alone, COLOCATED)]
    assert states == {"47": ["warning", "warning"], "49": ["ok", "warning"]}


PINNED = [
    # Of an engine, in MiB: 28 x 32 for query, key and value (31.5 and more), 28 x 32 for their output (24.5), 28 x 512
    # for gate and up (259), 28 x 256 for down (129.5), 2 x 2,048 for embedding and head (1,039.5), 2 for the small.
    # Of a rank, in GiB: 3 x 4 (3.5 each), and 2 for gradients (1.8).
    (["--vllm.enable_sleep", "--ds.enable_sleep"], "326 GiB of its memory: 214 weights of engines, 112 optimizer"),
    (["--vllm.enable_sleep"], "214 GiB of its memory: 214 weights of engines, 0 optimizer"),
    # Of one rank, in GiB: 3 x 7 x 4 for buffers of 10^9 parameters, 3 x 4 for the rest (2.3), and 16 for gradients.
    (
        ["--ds.enable_sleep", "--actor.num_gpus_per_node=1"],
        "112 GiB of its memory: 0 weights of engines, 112 optimizer",
    ),
    # Eight bytes a parameter for the moments, and 2 x 4 GiB of a rank's share: 7.1 + 8 each.
    (["--ds.adam_offload"], "121 GiB of its memory: 0 weights of engines, 121 optimizer"),
]


@pytest.mark.parametrize(("words", "expected"), PINNED)
def test_what_sleeps_is_pinned_in_blocks_of_powers_of_two(parse: Parse, words: list[str], expected: str) -> None:
    colocated = [word for word in COLOCATED if "sleep" not in word]
    assert f"a node pins about {expected}" in dry_run.plan(of_seven_billion(parse, *colocated, *words))


def test_two_nodes_share_the_engines_and_a_run_without_sleep_pins_nothing(parse: Parse) -> None:
    two = ["--actor.num_nodes=2", "--actor.num_gpus_per_node=4", "--vllm.enable_sleep"]
    assert "a node pins about 107 GiB" in dry_run.plan(of_seven_billion(parse, *two))
    assert "a node pins" not in dry_run.plan(of_seven_billion(parse, "--ds.zero_stage=3"))


def test_a_node_with_too_little_memory_for_sleep_is_told_and_one_without_a_gpu_is_not_judged(
    parse: Parse, monkeypatch: Any
) -> None:
    words = [*COLOCATED, "--ds.enable_sleep", "--vllm.enable_sleep"]
    assert "memory of the node" not in found(parse, *words)
    for has, state in ((330, "warning"), (400, "ok")):
        monkeypatch.setattr(room, "node_bytes", lambda has=has: has * 2.0**30)
        told = found(parse, *words)["memory of the node"]
        assert told.state == state
        assert_refusal(told.sentence, "326 GiB", str(has))


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/slurm/job_7", {"slurm/job_7/memory.max": "max", "slurm/memory.max": "500"}, [500]),
        ("0::/", {"memory.max": "700"}, [700]),
        ("0::/a", {"a/memory.max": "70", "memory.max": "900"}, [70, 900]),
        ("3:cpu,memory:/docker/1\n2:pids:/docker/1", {"memory/docker/1/memory.limit_in_bytes": "33"}, [33]),
        ("2:pids:/docker/1", {"memory/docker/1/memory.limit_in_bytes": "33"}, []),
        ("0::/../outside", {"memory.max": "12"}, [12]),
    ],
)
def test_the_limit_of_a_job_or_a_container_is_found(
    tmp_path: Any, monkeypatch: Any, groups: str, files: dict[str, str], expected: list[int]
) -> None:
    monkeypatch.setattr(room, "CGROUPS", tmp_path / "cgroup")
    for name, text in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    own = tmp_path / "own"
    own.write_text(f"{groups}\n")
    assert sorted(room.limits_of_cgroups(own)) == expected
    assert list(room.limits_of_cgroups(tmp_path / "none")) == [], "not Linux"


def test_checkpoints_are_refused_where_the_disk_has_no_room_for_them_and_those_that_are_there_make_room(
    parse: Parse, tmp_path: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(room, "free_bytes", lambda folder: 50e9)
    words = ["--ckpt.save_steps=10", f"--ckpt.path={tmp_path}", "--ckpt.max_num=1"]
    assert "1 checkpoint(s) of 106.6, 152 s each" in dry_run.plan(of_seven_billion(parse, *words))
    disk = found(parse, *words)["checkpoints"]
    assert disk.state == "fault"
    assert_refusal(disk.sentence, "106.6 GB", str(tmp_path), "--ckpt.max_num")
    assert "checkpoints" not in found(parse, *words, "--ckpt.save_steps=-1")
    (tmp_path / "_actor" / "global_step10").mkdir(parents=True)
    with (tmp_path / "_actor" / "global_step10" / "weights.pt").open("wb") as file:
        file.truncate(57 * 10**9)  # sparse
    assert found(parse, *words)["checkpoints"].state == "ok"
