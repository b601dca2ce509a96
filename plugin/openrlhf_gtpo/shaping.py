"""GTPO and GRPO-S: rewards shaped by the rollout policy's entropy, and the advantages computed from them.

Equation numbers: Tan et al., "GTPO and GRPO-S: Token and Sequence-Level Reward Shaping with Policy Entropy", arXiv
2508.04349 v6. GTPO is *Group Token Policy Optimization*; another method, arXiv 2508.03772, has the same abbreviation.

Both are one calculation on units: a unit is a token for GTPO (N, T) and a whole response for GRPO-S (N, 1).
docs/algorithms.md has the equations, what is proved of them, and our readings where the paper leaves room.
"""

from dataclasses import dataclass
from typing import Literal

try:
    import torch
except ModuleNotFoundError:  # not a dependency: which build of torch fits is the trainer's business
    needed = "openrlhf_gtpo.shaping needs torch, which is not installed: pip install torch, in your trainer's version"
    raise ModuleNotFoundError(needed, name="torch") from None

from openrlhf_gtpo.algorithms import arguments
from openrlhf_gtpo.algorithms.reductions import positions

__all__ = ["Shaped", "grpo_s", "gtpo"]

_ZERO_ENTROPY = 1e-30
"""Nats. Replaces H = 0 in correct units: negligible beside a real entropy, and 0/0 becomes equal shares."""


SMALLEST_ENTROPY = 1e-6
"""Nats. 1/H is that of an entropy of at least this, so that it stays finite."""


@dataclass(frozen=True, eq=False)
class Shaped:
    """Rewards and advantages of a rollout batch, in the dtype of the entropies (float32 for half precision).

    Attributes:
        rewards: (N, T) shaped rewards of Eq. 3 and 5 (GTPO) or Eq. 9 (GRPO-S) with the penalty added; 0 off the mask.
        advantages: (N, T) advantages of Eq. 6 (GTPO) or Eq. 1 (GRPO-S); 0 off the mask and in uninformative groups.
        informative: (N,) bool, whether the response's group has non-empty responses both correct and wrong.
    """

    rewards: torch.Tensor
    advantages: torch.Tensor
    informative: torch.Tensor


def gtpo(
    entropy: torch.Tensor,
    mask: torch.Tensor,
    correct: torch.Tensor,
    group: torch.Tensor,
    *,
    alpha1: float = 1.0,
    alpha2: float = 0.1,
    over: Literal["group", "class"] = "group",
    scope: Literal["group", "batch"] = "group",
    penalty: torch.Tensor | None = None,
    entropy_clip: tuple[float, float] | None = None,
    neutral: torch.Tensor | None = None,
    eps: float = 1e-8,
) -> Shaped:
    """Group Token Policy Optimization's shaped rewards (Eq. 3, 5) and advantages (Eq. 6), token by token.

    A token is compared with the tokens at the same position in the other responses of its group and class. The
    position t counts a response's own tokens, so responses may begin in different columns and have gaps. Groups that
    are all correct or all wrong have advantages of 0 and stay out of the mean and std of ``scope="batch"``.

    Args:
        entropy: (N, T) float, nats: entropy of the distribution that each token was sampled from. Values off the mask
            are ignored, NaN included. No gradient flows through it.
        mask: (N, T) bool or 0/1, 1 on response tokens. A response without tokens counts nowhere.
        correct: (N,) bool, the verified correctness, without any penalty.
        group: (N,) integers, which prompt each response answers: any ids, in any order.
        alpha1: share of the reward that every token of a response gets.
        alpha2: share of the reward that entropy distributes.
        over: which tokens enter mean and std in Eq. 6. ``"group"``: all of the scope, with 0 for the other class.
            ``"class"``: those of the class alone; training then collapses, so it is for comparison, and it warns.
        scope: mean and std per prompt (``"group"``) or over all informative groups together (``"batch"``). Shares are
            per prompt in both.
        penalty: (N,) added to the rewards of each response before mean and std, such as a length penalty.
        entropy_clip: lowest and highest entropy in nats, applied before anything else.
        neutral: (N, T) bool, tokens whose share is 1 whatever their entropy, as if it were the mean of the others at
            their position; entropy distributes among the others alone. Not in the paper.
        eps: added to the population standard deviation. Where that is 0 or rounding noise, the advantage is 0.

    Returns:
        Rewards, advantages and which responses are in informative groups.

    Raises:
        ValueError: an argument has the wrong shape, type or value; the message names it.
    """
    nats, on = arguments.entropies_on_tokens(entropy, mask, entropy_clip)
    if neutral is not None:
        arguments.check_tensor("neutral", neutral, "bool", *entropy.shape, entropy=entropy)
    return _shaped(nats, on, correct, group, alpha1, alpha2, over, scope, penalty, eps, neutral)


def grpo_s(
    entropy: torch.Tensor,
    mask: torch.Tensor,
    correct: torch.Tensor,
    group: torch.Tensor,
    *,
    alpha1: float = 1.0,
    alpha2: float = 0.1,
    over: Literal["group", "class"] = "group",
    scope: Literal["group", "batch"] = "group",
    penalty: torch.Tensor | None = None,
    entropy_clip: tuple[float, float] | None = None,
    eps: float = 1e-8,
) -> Shaped:
    """GRPO-S's shaped rewards (Eq. 8, 9) and advantages (Eq. 1), the same at every token of a response.

    Arguments, result and errors are those of `gtpo`, with responses in place of tokens: ``alpha1`` and ``alpha2``
    are the paper's beta1 and beta2, and its n and m count responses that have tokens.
    """
    nats, on = arguments.entropies_on_tokens(entropy, mask, entropy_clip)
    length = on.sum(1, keepdim=True)
    mean_entropy = nats.sum(1, keepdim=True, dtype=torch.float64) / length.clamp(min=1)  # Eq. 8
    shaped = _shaped(mean_entropy, length > 0, correct, group, alpha1, alpha2, over, scope, penalty, eps)
    rewards, advantages = shaped.rewards.to(nats.dtype), shaped.advantages.to(nats.dtype)
    return Shaped(rewards * on, advantages * on, shaped.informative)


def _shaped(
    entropy: torch.Tensor,
    on: torch.Tensor,
    correct: torch.Tensor,
    group: torch.Tensor,
    alpha1: float,
    alpha2: float,
    over: Literal["group", "class"],
    scope: Literal["group", "batch"],
    penalty: torch.Tensor | None,
    eps: float,
    neutral: torch.Tensor | None = None,
) -> Shaped:
    """Shape (N, U) units, U being T or 1; ``on`` is True where there is a unit."""
    arguments.check_options(alpha1, alpha2, eps, over, scope)
    arguments.check_responses(entropy, correct, group, penalty)
    has_units = on.any(1)
    counted = on if neutral is None else on & ~neutral
    rewards, advantages = torch.zeros_like(entropy), torch.zeros_like(entropy)  # (N, U)
    informative = torch.zeros_like(correct)  # (N,)
    for rows in _groups(group):
        right, wrong = rows[correct[rows] & has_units[rows]], rows[~correct[rows] & has_units[rows]]
        informative[rows] = bool(len(right) and len(wrong))
        h, inverse = entropy[right].clamp(min=_ZERO_ENTROPY), 1 / entropy[wrong].clamp(min=SMALLEST_ENTROPY)
        rewards[right] = alpha1 + alpha2 * _shares(h, on[right], counted[right])  # Eq. 3; Eq. 9 for responses
        rewards[wrong] = -alpha1 - alpha2 * _shares(inverse, on[wrong], counted[wrong])  # Eq. 5; Eq. 9 for responses
    if penalty is not None:
        rewards += penalty.detach()[:, None]
    rewards = torch.where(on, rewards, 0.0)
    for rows in _groups(group if scope == "group" else torch.zeros_like(group)):
        right, wrong = rows[correct[rows] & informative[rows]], rows[~correct[rows] & informative[rows]]
        for own, other in ((right, wrong), (wrong, right)):
            others = on[other].sum() if over == "group" else 0  # they are members with a reward of 0
            advantages[own] = _normalised(rewards[own], on[own], others, eps)
    return Shaped(rewards, advantages, informative)


def _shares(weight: torch.Tensor, on: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
    """d_t * w / (sum of w), with the sum over the d_t of these (n, U) units that are at the same position t and
    counted; 1 for the others."""
    columns = on.shape[1]
    position = positions(on)  # what is no unit goes to a column of its own
    weight = weight.new_zeros(len(on), columns + 1).scatter_(1, position, weight)
    has_unit = on.new_zeros(len(on), columns + 1).scatter_(1, position, counted)
    # The count is d_t, h_t, n or m. Division by the mean makes the share of a single unit exactly 1.
    mean = (weight * has_unit).sum(0) / has_unit.sum(0)
    return torch.where(counted, (weight / mean).gather(1, position), 1.0)


def _normalised(rewards: torch.Tensor, on: torch.Tensor, others: torch.Tensor | int, eps: float) -> torch.Tensor:
    """Eq. 6 (Eq. 1 for responses) for the (n, U) rewards of a class, beside a number of rewards of 0."""
    units = rewards[on].double()
    mean = units.sum() / (len(units) + others)
    std = (((units - mean).square().sum() + others * mean.square()) / (len(units) + others)).sqrt()
    is_noise = std <= 8 * torch.finfo(rewards.dtype).eps * mean.abs()
    return torch.where(on & ~is_noise, (rewards - mean) / (std + eps), 0.0).to(rewards.dtype)


def _groups(group: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The indices of each group's responses."""
    order = group.argsort(stable=True)
    return order.split(group[order].unique_consecutive(return_counts=True)[1].tolist())
