"""Rotary frequencies: in float32 in policy and reference, however they were loaded."""

from pathlib import Path

import pytest
import torch
from transformers import Qwen2ForCausalLM

from openrlhf_gtpo.policy.rotary import FrequenciesRounded, restore_frequencies

from ...small_models import small_qwen2
from ..ranks import run


def model(**rope: object) -> Qwen2ForCausalLM:
    rope_parameters = {"rope_theta": 10000.0, **rope}
    return small_qwen2(
        vocab_size=32, num_hidden_layers=1, max_position_embeddings=4096, rope_parameters=rope_parameters
    )


SCALED = {
    "default": {"rope_type": "default"},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024},
}


@pytest.mark.parametrize("kind", SCALED)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rounded_frequencies_are_made_anew_for_every_kind_of_scaling(kind: str, dtype: torch.dtype) -> None:
    policy = model(**SCALED[kind])
    rotary = policy.model.rotary_emb
    wanted = rotary.inv_freq.clone()
    weights = {name: value.clone() for name, value in policy.state_dict().items()}
    policy.model.rotary_emb.to(dtype)
    assert not torch.equal(rotary.inv_freq.float(), wanted)
    restore_frequencies(policy)
    for name in ("inv_freq", "original_inv_freq"):
        assert getattr(rotary, name).dtype == torch.float32
        assert torch.equal(getattr(rotary, name), wanted)
    assert all(torch.equal(policy.state_dict()[name], value) for name, value in weights.items())


def test_frequencies_that_nobody_can_make_anew_end_the_run() -> None:
    class Odd(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("inv_freq", torch.tensor([1.0, 0.75], dtype=torch.bfloat16), persistent=False)

    policy = model(**SCALED["default"])
    policy.model.rotary_emb = Odd()
    with pytest.raises(FrequenciesRounded, match=r"Odd\.inv_freq.*--ds\.zero_stage 2"):
        restore_frequencies(policy)


@pytest.mark.engine
def test_zero_3_in_bfloat16_rounds_them_and_the_policys_process_does_not(tmp_path: Path) -> None:
    model(**SCALED["default"]).save_pretrained(tmp_path)
    (told,) = run(1, Path(__file__).with_name("rotary_zero3.py"), tmp_path)
    ours, theirs = told["ours"], told["theirs"]
    assert ours["dtype"] == "torch.float32"
    assert ours["frequencies"] == pytest.approx([10000 ** (-i / 16) for i in range(16)], rel=1e-6)
    assert ours["gap"] < 1e-6, "the same model as without ZeRO, over 4,096 positions"
    assert theirs["frequencies"] != pytest.approx(ours["frequencies"], rel=1e-4), "else this file is not needed"
    assert theirs["gap"] > 0.1
