"""--algo.advantage.estimator docs/examples/less_from_success.py:less_from_success

GRPO's advantage, of which success gets a small share and failure all (after Zhu et al., arXiv 2506.01347, who weigh
success with 0.1): A where A < 0, 0.1 * A elsewhere.
"""

import torch

from openrlhf_gtpo.algorithms.estimators import normalised_in_groups


def less_from_success(entropy, logprob, mask, correct, reward, group, weight=0.1):
    advantage = normalised_in_groups(reward, group)[:, None] * mask
    return torch.where(advantage < 0, advantage, weight * advantage)
