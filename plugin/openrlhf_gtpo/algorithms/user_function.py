"""A user's own function from rollouts to advantages (``--algo.advantage.estimator FILE.py:NAME``), and what is tried
before training of it and of a user's own estimator."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch

from openrlhf_gtpo.algorithms import user_file
from openrlhf_gtpo.algorithms.estimators import Estimate, Rollouts
from openrlhf_gtpo.algorithms.table import Estimator
from openrlhf_gtpo.algorithms.user_file import FileUnusable, parts, told

ARGUMENTS = ("entropy", "logprob", "mask", "correct", "reward", "group")
"""What the function is called with, by name; `Rollouts` describes each."""


def function(rollouts: Rollouts, function: str) -> Estimate:
    """Advantages of a user's own function (no arXiv paper but yours).

    Args:
        rollouts: the batch.
        function: ``FILE.py:NAME``.

    Raises:
        FileUnusable: it cannot be loaded, raised an exception, or returned something else than finite advantages
            of shape (N, T).
    """
    advantages = _called(load(function), function, rollouts)
    return Estimate(advantages, rollouts.reward)


@functools.cache
def load(place: str) -> Callable[..., Any]:
    """The function named ``FILE.py:NAME``.

    Raises:
        FileUnusable: there is no such file, or the function does not take the six arguments.
    """
    path, name = parts(place)
    call: Callable[..., Any] = getattr(user_file.load(path), name)  # `table.line_of` has seen it
    try:
        inspect.signature(call).bind(**dict.fromkeys(ARGUMENTS))
    except TypeError as error:
        raise FileUnusable(
            f"{place} does not take the arguments {', '.join(ARGUMENTS)} by name ({error}): give it these six, or "
            f'add it to ESTIMATORS as "{name}"'
        ) from error
    return call


def try_out(place: str, estimator: Estimator, options: Mapping[str, Any], group_size: int) -> None:
    """Call a user's own function or estimator on two small groups, as training would, so that what is wrong shows
    before it starts.

    Args:
        place: ``FILE.py:NAME``.
        estimator: its line.
        options: the values of its flags.
        group_size: G, responses per prompt.

    Raises:
        FileUnusable: it or its loss cannot be loaded, it raised an exception, or returned something else than an
            `Estimate` with finite advantages of shape (N, T).
    """
    rollouts, path = small_batch(group_size), parts(place)[0]
    try:
        estimator.load_loss()
        estimate = estimator.load()(rollouts, **options)
    except FileUnusable:
        raise
    except Exception as error:
        raise FileUnusable(f"{place} failed: {told(error, path)}") from error
    if not isinstance(estimate, Estimate):
        raise FileUnusable(f"{place} returned {type(estimate)!r}, but an estimator returns an Estimate")
    _checked(estimate.advantages, place, rollouts)


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


def _called(call: Callable[..., Any], place: str, rollouts: Rollouts) -> torch.Tensor:
    """(N, T) what the function returns, checked, and 0 off the mask."""
    given = {name: getattr(rollouts, name) for name in ARGUMENTS}
    copies = {name: None if tensor is None else tensor.clone() for name, tensor in given.items()}
    try:
        returned = call(**copies)
    except Exception as error:
        raise FileUnusable(f"{place} failed: {told(error, parts(place)[0])}") from error
    return _checked(returned, place, rollouts)


def _checked(returned: Any, place: str, rollouts: Rollouts) -> torch.Tensor:
    """(N, T) what was returned as advantages, 0 off the mask."""
    shape = tuple(rollouts.mask.shape)
    if not isinstance(returned, torch.Tensor) or tuple(returned.shape) != shape or not returned.is_floating_point():
        said = (
            f"{returned.dtype} of shape {tuple(returned.shape)}"
            if isinstance(returned, torch.Tensor)
            else repr(type(returned))
        )
        raise FileUnusable(f"{place} returned {said}, but advantages are a float tensor of shape (N, T), {shape}")
    advantages = torch.where(rollouts.mask, returned.detach(), 0.0).to(rollouts.entropy.dtype)
    if not advantages.isfinite().all():
        row, column = (~advantages.isfinite()).nonzero()[0].tolist()
        raise FileUnusable(
            f"{place} returned {advantages[row, column].item()} for response {row}, column {column}, but advantages "
            "have to be finite on every response token"
        )
    return advantages
