"""Estimators: functions that turn `Rollouts` into an `Estimate` with advantages, by the name of the flag
``--algo.advantage.estimator``. To add one, write a function and put it into `ESTIMATORS`. A user's, ``FILE.py:NAME``,
is a function of tensors, `ARGUMENTS`, that returns advantages, (N, T): docs/examples/shaping_function.py."""

import functools
import inspect
import os
import runpy
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from openrlhf_gtpo import shaping
from openrlhf_gtpo.algorithms.arguments import check_tensor

STD_EPS = 1e-9
"""Added to a group's standard deviation, as in OpenRLHF's group_norm."""


@dataclass(frozen=True, eq=False)
class Rollouts:
    """A rollout batch as an estimator sees it: N responses, T token columns."""

    entropy: torch.Tensor
    """(N, T) float, nats, of the distribution that each token was sampled from; 0 off the mask."""
    logprob: torch.Tensor
    """(N, T) float, the log-probability of each token in that distribution; 0 off the mask."""
    mask: torch.Tensor
    """(N, T) bool, True on the responses' tokens."""
    correct: torch.Tensor | None
    """(N,) bool, verified correctness; None where an estimator does not need it and the scores are not binary."""
    group: torch.Tensor
    """(N,) int from 0, which prompt each response answers. A group may have any size, 1 too."""
    reward: torch.Tensor
    """(N,) float, with every penalty."""
    penalty: torch.Tensor
    """(N,) float, the part of the reward that is penalties (length, overlong punishment)."""
    reward_clip: tuple[float, float] = (-torch.inf, torch.inf)
    """OpenRLHF's bounds of a normalised reward (``--reward.clip_range``), for `group_norm`, which is OpenRLHF's."""
    after_answer: torch.Tensor | None = None
    """(N, T) bool, the tokens after the answer that was graded; None where nobody says where it stands."""
    seed: int = 0
    """Of whatever is drawn for this batch: another one at each step of a run, the same one when a step is repeated."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """What an estimator returns."""

    advantages: torch.Tensor
    """(N, T) float, 0 off the mask."""
    returns: torch.Tensor
    """(N,) float, each response's return, for the log."""
    shaped_rewards: torch.Tensor | None = None
    """(N, T) float, where the estimator shapes rewards token by token."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """What it has to log of this batch, by names that docs/metrics.md describes."""


Function = Callable[..., Estimate]


@dataclass(frozen=True)
class Estimator:
    """A line of the table."""

    function: Function
    """Takes `Rollouts`, and by name the values of ``--shaping.*`` that are ``options``."""
    needs_correctness: bool = False
    """Whether it treats correct and wrong responses differently, so that scores have to be binary."""
    openrlhfs_own: bool = False
    """Whether OpenRLHF has one of this name. Then OpenRLHF's is used, and ours only for groups of different sizes."""
    per_response: bool = False
    """Whether its objective is GRPO-S's: a mean over responses, with one clip for each."""
    options: tuple[str, ...] = ()


def _shaped(shape: Callable[..., shaping.Shaped], rollouts: Rollouts, **options: Any) -> Estimate:
    """The rewards and advantages of `openrlhf_gtpo.shaping`; a ValueError says which option or entropy is wrong."""
    penalty = rollouts.penalty if rollouts.penalty.any() else None
    shaped = shape(rollouts.entropy, rollouts.mask, rollouts.correct, rollouts.group, penalty=penalty, **options)
    length = rollouts.mask.sum(-1).clamp(min=1)
    return Estimate(shaped.advantages, shaped.rewards.sum(-1) / length, shaped.rewards)


def gtpo(rollouts: Rollouts, until: str = "end", **options: Any) -> Estimate:
    """GTPO: tokens share their class's reward by their entropy (arXiv 2508.04349, Eq. 3, 5 and 6). With ``until``
    "answer", those after the answer have a share of 1."""
    return _shaped(shaping.gtpo, rollouts, neutral=rollouts.after_answer if until == "answer" else None, **options)


def grpo_s(rollouts: Rollouts, **options: Any) -> Estimate:
    """GRPO-S: responses share a class's reward by their mean entropy (arXiv 2508.04349, Eq. 8 and 9)."""
    return _shaped(shaping.grpo_s, rollouts, **options)


def group_norm(rollouts: Rollouts) -> Estimate:
    """GRPO: reward minus the group's mean, divided by its standard deviation (arXiv 2402.03300); groups of any
    size."""
    advantages = normalised_in_groups(rollouts.reward, rollouts.group).clamp(*rollouts.reward_clip)
    return Estimate(advantages[:, None] * rollouts.mask, advantages)


def normalised_in_groups(rewards: torch.Tensor, group: torch.Tensor) -> torch.Tensor:
    """Rewards (N,) minus their group's mean, divided by its standard deviation, for groups of any size.

    For groups of one size the result equals that of OpenRLHF's group_norm estimator bit for bit; the standard
    deviation is the sample's (n - 1). There is one exception: a group of equal rewards gets 0, where that estimator
    can divide one rounding error by another (eight rewards of 0.1 get -0.83 each).

    Args:
        rewards: (N,) float, finite.
        group: (N,) integers, which prompt each response answers: any ids, in any order.

    Returns:
        (N,) float32, (r - mean) / (std + 1e-9); 0 for a group of one response.

    Raises:
        ValueError: an argument has the wrong shape or type, or a reward is not finite.
    """
    check_tensor("rewards", rewards, "float", "N")
    check_tensor("group", group, "integer", len(rewards))
    if not rewards.isfinite().all():
        raise ValueError("rewards must be finite, but they hold inf or NaN")
    values = rewards.detach().to(torch.promote_types(rewards.dtype, torch.float32))
    _, place, sizes = group.unique(return_inverse=True, return_counts=True)
    order = place.argsort(stable=True)  # (N,) responses, group by group
    size = sizes[place[order]]  # (N,)
    result = torch.zeros_like(values)
    for responses in sizes.unique().tolist():
        if responses == 1:
            continue  # no deviation, so it keeps 0
        rows = order[size == responses].reshape(-1, responses)  # (groups of this size, responses)
        of_groups = values[rows]
        centred = of_groups - of_groups.mean(-1, keepdim=True)
        scaled = centred / (of_groups.std(-1, keepdim=True) + STD_EPS)
        all_equal = (of_groups == of_groups[:, :1]).all(-1, keepdim=True)
        result[rows] = scaled.masked_fill(all_equal, 0.0)
    return result.float()


OPTIONS = ("alpha1", "alpha2", "over", "scope", "entropy_clip")

ARGUMENTS = ("entropy", "logprob", "mask", "correct", "reward", "group")
"""What a user's function is called with, by name; `Rollouts` describes each."""

ESTIMATORS: dict[str, Estimator] = {
    "gtpo": Estimator(gtpo, needs_correctness=True, options=(*OPTIONS, "until")),
    "grpo_s": Estimator(grpo_s, needs_correctness=True, per_response=True, options=OPTIONS),
    "group_norm": Estimator(group_norm, openrlhfs_own=True),
}


def estimator_named(name: str) -> Estimator | None:
    """The estimator that the flag names; None for one that OpenRLHF alone has.

    Raises:
        ValueError: ``FILE.py:NAME`` has no such function, or the file cannot be run.
    """
    if ".py:" not in name:
        return ESTIMATORS.get("group_norm" if name == "grpo" else name)
    path, _, function = name.rpartition(":")
    if not os.path.isfile(path):
        raise ValueError(f"There is no file {path}: name one, FILE.py:NAME.")
    try:
        found = _functions_of(os.path.abspath(path)).get(function)
    except Exception as error:  # a user's file may raise anything
        line = traceback.extract_tb(error.__traceback__)[-1].lineno
        raise ValueError(f"{path} cannot be run: {type(error).__name__} in line {line}: {error}.") from error
    if not callable(found):
        raise ValueError(f"{path} has no function {function}: name one that is there, FILE.py:NAME.")
    try:
        inspect.signature(found).bind(**dict.fromkeys(ARGUMENTS))
    except TypeError as error:
        raise ValueError(
            f"{name} does not take {', '.join(ARGUMENTS)} by name ({error}): give it these six."
        ) from None
    return Estimator(functools.partial(_of_a_user, name, found))


@functools.cache
def _functions_of(path: str) -> dict[str, Any]:
    """The names that a user's file defines. It is run once in a process, with its folder on the path."""
    folder = os.path.dirname(path)
    if folder not in sys.path:
        sys.path.append(folder)
    return runpy.run_path(path)


def _of_a_user(name: str, function: Callable[..., Any], rollouts: Rollouts) -> Estimate:
    """The advantages of a user's function, checked, and 0 off the mask.

    Raises:
        ValueError: it failed, or returned something else than finite advantages.
    """
    given = {argument: getattr(rollouts, argument) for argument in ARGUMENTS}
    try:
        returned = function(**{key: None if tensor is None else tensor.clone() for key, tensor in given.items()})
    except Exception as error:
        line = traceback.extract_tb(error.__traceback__)[-1].lineno
        raise ValueError(f"{name} failed in line {line}: {type(error).__name__}: {error}.") from error
    shape = tuple(rollouts.mask.shape)
    if not isinstance(returned, torch.Tensor) or tuple(returned.shape) != shape or not returned.is_floating_point():
        is_tensor = isinstance(returned, torch.Tensor)
        said = f"{returned.dtype} of shape {tuple(returned.shape)}" if is_tensor else f"{type(returned)}"
        raise ValueError(f"{name} returned {said}, but advantages are a float tensor of shape (N, T), {shape}.")
    advantages = torch.where(rollouts.mask, returned.detach(), 0.0).to(rollouts.entropy.dtype)
    if not advantages.isfinite().all():
        row, column = (~advantages.isfinite()).nonzero()[0].tolist()
        raise ValueError(
            f"{name} returned {advantages[row, column].item()} for response {row}, column {column}, but advantages "
            "have to be finite on every response token."
        )
    return Estimate(advantages, rollouts.reward)


def try_out(name: str, group_size: int) -> None:
    """Call a user's function on two small groups, as training would, so that what is wrong shows before it starts.

    Args:
        name: ``FILE.py:NAME``.
        group_size: G, responses per prompt.

    Raises:
        ValueError: as `estimator_named`, or the function does not work.
    """
    estimator = estimator_named(name)
    assert estimator is not None
    estimator.function(small_batch(group_size))


def small_batch(group_size: int, seed: int = 0) -> Rollouts:
    """Two groups of responses of one to five tokens, right and wrong in turn, with entropies up to 3 nats and
    log-probabilities down to -6.

    Args:
        group_size: G, responses per prompt.
        seed: of what is drawn.
    """
    n, width = 2 * group_size, 5
    draw = torch.Generator().manual_seed(seed)
    length = torch.arange(n) % width + 1
    mask = torch.arange(width) < length[:, None]
    correct = torch.arange(n) % 2 == 0
    entropy, surprisal = (high * torch.rand(n, width, generator=draw) * mask for high in (3, 6))
    group = torch.arange(n) // group_size
    return Rollouts(entropy, -surprisal, mask, correct, group, correct.float(), torch.zeros(n), seed=seed)
