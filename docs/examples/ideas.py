"""Ideas, of papers and our own, as functions of tensors:

    openrlhf-gtpo compare --model M --data D --estimators docs/examples/ideas.py:NAME

Arguments and result are those of docs/examples/shaping_function.py; A is GRPO's advantage, p a token's probability.
"""

import torch

from openrlhf_gtpo.algorithms.estimators import normalised_in_groups


def leave_one_out(entropy, logprob, mask, correct, reward, group):
    """RLOO (Ahmadian et al., arXiv 2402.14740): the reward minus the mean reward of the group's other responses.

        A_i = r_i - mean of r_j over j != i = G / (G - 1) * (r_i - mean of r_j)

    Without GRPO's division by the standard deviation, groups that are nearly all right or all wrong count less.
    """
    advantage = torch.zeros_like(reward)
    for prompt in group.unique():
        own = reward[group == prompt]
        advantage[group == prompt] = (own - own.mean()) * len(own) / max(len(own) - 1, 1)
    return advantage[:, None] * mask


def low_probability_less(entropy, logprob, mask, correct, reward, group, alpha=0.2):
    """Advantage reweighting (Yang et al., arXiv 2505.12929): improbable tokens, whose gradients are large, learn less.

        A_t = (alpha * p_t + 1 - alpha) * A, with GRPO's A and the token's probability p_t

    alpha is 0.2, as in the authors' script for this method alone.
    """
    return normalised_in_groups(reward, group)[:, None] * (alpha * logprob.exp() + 1 - alpha) * mask


def unlikely_more(entropy, logprob, mask, correct, reward, group, beta=0.25):
    """Unlikeliness reward (He et al., arXiv 2506.02355): of the right responses the probable ones earn less.

        r_i = R_i * (1 - beta * k_i / G), then GRPO; k_i counts the group's responses that are less probable

    Probability is the mean log-probability of a response's tokens, as in the authors' code, and beta is theirs.
    """
    mean = (logprob * mask).sum(-1) / mask.sum(-1).clamp(min=1)
    earned = reward.clone()
    for prompt in group.unique():
        own = group == prompt
        less_probable = mean[own].argsort().argsort()
        earned[own] = reward[own] * (1 - beta * less_probable / own.sum())
    return normalised_in_groups(earned, group)[:, None] * mask


def improbable_more(entropy, logprob, mask, correct, reward, group):
    """A_t = (1 - p_t) * A: a token that was certain decided nothing, whatever came of the response."""
    return normalised_in_groups(reward, group)[:, None] * (1 - logprob.exp()) * mask


def blame_improbable(entropy, logprob, mask, correct, reward, group):
    """GRPO's advantage in right responses; in wrong ones in proportion to 1 - p_t, with the same sum."""
    advantage = normalised_in_groups(reward, group)[:, None] * mask
    improbable = (1 - logprob.exp()) * mask
    blame = advantage.clamp(max=0)
    shared = blame * improbable
    return advantage.clamp(min=0) + shared * blame.sum() / shared.sum().clamp(max=-1e-6)


def undecided_more(entropy, logprob, mask, correct, reward, group):
    """A_t = A * H_t / H, with the mean entropy H of the batch's tokens."""
    mean = (entropy * mask).sum() / mask.sum()
    return normalised_in_groups(reward, group)[:, None] * entropy / mean.clamp(min=1e-6) * mask


def hard_prompts_more(entropy, logprob, mask, correct, reward, group):
    """A_i * (1 - pass rate of the group): prompts that are mostly solved count less."""
    rate = torch.stack([correct[group == one].float().mean() for one in group])
    return (normalised_in_groups(reward, group) * (1 - rate))[:, None] * mask
