"""GTPO and GRPO-S written down a second time from the paper, with loops over plain numbers and no care for speed.

Shares no code and no idea with openrlhf_gtpo.shaping: Eq. 3, 5 and 9 are taken literally, and Eq. 6 builds the very
list of rewards whose mean and standard deviation it needs. Every function takes nested lists.
"""

from math import fsum, sqrt


def tokens_of(entropy, mask, clip):
    """The entropies of each response's tokens in order, whatever columns they stand in."""
    kept = [[h for h, m in zip(row, keep, strict=True) if m] for row, keep in zip(entropy, mask, strict=True)]
    return kept if clip is None else [[min(max(h, clip[0]), clip[1]) for h in row] for row in kept]


def share(index, entropies, is_correct):
    """count * weight / sum of weights for one of the given entropies, the factor behind alpha2 in Eq. 3, 5 and 9."""
    if is_correct:
        weights = list(entropies)
        if fsum(weights) == 0:
            weights = [1.0] * len(weights)
    else:
        weights = [1 / max(h, 1e-6) for h in entropies]
    return len(weights) * weights[index] / fsum(weights)


def normalised(rewards, zeros, eps):
    """(r - mean) / (std + eps) over the rewards and a number of zeros; all 0 where the rewards do not vary."""
    everything = list(rewards) + [0.0] * zeros
    mean = fsum(everything) / len(everything)
    std = sqrt(fsum((r - mean) ** 2 for r in everything) / len(everything))
    return [0.0 if std < 1e-12 else (r - mean) / (std + eps) for r in rewards]


def shaped(units, correct, group, alpha1, alpha2, over, scope, penalty, eps):
    """Rewards and advantages of units[i][t], the entropies of response i, and which responses are informative."""
    n = len(units)
    rewards = [[0.0] * len(row) for row in units]
    for i in range(n):
        for t in range(len(units[i])):
            peers = [k for k in range(n) if (group[k], correct[k]) == (group[i], correct[i]) and len(units[k]) > t]
            factor = share(peers.index(i), [units[k][t] for k in peers], correct[i])
            rewards[i][t] = (1 if correct[i] else -1) * (alpha1 + alpha2 * factor) + penalty[i]

    informative = [
        {correct[k] for k in range(n) if group[k] == group[i] and units[k]} == {True, False} for i in range(n)
    ]
    advantages = [[0.0] * len(row) for row in units]
    for scope_id in sorted({group[i] if scope == "group" else 0 for i in range(n)}):
        members = [i for i in range(n) if informative[i] and (scope == "batch" or group[i] == scope_id)]
        for wanted in (True, False):
            places = [(i, t) for i in members if correct[i] == wanted for t in range(len(units[i]))]
            if not places:
                continue
            others = sum(len(units[i]) for i in members if correct[i] != wanted)
            values = normalised([rewards[i][t] for i, t in places], others if over == "group" else 0, eps)
            for (i, t), value in zip(places, values, strict=True):
                advantages[i][t] = value
    return rewards, advantages, informative


def on_columns(per_token, mask):
    """Puts the t-th number of each row on the t-th column where the mask is 1; 0 elsewhere."""
    result = []
    for row, keep in zip(per_token, mask, strict=True):
        numbers = iter(row)
        result.append([next(numbers) if m else 0.0 for m in keep])
    return result


def naive_gtpo(entropy, mask, correct, group, alpha1, alpha2, over, scope, penalty, entropy_clip, eps):
    units = tokens_of(entropy, mask, entropy_clip)
    rewards, advantages, informative = shaped(units, correct, group, alpha1, alpha2, over, scope, penalty, eps)
    return on_columns(rewards, mask), on_columns(advantages, mask), informative


def naive_grpo_s(entropy, mask, correct, group, alpha1, alpha2, over, scope, penalty, entropy_clip, eps):
    tokens = tokens_of(entropy, mask, entropy_clip)
    units = [[fsum(row) / len(row)] if row else [] for row in tokens]
    rewards, advantages, informative = shaped(units, correct, group, alpha1, alpha2, over, scope, penalty, eps)

    def along(per_response):
        return [value * len(row) for value, row in zip(per_response, tokens, strict=True)]

    return on_columns(along(rewards), mask), on_columns(along(advantages), mask), informative
