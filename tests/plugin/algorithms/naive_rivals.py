"""The rivals a second time, from their papers' equations, with loops over plain numbers. Shares no code with
openrlhf_gtpo.algorithms. Every function takes nested lists."""

from math import fsum

from .naive_mixed_policy import naive_group_norm as grpo


def entropy_advantage(entropy, mask, reward, group, alpha, kappa):
    """A + min(alpha * H, |A| / kappa) on the mask."""
    return [
        [(a + min(alpha * h, abs(a) / kappa)) if m else 0.0 for h, m in zip(row, keep, strict=True)]
        for a, row, keep in zip(grpo(reward, group), entropy, mask, strict=True)
    ]


def edge(entropy, mask, reward, group):
    """A_i / (P_i / mean P over the group) on the mask; responses without tokens count nowhere."""
    mean_entropy = []
    for row, keep in zip(entropy, mask, strict=True):
        own = [h for h, m in zip(row, keep, strict=True) if m]
        mean_entropy.append(max(fsum(own) / len(own), 1e-6) if own else None)
    found = []
    for a, p, g, keep in zip(grpo(reward, group), mean_entropy, group, mask, strict=True):
        peers = [q for q, other in zip(mean_entropy, group, strict=True) if other == g and q is not None]
        divisor = 1.0 if p is None else p / (fsum(peers) / len(peers))
        found.append([a / divisor if m else 0.0 for m in keep])
    return found
