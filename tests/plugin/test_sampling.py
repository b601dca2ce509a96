"""What commands that sample without a trainer load and ask."""

from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.sampling import merged, reward_client

from ..refusals import assert_refusal


def adapter(policy: Path, folder: Path) -> torch.nn.Module:
    """An adapter that does something, with its tokenizer, in a folder; and its model with it."""
    peft = get_peft_model(AutoModelForCausalLM.from_pretrained(policy), LoraConfig(r=4, target_modules="all-linear"))
    for name, parameter in peft.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.2)
    peft.save_pretrained(folder)
    AutoTokenizer.from_pretrained(policy).save_pretrained(folder)
    return peft


def test_an_adapter_is_loaded_with_its_model_in_one_folder(policy: Path, tmp_path: Path) -> None:
    assert merged(str(policy), tmp_path) == str(policy), "a whole model stays where it is"
    peft, tokens = adapter(policy, tmp_path / "adapter"), torch.arange(8)[None]
    whole = AutoModelForCausalLM.from_pretrained(found := merged(str(tmp_path / "adapter"), tmp_path / "out"))
    assert found == str(tmp_path / "out" / "merged")
    with torch.no_grad():
        assert torch.allclose(whole(tokens).logits, peft.eval()(tokens).logits, atol=1e-4)
    assert AutoTokenizer.from_pretrained(found).decode([15, 16]) == "01"


def test_an_adapter_without_its_model_is_refused(policy: Path, tmp_path: Path) -> None:
    adapter(policy, tmp_path / "adapter")
    policy.rename(tmp_path / "elsewhere")
    with pytest.raises(SettingsError) as refused:
        merged(str(tmp_path / "adapter"), tmp_path)
    assert_refusal(str(refused.value), f"--model {tmp_path}/adapter", "base_model_name_or_path")


def test_a_reward_service_that_is_no_url_is_refused_by_the_flags_name(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refused, reward_client("ftp://x", "--reward.remote_url", 1.0, tmp_path):
        pass
    assert_refusal(str(refused.value), "--reward.remote_url", "ftp://x")
