"""LoRA adapters on their way to vLLM: merged, by the names of the model without them, taken off without a trace."""

import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen2Config, Qwen2ForCausalLM

from openrlhf_gtpo.policy import merged_weights

CONFIG = Qwen2Config(
    vocab_size=32,
    hidden_size=16,
    intermediate_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=2,
)


def adapted() -> tuple[Qwen2ForCausalLM, torch.nn.Module]:
    """A bfloat16 model and the same one with adapters that do something."""
    torch.manual_seed(0)
    plain = Qwen2ForCausalLM(CONFIG).to(torch.bfloat16)
    model = Qwen2ForCausalLM(CONFIG).to(torch.bfloat16)
    model.load_state_dict(plain.state_dict())
    peft = get_peft_model(model, LoraConfig(r=4, lora_alpha=8, target_modules="all-linear"))
    for name, parameter in peft.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.2)
    return plain, peft


def test_the_names_are_those_of_the_model_without_adapters() -> None:
    plain, peft = adapted()
    with merged_weights(peft) as weights:
        assert [name for name, _ in weights] == [name for name, _ in plain.named_parameters()]


def test_a_model_that_takes_the_merged_weights_answers_as_the_adapted_one() -> None:
    plain, peft = adapted()
    tokens = torch.randint(0, 32, (2, 9))
    before = plain.float()(tokens).logits
    wanted = peft(tokens).logits.float()
    with merged_weights(peft) as weights:
        plain.load_state_dict({name: weight.detach().float().clone() for name, weight in weights}, strict=False)
    found = plain(tokens).logits
    assert (found - wanted).abs().max() < 0.05, "as near as bfloat16 allows"
    assert (before - wanted).abs().max() > 0.2, "and the adapters make a difference"


def test_a_hundred_merges_leave_every_weight_as_it_was() -> None:
    _, peft = adapted()
    before = {name: parameter.detach().clone() for name, parameter in peft.named_parameters()}
    for _ in range(100):
        with merged_weights(peft):
            pass
    for name, parameter in peft.named_parameters():
        assert torch.equal(parameter, before[name]), name
