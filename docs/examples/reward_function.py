"""--reward.remote_url docs/examples/reward_function.py: right is what boxes the label; brevity earns a little more."""

import torch


def reward_func(queries, prompts, labels):
    responses = [query[len(prompt) :] for query, prompt in zip(queries, prompts)]
    right = torch.tensor([float(f"\\boxed{{{label}}}" in text) for text, label in zip(responses, labels)])
    brevity = torch.tensor([0.1 if len(text) < 100 else 0.0 for text in responses])
    # GTPO and GRPO-S tell right from wrong by the scores, which are 0 or 1; the rewards may be any numbers.
    return {"rewards": right + brevity, "scores": right, "extra_logs": {"brevity": brevity}}
