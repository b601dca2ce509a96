"""GTPO, GRPO-S or GRPO with TRL on a toy, on two cores and without a download.

    pip install "openrlhf-gtpo[trl]"
    python gtpo_with_trl.py gtpo        # or grpo_s, or grpo: TRL's own

A policy of 0.1 million weights turns five digits around. It is first taught by demonstrations with wrong digits, so it
is right now and then; then it learns from rewards.
"""

import sys
import time
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, PrinterCallback, Qwen2Config, Qwen2ForCausalLM, set_seed
from trl import GRPOConfig, GRPOTrainer

from openrlhf_gtpo.shaping import grpo_s
from openrlhf_gtpo.trainers.trl import GTPOTrainer

DIGITS, STEPS = 5, 100
WORDS = {word: place for place, word in enumerate([*"0123456789", "=", "<pad>", "<eos>"])}


def tokenizer() -> PreTrainedTokenizerFast:
    words = Tokenizer(models.WordLevel(WORDS, unk_token="<pad>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>")


def taught_policy(steps: int = 600, wrong: float = 0.25) -> Qwen2ForCausalLM:
    """A policy that was shown responses with a wrong digit in each place with probability ``wrong``."""
    policy = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(WORDS),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=32,
            pad_token_id=WORDS["<pad>"],
            eos_token_id=WORDS["<eos>"],
            bos_token_id=None,
        )
    )
    optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-3)
    for _ in range(steps):
        digits = torch.randint(10, (64, DIGITS))
        response = torch.where(torch.rand(64, DIGITS) < wrong, torch.randint(10, (64, DIGITS)), digits.flip(1))
        signs = [torch.full((64, 1), WORDS[sign]) for sign in ("=", "<eos>")]
        ids = torch.cat([digits, signs[0], response, signs[1]], dim=1)
        labels = ids.clone()
        labels[:, : DIGITS + 1] = -100
        policy(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return policy


def turned_around(completions: list[str], answer: list[str], **_: Any) -> list[float]:
    return [float(completion == right) for completion, right in zip(completions, answer, strict=True)]


def problems(count: int) -> Dataset:
    rows = torch.randint(10, (count, DIGITS)).tolist()
    prompts = [" ".join(map(str, row)) + " =" for row in rows]
    return Dataset.from_dict({"prompt": prompts, "answer": [" ".join(map(str, row[::-1])) for row in rows]})


def reward(trainer: GRPOTrainer) -> float:
    """The mean reward on problems that it is not trained on."""
    trainer.evaluate()
    return float(trainer.state.log_history[-1]["eval_reward"])


def main(method: str) -> None:
    set_seed(0)
    torch.set_num_threads(1)  # faster for so small a policy
    begin, policy = time.time(), taught_policy()
    config = GRPOConfig(
        output_dir=f"runs/trl-{method}",
        max_steps=STEPS,
        learning_rate=1e-3,
        per_device_train_batch_size=64,
        per_device_eval_batch_size=256,
        num_generations=8,
        max_completion_length=DIGITS + 1,
        loss_type="grpo" if method == "grpo_s" else "dapo",
        logging_steps=10,
        disable_tqdm=True,
        save_strategy="no",
        report_to="none",
        bf16=False,
        gradient_checkpointing=False,
        use_cpu=not torch.cuda.is_available(),
    )
    data = {"train_dataset": problems(2000), "eval_dataset": problems(128), "processing_class": tokenizer()}
    if method == "grpo":
        trainer = GRPOTrainer(policy, turned_around, config, **data)
    elif method == "gtpo":
        trainer = GTPOTrainer(policy, turned_around, config, **data)
    else:
        trainer = GTPOTrainer(policy, turned_around, config, **data, shape=grpo_s)
    trainer.remove_callback(PrinterCallback)  # a dictionary of all metrics each time
    before = reward(trainer)
    trainer.train()
    steps = " ".join(f"{line['reward']:.2f}" for line in trainer.state.log_history if "reward" in line)
    print(f"{method}: mean reward of each 10 steps {steps}")
    print(f"{method}: reward on other problems {before:.2f} -> {reward(trainer):.2f}, {time.time() - begin:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "gtpo")
