"""--algo.advantage.estimator docs/examples/shaping_function.py:surprise

Tokens that were improbable learn more, in either direction: GRPO's advantage times the surprisal of the token,
relative to the response's mean surprisal.
"""

import torch


def surprise(entropy, logprob, mask, correct, reward, group):
    """Called once for each rollout batch of N responses and T columns.

    Args:
        entropy: (N, T) nats, of the distribution that each token was sampled from; 0 off the mask.
        logprob: (N, T) of each token in that distribution; 0 off the mask.
        mask: (N, T) bool, True on the responses' tokens.
        correct: (N,) bool, or None where scores are neither 0 nor 1.
        reward: (N,) with every penalty.
        group: (N,) int, which prompt each response answers.

    Returns:
        (N, T) float: advantages, finite on the mask.
    """
    advantage = torch.zeros_like(reward)
    for prompt in group.unique():
        own = reward[group == prompt]
        advantage[group == prompt] = (own - own.mean()) / (own.std() + 1e-6)
    surprisal = -logprob
    mean = surprisal.sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1)
    return advantage[:, None] * surprisal / mean.clamp(min=1e-6) * mask
