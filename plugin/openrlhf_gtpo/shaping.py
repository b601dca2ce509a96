"""GTPO and GRPO-S: rewards shaped by the rollout policy's entropy, and the advantages computed from them.

Equation numbers are those of "GTPO and GRPO-S: Token and Sequence-Level Reward Shaping with Policy Entropy", Tan et
al., arXiv 2508.04349 v6. This GTPO is *Group Token Policy Optimization*; "Group-relative Trajectory-based Policy
Optimization" (arXiv 2508.03772) is another method with the same abbreviation.

Both algorithms are one calculation on a matrix of units. A unit is a token for GTPO (N, T) and a whole response for
GRPO-S (N, 1). Its weight w is its entropy H if the response is correct, and 1/H if it is wrong. At position t, the
responses of one prompt and class that have a token there are active. Their units share the reward by weight:

    r = sign * (alpha1 + alpha2 * w / mean(w)) + penalty     sign +1 correct, -1 wrong; mean over the units active at t

This is Eq. 3, 5 and 9, since d_t * w / sum(w) = w / mean(w). The code works with the deviation v = w / mean(w) - 1,
whose sum over the active units is 0. Rewards and advantages are linear in v, and the variance is a sum of squares, so
nothing cancels.

Cost: about twenty-five elementwise passes, in place where possible, because fresh memory costs more than arithmetic.

* On a CPU, groups are taken in blocks that fit its caches. The peak is 0.7 of the inputs' memory, results included.
* On other devices, and with ``scope="batch"``, the batch is one block: gtpo holds 3.8 and grpo_s 2.3 tensors the size
  of an (N, T) float32.
* Where the responses of each prompt begin in the same column and have no gaps (single-turn rollouts), the columns are
  the positions. Otherwise gtpo moves the tokens to the left by one scatter and the results back by two gathers.
* For 2048 responses and 4096 columns on one thread, gtpo took 0.27 of the time of OpenRLHF's group_norm advantages
  (0.36 with gaps) and grpo_s 0.18. That is 15, 21 and 10 times one pass that only reads the inputs and writes the
  results (tests/benchmarks/bench_shaping.py).

Checking the arguments and choosing the layout reads a handful of numbers back from the device; nothing after that
does.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch

from openrlhf_gtpo.algorithms.described import described

__all__ = ["Shaped", "grpo_s", "gtpo"]

SMALLEST_WRONG_ENTROPY = 1e-6
"""Nats. The entropy H of a wrong unit is clamped to at least this, so that 1/H stays finite."""

BLOCK = 2**18
"""Tokens that are shaped at once on a CPU, as many as its caches hold. A larger group is one block."""

_ZERO_ENTROPY = 1e-30
"""Nats. Replaces H = 0 in correct units: negligible beside a real entropy, and 0/0 becomes equal shares."""

Over = Literal["group", "class"]
Scope = Literal["group", "batch"]


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


@dataclass(frozen=True, eq=False)
class _Settings:
    alpha1: float
    alpha2: float
    over: Over
    scope: Scope
    eps: float


@dataclass(frozen=True, eq=False)
class _Arguments:
    """The tensors that a caller passed; `gtpo` describes them."""

    entropy: torch.Tensor
    mask: torch.Tensor
    correct: torch.Tensor
    group: torch.Tensor
    penalty: torch.Tensor | None
    entropy_clip: tuple[float, float] | None

    def of(self, rows: slice | torch.Tensor) -> "_Arguments":
        """The arguments of some responses."""
        penalty = None if self.penalty is None else self.penalty[rows]
        return _Arguments(
            self.entropy[rows], self.mask[rows], self.correct[rows], self.group[rows], penalty, self.entropy_clip
        )


@dataclass(frozen=True, eq=False)
class _Batch:
    """Arguments that have passed the checks."""

    entropy: torch.Tensor  # (N, T) nats, 0 off the mask; a copy, which the calculation may overwrite
    mask: torch.Tensor  # (N, T) bool
    active: torch.Tensor  # (N, T) the mask as 0 and 1 in entropy's dtype
    length: torch.Tensor  # (N,) float64, response tokens
    correct: torch.Tensor  # (N,) bool
    group: torch.Tensor  # (N,) int64 in 0..groups-1
    groups: int
    informative: torch.Tensor  # (N,) bool
    penalty: torch.Tensor  # (N,) float64

    @property
    def group_class(self) -> torch.Tensor:
        """(N,) an index for each group and class: group for its correct responses, group + groups for its wrong."""
        return self.group + self.groups * ~self.correct


def gtpo(
    entropy: torch.Tensor,
    mask: torch.Tensor,
    correct: torch.Tensor,
    group: torch.Tensor,
    *,
    alpha1: float = 1.0,
    alpha2: float = 0.1,
    over: Over = "group",
    scope: Scope = "group",
    penalty: torch.Tensor | None = None,
    entropy_clip: tuple[float, float] | None = None,
    eps: float = 1e-8,
) -> Shaped:
    """Group Token Policy Optimization's shaped rewards (Eq. 3, 5) and advantages (Eq. 6), token by token.

    A token is compared with the tokens at the same position in the other responses of its group and class. The
    position t counts a response's own tokens, so responses may begin in different columns and have gaps.

    Groups that are all correct or all wrong teach nothing: their advantages are 0, and they stay out of the mean and
    std of ``scope="batch"``. Empty responses do not make a group informative.

    A reward has its class's sign, and so has the class's mean advantage at each position. A single advantage need not
    have it: with the share s = w / mean(w) of a token and the share q of the scope's tokens that are in responses of
    its class, it has the other sign where alpha1 + alpha2 * s < (alpha1 + alpha2) * q, if there is no penalty. That
    takes q > alpha1 / (alpha1 + alpha2).

    Entropies of 0 are safe. Wrong tokens use 1/max(H, 1e-6). Where all correct tokens at a position have entropy 0
    they share equally, the limit of equal entropies, so the shares always sum to d_t.

    Args:
        entropy: (N, T) float, nats: entropy of the distribution that each token was sampled from. Values off the mask
            are ignored, NaN included. No gradient flows through it.
        mask: (N, T) bool or 0/1, 1 on response tokens. A response without tokens counts nowhere.
        correct: (N,) bool, the verified correctness, without any penalty.
        group: (N,) integers, which prompt each response answers: any ids, in any order.
        alpha1: share of the reward that every token of a response gets.
        alpha2: share of the reward that entropy distributes.
        over: which units enter mean and std in Eq. 6. ``"group"``: all units of the scope, with 0 for those of the
            other class. ``"class"``: the units of the class alone. The advantages then no longer distinguish correct
            from wrong and training collapses, so this is for comparison only, and it warns.
        scope: ``"group"``: mean and std per prompt; ``"batch"``: over all informative groups of the batch together.
            Shares are per prompt in both.
        penalty: (N,) added to the rewards of each response before mean and std, such as a length penalty.
        entropy_clip: lowest and highest entropy in nats, applied before anything else.
        eps: added to the population standard deviation. Where the deviation itself is 0 (or rounding noise), the
            advantage is 0 whatever eps is.

    Returns:
        Rewards, advantages and which responses are in informative groups.

    Raises:
        ValueError: an argument has the wrong shape, type or value; the message names it.
    """
    settings = _read_settings(alpha1, alpha2, over, scope, eps)
    return _by_blocks(_gtpo, _Arguments(entropy, mask, correct, group, penalty, entropy_clip), settings)


def _gtpo(batch: _Batch, settings: _Settings) -> tuple[torch.Tensor, torch.Tensor]:
    """(N, T) rewards and advantages of whole groups."""
    if _is_lined_up(batch):
        return _rewards_and_advantages(batch.entropy, batch.active, batch.length, batch, settings)
    longest = int(batch.length.max())
    # Column `longest` takes everything off the mask, and is itself off the mask.
    column = batch.mask.cumsum(dim=1).sub_(1).masked_fill_(~batch.mask, longest)  # (N, T)
    tokens = batch.entropy.new_zeros(len(column), longest + 1).scatter_(1, column, batch.entropy)
    active = torch.arange(longest + 1, device=column.device) < batch.length[:, None]
    rewards, advantages = _rewards_and_advantages(tokens, active.to(tokens.dtype), batch.length, batch, settings)
    # The batch's own (N, T) tensors are no longer needed and take the results: fresh memory is slow.
    rewards = torch.gather(rewards, 1, column, out=batch.entropy)
    return rewards, torch.gather(advantages, 1, column, out=batch.active)


def grpo_s(
    entropy: torch.Tensor,
    mask: torch.Tensor,
    correct: torch.Tensor,
    group: torch.Tensor,
    *,
    alpha1: float = 1.0,
    alpha2: float = 0.1,
    over: Over = "group",
    scope: Scope = "group",
    penalty: torch.Tensor | None = None,
    entropy_clip: tuple[float, float] | None = None,
    eps: float = 1e-8,
) -> Shaped:
    """GRPO-S's shaped rewards (Eq. 8, 9) and advantages (Eq. 1), one number for each response.

    The unit is the response, with its mean entropy; rewards and advantages are constant along it. What `gtpo` says of
    signs holds with responses in the place of tokens. The numbers n of
    correct and m of wrong responses count non-empty ones: a response without tokens has no mean entropy and nothing to
    train on, so it takes no share and does not enter mean and std.

    Args:
        entropy: as for `gtpo`.
        mask: as for `gtpo`.
        correct: as for `gtpo`.
        group: as for `gtpo`.
        alpha1: the paper's beta1.
        alpha2: the paper's beta2.
        over: as for `gtpo`.
        scope: as for `gtpo`.
        penalty: as for `gtpo`.
        entropy_clip: as for `gtpo`.
        eps: as for `gtpo`.

    Returns:
        Rewards, advantages and which responses are in informative groups.

    Raises:
        ValueError: as for `gtpo`.
    """
    settings = _read_settings(alpha1, alpha2, over, scope, eps)
    return _by_blocks(_grpo_s, _Arguments(entropy, mask, correct, group, penalty, entropy_clip), settings)


def _grpo_s(batch: _Batch, settings: _Settings) -> tuple[torch.Tensor, torch.Tensor]:
    """(N, T) rewards and advantages of whole groups."""
    present = (batch.length > 0).double()  # (N,)
    mean_entropy = batch.entropy.sum(dim=1).double() / batch.length.clamp(min=1)
    rewards, advantages = _rewards_and_advantages(mean_entropy[:, None], present[:, None], present, batch, settings)
    active = batch.active
    rewards = torch.mul(active, rewards.to(active.dtype), out=batch.entropy)  # (N, T), in memory no longer needed
    return rewards, active.mul_(advantages.to(active.dtype))


def _by_blocks(
    algorithm: Callable[[_Batch, _Settings], tuple[torch.Tensor, torch.Tensor]],
    arguments: _Arguments,
    settings: _Settings,
) -> Shaped:
    """Check the arguments and shape whole groups; on a CPU in blocks that fit its caches."""
    _check(arguments)
    entropy, group = arguments.entropy, arguments.group
    if entropy.numel() == 0:
        nothing = torch.zeros(entropy.shape, dtype=_dtype(entropy), device=entropy.device)
        return Shaped(nothing, nothing.clone(), torch.zeros(len(entropy), dtype=torch.bool, device=entropy.device))
    if entropy.device.type != "cpu" or settings.scope == "batch" or entropy.numel() <= BLOCK:
        batch = _read_batch(arguments, torch.arange(len(entropy), device=entropy.device))
        return Shaped(*algorithm(batch, settings), batch.informative)
    rewards = torch.empty(entropy.shape, dtype=_dtype(entropy))
    shaped = Shaped(rewards, torch.empty_like(rewards), torch.empty(len(entropy), dtype=torch.bool))
    _, compact, sizes = group.unique(return_inverse=True, return_counts=True)
    order = compact.argsort(stable=True)
    in_order = bool((compact[1:] >= compact[:-1]).all())
    begin = end = 0
    for size in [*sizes.tolist(), None]:  # None ends the last block
        if size is not None and (begin == end or (end + size - begin) * entropy.shape[1] <= BLOCK):
            end += size
            continue
        # A slice is a view, an index a copy.
        rows = slice(begin, end) if in_order else order[begin:end]
        batch = _read_batch(arguments.of(rows), order[begin:end])
        shaped.rewards[rows], shaped.advantages[rows] = algorithm(batch, settings)
        shaped.informative[rows] = batch.informative
        begin, end = end, end + (size or 0)
    return shaped


def _rewards_and_advantages(
    entropy: torch.Tensor, active: torch.Tensor, size: torch.Tensor, batch: _Batch, settings: _Settings
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rewards and advantages of units whose columns are positions within each group.

    Args:
        entropy: (N, U) nats, where U is T (tokens) or 1 (responses). Overwritten: the rewards are returned in it.
        active: (N, U) 1 where there is a unit, 0 elsewhere, in entropy's dtype.
        size: (N,) float64, the row sums of active.

    Returns:
        (N, U) rewards and (N, U) advantages, both 0 where there is no unit.
    """
    dtype = entropy.dtype
    sign = 2 * batch.correct.double() - 1
    base = sign * (settings.alpha1 + settings.alpha2) + batch.penalty  # (N,) the reward where the deviation is 0
    slope = sign * settings.alpha2  # (N,)
    deviation = _share_deviation(entropy, active, batch)  # (N, U)
    mean, scale = _statistics(base, slope, size, deviation, batch, settings)

    def line(offset: torch.Tensor, slope: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        # offset * active + slope * deviation, for each row
        result = torch.mul(deviation, slope.to(dtype)[:, None], out=out)
        return result.addcmul_(active, offset.to(dtype)[:, None])

    rewards = line(base, slope, out=entropy)
    return rewards, line((base - mean) * scale, slope * scale, out=deviation)


def _share_deviation(entropy: torch.Tensor, active: torch.Tensor, batch: _Batch) -> torch.Tensor:
    """(N, U) w / mean(w) - 1 over the units active at the same position of the same group and class; 0 off active.

    Overwrites entropy.
    """
    is_correct = batch.correct.to(entropy.dtype)[:, None]
    floor = torch.full_like(is_correct, SMALLEST_WRONG_ENTROPY).masked_fill_(batch.correct[:, None], _ZERO_ENTROPY)
    clamped = torch.maximum(entropy, floor, out=entropy)
    # H in correct rows and 1/H in wrong ones: arithmetic is several times faster than torch.where on a bool column.
    weight = (clamped * is_correct).addcdiv_(1 - is_correct, clamped).mul_(active)
    group_class = batch.group_class
    total = entropy.new_zeros(2 * batch.groups, entropy.shape[1]).index_add_(0, group_class, weight)
    count = torch.zeros_like(total).index_add_(0, group_class, active)
    # Division by the mean, unlike multiplication by its inverse, makes the share of a single unit exactly 1.
    mean = torch.where(count > 0, total / count, 1.0)
    return weight.div_(torch.index_select(mean, 0, group_class, out=entropy)).sub_(active)


def _statistics(
    base: torch.Tensor,
    slope: torch.Tensor,
    size: torch.Tensor,
    deviation: torch.Tensor,
    batch: _Batch,
    settings: _Settings,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and inverse standard deviation in Eq. 6 and Eq. 1, of the rewards base + slope * deviation.

    Args:
        base: (N,) float64.
        slope: (N,) float64.
        size: (N,) float64, the number of units of each response.
        deviation: (N, U).

    Returns:
        (N,) float64, the mean for the response's class over the set that ``over`` and ``scope`` choose; (N,) float64,
        1 / (std + eps), or 0 where the rewards do not vary or the group is uninformative.
    """
    first = deviation.sum(dim=1).double()
    second = torch.linalg.vector_norm(deviation, dim=1).double().square()
    if settings.scope == "group":
        scopes, scope = batch.groups, batch.group
    else:
        scopes, scope = 1, torch.zeros_like(batch.group)
    scope_class = scope + scopes * ~batch.correct
    informative = batch.informative.double()

    def total(values: torch.Tensor) -> torch.Tensor:
        return values.new_zeros(2 * scopes).index_add_(0, scope_class, values * informative)

    own = total(size)  # (2 * scopes,) units of each class
    # With over="group" the units of the other class are members too, with reward 0.
    others = own.roll(scopes) if settings.over == "group" else torch.zeros_like(own)
    members = (own + others).clamp(min=1)
    mean = total(base * size + slope * first) / members
    centred = base - mean[scope_class]
    squares = slope.square() * second + 2 * slope * centred * first + centred.square() * size
    std = ((total(squares) + others * mean.square()) / members).clamp(min=0).sqrt()
    # A std below this is rounding noise: shares have the entropies' precision, everything else has float64's.
    coarse, fine = torch.finfo(batch.entropy.dtype).eps, torch.finfo(base.dtype).eps
    noise = 8 * (coarse * settings.alpha2 + fine * base.abs().max())
    scale = torch.where(std > noise, 1 / (std + settings.eps), 0.0)
    return mean[scope_class], scale[scope_class] * informative


def _is_lined_up(batch: _Batch) -> bool:
    """Whether columns are positions: there are no gaps, and the responses of a group begin in the same column."""
    mask, present = batch.mask, batch.length > 0
    runs = (mask[:, 1:] & ~mask[:, :-1]).count_nonzero() + mask[:, :1].count_nonzero()
    begin = mask.view(torch.uint8).argmax(dim=1)  # (N,) the first response token: argmax takes the first of equals
    seen = begin.new_zeros(2, batch.groups).index_add_(1, batch.group, torch.stack((begin, present.long())) * present)
    sum_of_begins, responses = seen[:, batch.group]
    # They are equal if each equals their mean.
    begins_together = (begin * responses == sum_of_begins) | ~present
    return bool((runs == present.count_nonzero()) & begins_together.all())


def _read_settings(alpha1: float, alpha2: float, over: Over, scope: Scope, eps: float) -> _Settings:
    for name, value in (("alpha1", alpha1), ("alpha2", alpha2), ("eps", eps)):
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} must be a finite number of at least 0, got {value}")
    if over not in ("group", "class"):
        raise ValueError(f'over must be "group" or "class", got {over!r}')
    if scope not in ("group", "batch"):
        raise ValueError(f'scope must be "group" or "batch", got {scope!r}')
    if over == "class":
        warnings.warn(
            'over="class" normalises correct and wrong responses separately, so advantages no longer distinguish them '
            "(on a small policy pass@1 fell from 0.33 to below 0.1 with each of 3 seeds): use it for comparison only",
            stacklevel=3,
        )
    return _Settings(alpha1, alpha2, over, scope, eps)


def _check(arguments: _Arguments) -> None:
    """Check shapes, types and devices, and the values of all but the (N, T) tensors, which `_read_batch` checks."""
    entropy, mask, correct, group = arguments.entropy, arguments.mask, arguments.correct, arguments.group
    penalty, entropy_clip = arguments.penalty, arguments.entropy_clip
    if entropy.dim() != 2 or not entropy.is_floating_point():
        raise ValueError(f"entropy must be a float tensor of shape (N, T), got {described(entropy)}")
    responses, device = len(entropy), entropy.device
    if mask.shape != entropy.shape:
        raise ValueError(f"mask must have entropy's shape {tuple(entropy.shape)}, got {described(mask)}")
    if correct.shape != (responses,) or correct.dtype != torch.bool:
        raise ValueError(f"correct must be a bool tensor of shape ({responses},), got {described(correct)}")
    if group.shape != (responses,) or group.is_floating_point() or group.is_complex() or group.dtype == torch.bool:
        raise ValueError(f"group must be an integer tensor of shape ({responses},), got {described(group)}")
    if penalty is not None:
        if penalty.shape != (responses,) or not penalty.is_floating_point():
            raise ValueError(f"penalty must be a float tensor of shape ({responses},), got {described(penalty)}")
        if not penalty.isfinite().all():
            raise ValueError("penalty must be finite, but it holds inf or NaN")
    if entropy_clip is not None:
        low, high = entropy_clip
        if not (0 <= low <= high and low < math.inf):
            raise ValueError(f"entropy_clip must be (low, high) with 0 <= low <= high in nats, got {entropy_clip}")
    for name, tensor in (("mask", mask), ("correct", correct), ("group", group), ("penalty", penalty)):
        if tensor is not None and tensor.device != device:
            raise ValueError(f"{name} must be on entropy's device {device}, but it is on {tensor.device}")


def _dtype(entropy: torch.Tensor) -> torch.dtype:
    return torch.float64 if entropy.dtype == torch.float64 else torch.float32


def _read_batch(arguments: _Arguments, numbers: torch.Tensor) -> _Batch:
    """Check the (N, T) values and build the tensors of the calculation.

    Args:
        arguments: of whole groups.
        numbers: (N,) int, the caller's indices of these responses, for error messages.
    """
    entropy, mask, correct, group = arguments.entropy, arguments.mask, arguments.correct, arguments.group
    device = entropy.device
    if mask.dtype != torch.bool and mask.numel():
        least, most = mask.aminmax()
        if not (least >= 0 and most <= 1) or (mask.is_floating_point() and mask.frac().any()):
            raise ValueError("mask must hold nothing but 0 and 1, but it holds other values")
    on = mask.bool()
    dtype = _dtype(entropy)
    nats = torch.where(on, entropy.detach(), 0.0).to(dtype)  # always a copy
    if nats.numel():
        least, most = nats.aminmax()  # NaN if any is
        if not (least >= 0 and most < math.inf):
            row, column = (~((nats >= 0) & nats.isfinite())).nonzero()[0].tolist()
            raise ValueError(
                "entropy must be finite and at least 0 wherever the mask is 1, but it is "
                f"{nats[row, column].item()} in response {numbers[row].item()}, column {column}"
            )
    active = on.to(dtype)
    if arguments.entropy_clip is not None:
        nats.clamp_(*arguments.entropy_clip).mul_(active)
    length = active.sum(dim=1).double()
    ids, compact = group.unique(return_inverse=True)
    present = (length > 0)[:, None]
    seen = torch.zeros(len(ids), 2, dtype=torch.int64, device=device)  # non-empty responses: correct, wrong
    seen.index_add_(0, compact, (present & torch.stack((correct, ~correct), dim=1)).long())
    penalty = arguments.penalty
    return _Batch(
        entropy=nats,
        mask=on,
        active=active,
        length=length,
        correct=correct,
        group=compact,
        groups=len(ids),
        informative=(seen > 0).all(dim=1)[compact],
        penalty=torch.zeros_like(length) if penalty is None else penalty.detach().double(),
    )
