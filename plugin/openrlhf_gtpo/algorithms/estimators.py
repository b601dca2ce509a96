"""Estimators: functions that turn a `RolloutBatch` into an `Estimate` with advantages, by the name of the flag
``--algo.advantage.estimator``. To add one, write its function, and its record in `openrlhf_gtpo.registry`. A user's,
``FILE.py:NAME``, is a function of tensors, `ARGUMENTS`, that returns advantages, (N, T):
docs/examples/shaping_function.py."""

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
from openrlhf_gtpo.batch import Group, Response, RolloutBatch
from openrlhf_gtpo.registry import OTHER_NAMES, RECORDS, Record

STD_EPS = 1e-9
"""Added to a group's standard deviation, as in OpenRLHF's group_norm."""


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


@dataclass(frozen=True, kw_only=True)
class Estimator(Record):
    """An estimator with its function."""

    function: Function
    """Takes a `RolloutBatch`, and by name the values of ``--shaping.*`` that are ``options``."""


def _shaped(shape: Callable[..., shaping.Shaped], batch: RolloutBatch, **options: Any) -> Estimate:
    """The rewards and advantages of `openrlhf_gtpo.shaping`; a ValueError says which option or entropy is wrong."""
    penalty = batch.penalty if batch.penalty.any() else None
    shaped = shape(batch.entropy, batch.mask, batch.correct, batch.group, penalty=penalty, **options)
    length = batch.mask.sum(-1).clamp(min=1)
    return Estimate(shaped.advantages, shaped.rewards.sum(-1) / length, shaped.rewards)


def gtpo(batch: RolloutBatch, until: str = "end", **options: Any) -> Estimate:
    """GTPO: tokens share their class's reward by their entropy (arXiv 2508.04349, Eq. 3, 5 and 6). With ``until``
    "answer", those after the answer have a share of 1."""
    return _shaped(shaping.gtpo, batch, neutral=batch.after_answer if until == "answer" else None, **options)


def grpo_s(batch: RolloutBatch, **options: Any) -> Estimate:
    """GRPO-S: responses share a class's reward by their mean entropy (arXiv 2508.04349, Eq. 8 and 9)."""
    return _shaped(shaping.grpo_s, batch, **options)


def group_norm(batch: RolloutBatch) -> Estimate:
    """GRPO: reward minus the group's mean, divided by its standard deviation (arXiv 2402.03300); groups of any
    size."""
    advantages = normalised_in_groups(batch.reward, batch.group).clamp(*batch.reward_clip)
    return Estimate(advantages[:, None] * batch.mask, advantages)


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


ARGUMENTS = ("entropy", "logprob", "mask", "correct", "reward", "group")
"""What a user's function is called with, by name; `RolloutBatch` describes each."""

ESTIMATORS = {name: Estimator(function=globals()[name], **vars(record)) for name, record in RECORDS.items()}


def estimator_named(name: str) -> Estimator | None:
    """The estimator that the flag names; None for one that OpenRLHF alone has.

    Raises:
        ValueError: ``FILE.py:NAME`` has no such function, or the file cannot be run.
    """
    if ".py:" not in name:
        return ESTIMATORS.get(OTHER_NAMES.get(name, name))
    path, _, function = name.rpartition(":")
    if not os.path.isfile(path):
        raise ValueError(f"There is no file {path}: name one, FILE.py:NAME.")
    try:
        found = functions_of(os.path.abspath(path)).get(function)
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
    return Estimator(function=functools.partial(_of_a_user, name, found))


@functools.cache
def functions_of(path: str) -> dict[str, Any]:
    """The names that a user's file, an absolute path, defines. It is run once in a process, with its folder on the
    path."""
    folder = os.path.dirname(path)
    if folder not in sys.path:
        sys.path.append(folder)
    return runpy.run_path(path)


def _of_a_user(name: str, function: Callable[..., Any], batch: RolloutBatch) -> Estimate:
    """The advantages of a user's function, checked, and 0 off the mask.

    Raises:
        ValueError: it failed, or returned something else than finite advantages.
    """
    given = {argument: getattr(batch, argument) for argument in ARGUMENTS}
    try:
        returned = function(**{key: None if tensor is None else tensor.clone() for key, tensor in given.items()})
    except Exception as error:
        line = traceback.extract_tb(error.__traceback__)[-1].lineno
        raise ValueError(f"{name} failed in line {line}: {type(error).__name__}: {error}.") from error
    shape = tuple(batch.mask.shape)
    if not isinstance(returned, torch.Tensor) or tuple(returned.shape) != shape or not returned.is_floating_point():
        is_tensor = isinstance(returned, torch.Tensor)
        said = f"{returned.dtype} of shape {tuple(returned.shape)}" if is_tensor else f"{type(returned)}"
        raise ValueError(f"{name} returned {said}, but advantages are a float tensor of shape (N, T), {shape}.")
    advantages = torch.where(batch.mask, returned.detach(), 0.0).to(batch.entropy.dtype)
    if not advantages.isfinite().all():
        row, column = (~advantages.isfinite()).nonzero()[0].tolist()
        raise ValueError(
            f"{name} returned {advantages[row, column].item()} for response {row}, column {column}, but advantages "
            "have to be finite on every response token."
        )
    return Estimate(advantages, batch.reward)


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


def small_batch(group_size: int, seed: int = 0) -> RolloutBatch:
    """Two groups of responses of one to five tokens, right and wrong in turn, with entropies up to 3 nats and
    log-probabilities down to -6.

    Args:
        group_size: G, responses per prompt.
        seed: of what is drawn.
    """
    draw = torch.Generator().manual_seed(seed)

    def response(number: int) -> Response:
        n, score = number % 5 + 1, float(number % 2 == 0)
        entropy, surprisal = (torch.rand(n + 1, generator=draw) * high for high in (3, 6))
        returned = {
            "observation_tokens": [0] * (n + 1),
            "action_ranges": [(1, n + 1)],
            "entropy": entropy.tolist(),
            "logprob": (-surprisal).tolist(),
            "answer_end": n + 1,
            "scores": score,
            "reward": score,
        }
        return Response(returned, n + 1)

    responses = [response(number) for number in range(2 * group_size)]
    return RolloutBatch([Group(responses[:group_size]), Group(responses[group_size:])], seed=seed)
