"""The doctor's word on memory: what fits, what cannot, and what it needs to know."""

import json
from pathlib import Path

import pytest

from openrlhf_gtpo.doctor.room import check_memory, check_positions


def test_seven_billion_parameters_fit_on_eight_gpus_of_80_gib(monkeypatch: pytest.MonkeyPatch) -> None:
    """7,615,616,512 x 20 / 8 bytes, 1e9 parameters gathered, 6,144 tokens with 10 bytes for each of 152,064 logits,
    their activations and 2 GiB."""
    monkeypatch.setenv("GPU_GB", "80")
    found = check_memory("Qwen/Qwen2.5-7B", "gpu", 8, 6144)
    assert found.state == "ok", found.sentence
    activations = 6144 * (2 * 3584 * 28 + 2 * (8 * 3584 + 2 * 512 + 4 * 18944))
    wanted = (7_615_616_512 * 20 / 8 + 2e9 + 6144 * 152_064 * 10 + activations) / 2**30 + 2
    assert found.sentence.startswith(f"Qwen/Qwen2.5-7B takes at most {wanted:.1f} GiB of 80.0 on each of 8 GPUs")


def test_what_cannot_fit_is_a_warning_with_what_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_GB", "24")
    found = check_memory("Qwen/Qwen2.5-7B", "gpu", 1, 6144)
    assert found.state == "warning"
    assert found.sentence.startswith("Weights, gradients and optimizer take 141.9 GiB of a GPU that has 24.0: ")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("Qwen/Qwen2.5-7B", "cpu", None, 6144), "Not checked: it is about GPUs."),
        ((None, "gpu", 8, None), "Not checked: give --model and --max_len."),
        (("nobody/has-this", "gpu", 8, 6144), "Not checked: nobody/has-this has no config.json here, or is"),
    ],
)
def test_what_is_not_known_is_asked_for(arguments: tuple[str | None, str, int | None, int], sentence: str) -> None:
    found = check_memory(*arguments)
    assert found.state == "skipped"
    assert found.sentence.startswith(sentence)


def test_a_model_needs_a_position_for_each_token(tiny_model: Path) -> None:
    most = json.loads((tiny_model / "config.json").read_text())["max_position_embeddings"]
    assert check_positions(str(tiny_model), most).state == "ok"
    found = check_positions(str(tiny_model), most + 1)
    assert found.state == "fault"
    assert found.sentence == (
        f"--max_len is {most + 1:,}, but the model {tiny_model} has {most:,} positions (max_position_embeddings in "
        f"its config.json): give at most {most}, or a model with more."
    )
    assert check_positions(str(tiny_model), None).sentence == "Not checked: give --max_len."
    assert check_positions("nobody/has-this", 10).state == "skipped"
