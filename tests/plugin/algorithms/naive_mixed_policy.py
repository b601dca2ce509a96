"""Mixed-policy DAPO's reconstructed objective written down a second time, with loops over plain numbers.

Shares no code and no idea with openrlhf_gtpo.algorithms.mixed_policy: there are no factors here, each batch has its
own sum and its own count, and every response's ratio is taken against the policy that it is from.
"""

from math import exp, fsum, sqrt


def naive_group_norm(rewards, group):
    """(r - mean) / (std + 1e-9) with Bessel's correction; 0 in a group of one response or of equal rewards."""
    result = []
    for own, g in zip(rewards, group, strict=True):
        members = [r for r, other in zip(rewards, group, strict=True) if other == g]
        if len(set(members)) == 1:
            result.append(0.0)
            continue
        mean = fsum(members) / len(members)
        std = sqrt(fsum((r - mean) ** 2 for r in members) / (len(members) - 1))
        result.append((own - mean) / (std + 1e-9))
    return result


def clipped_objective(ratio, advantage, low, high):
    return min(ratio * advantage, min(max(ratio, 1 - low), 1 + high) * advantage)


def terms_of(row, unit, low, high):
    """What one response adds to the sum of its batch: a term for each token, or one for the whole response."""
    behaviour = row["guide"] if row["is_guide"] else row["old"]
    ratios = [exp(row["policy"][t] - behaviour[t]) for t in range(len(row["mask"])) if row["mask"][t]]
    if unit == "token":
        return [clipped_objective(ratio, row["advantage"], low, high) for ratio in ratios]
    return [clipped_objective(fsum(ratios) / len(ratios), row["advantage"], low, high)] if ratios else []


def naive_objective(rows, weight, unit, low, high):
    """J of responses, each a dict of policy, old and guide log-probabilities, mask, advantage, is_guide and second."""
    objective = 0.0
    for second, factor in ((False, 1.0), (True, weight)):
        terms = [term for row in rows if row["second"] == second for term in terms_of(row, unit, low, high)]
        if terms:
            objective += factor * fsum(terms) / len(terms)
    return objective
