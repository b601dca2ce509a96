"""LoRA adapters on their way to vLLM: merged, by the names of the model without them, taken off without a trace."""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import deepspeed
import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen2ForCausalLM

from openrlhf_gtpo.policy.lora import gathers_merged, has_adapters, plain_names

from ...small_models import small_qwen2
from ..ranks import run

SMALL = {"vocab_size": 32, "hidden_size": 16, "intermediate_size": 32, "initializer_range": 0.02}
LARGE = {"vocab_size": 64, "hidden_size": 320, "intermediate_size": 2048, "initializer_range": 0.02}
LARGE |= {"num_hidden_layers": 1, "num_attention_heads": 5, "num_key_value_heads": 5}
"""Its weights have more than 100,000 numbers, which ZeRO-3 shards, and adapters of rank 8 have fewer; of those of rank
64 some are sharded and some not."""


def adapted() -> tuple[Qwen2ForCausalLM, torch.nn.Module]:
    """A bfloat16 model and the same one with adapters that do something."""
    plain, model = (small_qwen2(**SMALL).to(torch.bfloat16) for _ in range(2))
    peft = get_peft_model(model, LoraConfig(r=4, lora_alpha=8, target_modules="all-linear"))
    for name, parameter in peft.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.2)
    return plain, peft


def gathered(peft: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Each weight as code that gathers it finds it, one after the other."""
    module: Any = ModuleType("theirs")
    module.deepspeed = deepspeed
    with gathers_merged(module, peft):
        for name, parameter in plain_names(peft):
            with module.deepspeed.zero.GatheredParameters([parameter], enabled=False):
                yield name, parameter.detach()
    assert module.deepspeed is deepspeed


def test_a_model_that_takes_the_merged_weights_by_its_own_names_answers_as_the_adapted_one() -> None:
    plain, peft = adapted()
    assert has_adapters(peft)
    assert not has_adapters(plain)
    tokens = torch.randint(0, 32, (2, 9))
    before = plain.float()(tokens).logits
    wanted = peft(tokens).logits.float()
    merged = {name: weight.float().clone() for name, weight in gathered(peft)}
    assert list(merged) == [name for name, _ in plain.named_parameters()]
    plain.load_state_dict(merged, strict=False)
    found = plain(tokens).logits
    assert (found - wanted).abs().max() < 0.05, "as near as bfloat16 allows"
    assert (before - wanted).abs().max() > 0.2, "and the adapters make a difference"


def test_one_layer_at_a_time_is_merged_and_a_hundred_merges_leave_every_weight_as_it_was() -> None:
    """All layers at once would be a second copy of the model."""
    _, peft = adapted()
    before = {name: parameter.detach().clone() for name, parameter in peft.named_parameters()}
    names = {id(parameter): name for name, parameter in peft.named_parameters()}

    def changed() -> list[str]:
        return [names[id(p)] for p in peft.parameters() if not torch.equal(p, before[names[id(p)]])]

    at_once = [changed() for _ in gathered(peft)]
    assert [name for some in at_once for name in some] == [name for name in before if "base_layer.weight" in name]
    assert max(map(len, at_once)) == 1
    for _ in range(99):
        list(gathered(peft))
    assert changed() == []


@pytest.mark.engine
@pytest.mark.parametrize(("ranks", "stage", "lora_rank"), [(1, 2, 8), (2, 3, 8), (2, 3, 64)])
def test_the_engine_gets_merged_weights_from_deepspeed_too(
    ranks: int, stage: int, lora_rank: int, tmp_path: Path
) -> None:
    """Under ZeRO-3 a parameter is empty until it is gathered: a merge before that changed nothing, without a word."""
    small_qwen2(**LARGE).save_pretrained(tmp_path)
    program = Path(__file__).with_name("lora_sync.py")
    first, *others = map(torch.load, run(ranks, program, tmp_path, stage, lora_rank))
    for found in (first, *others):
        assert all(torch.equal(found["before"][name], value) for name, value in found["after"].items())
    have, got = first["before"], first["got"]
    assert sum(name.endswith(".base_layer.weight") for name in have) == 7, "the linear layers of the model's one block"
    for name, value in have.items():
        if ".lora_" in name:
            continue
        found, wanted = got.pop(name.removeprefix("base_model.model.").replace(".base_layer", "")), value.double()
        if name.endswith(".base_layer.weight"):
            a, b = (have[name.replace("base_layer", f"lora_{matrix}.default")].double() for matrix in "AB")
            wanted += 16 / lora_rank * b @ a
            assert (found - value).abs().max() > 1e-3, "the adapters do something in each of them"
        assert (found - wanted).abs().max() < 1e-7, name
    assert not got
