"""The plan's figures against DeepSpeed's own estimate, and on real sizes of models."""

from collections.abc import Callable
from typing import Any

import pytest

from openrlhf_gtpo import dry_run, model_size
from openrlhf_gtpo.errors import SettingsError

from ..refusals import assert_refusal

Parse = Callable[..., dict[str, Any]]


@pytest.mark.parametrize(("name", "billions"), [("0.5B", 0.494), ("1.5B", 1.544), ("7B", 7.616), ("32B", 32.764)])
def test_the_models_of_the_scripts_have_the_parameters_of_their_cards(name: str, billions: float) -> None:
    size = model_size.size_of(f"Qwen/Qwen2.5-{name}")
    assert size is not None
    assert size.parameters / 1e9 == pytest.approx(billions, abs=0.001)
    assert model_size.size_of(f"nobody/Qwen2.5-{name}-Instruct") == size
    assert model_size.size_of("nobody/other") is None


@pytest.mark.parametrize("name", ["Qwen2.5-0.5B", "Qwen2.5-7B", "Qwen2.5-32B"])
@pytest.mark.parametrize("ranks", [1, 8, 64])
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
    assert dry_run.training_bytes(size, stage, ranks) == pytest.approx(theirs, rel=0.2)


def rows(parse: Parse, *words: str) -> dict[str, str]:
    flags = {
        **parse("--actor.model_name_or_path=Qwen/Qwen2.5-7B", "--data.prompt_dataset=none", *words),
        "device": "gpu",
    }
    flags |= {
        name: value for name, value in (("vllm.num_engines", 8), ("actor.num_gpus_per_node", 8)) if flags[name] is None
    }
    flags["ds.param_dtype"] = "bf16"
    return {line[:12].strip(): line[12:].strip() for line in dry_run.plan(flags).split("\n\n")[0].splitlines()}


def test_what_does_not_fit_is_a_warning(parse: Parse, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--ds.zero_stage=3", "--train.micro_batch_size=1", "--rollout.micro_batch_size=1", "--data.max_len=6144"]
    monkeypatch.setenv("GPU_GB", "80")
    fits = rows(parse, *words)
    assert "warning" not in fits
    assert "of a GPU's 80.0" in fits["memory"]
    monkeypatch.setenv("GPU_GB", "16")
    assert (
        "training may not fit" in rows(parse, *words)["warning"]
        or "no response fits" in rows(parse, *words)["warning"]
    )


@pytest.mark.parametrize("size", ["large", "0", "-8", "nan"])
def test_a_memory_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch, size: str) -> None:
    monkeypatch.setenv("GPU_GB", size)
    with pytest.raises(SettingsError) as refused:
        dry_run.gpu_bytes()
    assert_refusal(str(refused.value), "GPU_GB", size)


def test_a_checkpoint_that_the_disk_has_no_room_for_is_a_warning(parse: Parse) -> None:
    said = rows(parse, "--ckpt.save_steps=10", "--ckpt.max_num=1000000")
    assert "107 GB" not in said["disk"]
    assert "1000000 checkpoint(s) of 106.6" in said["disk"]
    assert "do not fit" in said["warning"]
