"""``--shaping.function FILE.py:NAME``: a user's own function from rollouts to advantages."""

import functools
import importlib.util
import inspect
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from openrlhf_gtpo.algorithms.estimators import Estimate, Rollouts

ARGUMENTS = ("entropy", "logprob", "mask", "correct", "reward", "group")
"""What the function is called with, by name; `Rollouts` describes each."""


class FunctionUnusable(ValueError):
    """The function cannot be loaded or does not return advantages; the sentence says why."""


def function(rollouts: Rollouts, function: str | None) -> Estimate:
    """Advantages of a user's own function (``--shaping.function``, no arXiv paper but yours).

    Args:
        rollouts: the batch.
        function: ``FILE.py:NAME``.

    Raises:
        FunctionUnusable: it cannot be loaded, raised an exception, or returned something else than finite advantages
            of shape (N, T).
    """
    assert function is not None
    advantages = _called(load(function), function, rollouts)
    return Estimate(advantages, rollouts.reward)


@functools.cache
def load(place: str) -> Callable[..., Any]:
    """The function named ``FILE.py:NAME``.

    Raises:
        FunctionUnusable: there is no such file or function, or it does not take the six arguments.
    """
    path, name = parts(place)
    if not path.is_file():
        raise FunctionUnusable(f"{path} does not exist: name a Python file and a function in it, FILE.py:NAME")
    spec = importlib.util.spec_from_file_location(f"openrlhf_gtpo_user_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise FunctionUnusable(f"{path} is no Python file: its name has to end in .py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise FunctionUnusable(f"{path} cannot be imported: {_told(error, path)}") from error
    call = getattr(module, name, None)
    if not callable(call):
        raise FunctionUnusable(f"{path} has no function {name}: define one, or name another")
    try:
        inspect.signature(call).bind(**dict.fromkeys(ARGUMENTS))
    except TypeError as error:
        raise FunctionUnusable(
            f"{place} does not take the arguments {', '.join(ARGUMENTS)} by name ({error}): give it these six"
        ) from error
    return call


def parts(place: str) -> tuple[Path, str]:
    """File and name of ``FILE.py:NAME``.

    Raises:
        FunctionUnusable: one of them is missing.
    """
    path, _, name = place.rpartition(":")
    if not (path and name.isidentifier()):
        raise FunctionUnusable(f"{place} does not name a function: write FILE.py:NAME")
    return Path(path).absolute(), name


def try_out(place: str, group_size: int) -> None:
    """Call the function on two small groups, as training would, so that what is wrong shows before it starts.

    Args:
        place: ``FILE.py:NAME``.
        group_size: G, responses per prompt.

    Raises:
        FunctionUnusable: as for `function`.
    """
    n, width = 2 * group_size, 5
    draw = torch.Generator().manual_seed(0)
    length = torch.arange(n) % width + 1
    mask = torch.arange(width) < length[:, None]
    correct = torch.arange(n) % 2 == 0
    entropy = torch.rand(n, width, generator=draw) * mask
    group = torch.arange(n) // group_size
    reward = correct.float()
    function(Rollouts(entropy, -entropy, mask, correct, group, reward, torch.zeros(n)), place)


def _called(call: Callable[..., Any], place: str, rollouts: Rollouts) -> torch.Tensor:
    """(N, T) what the function returns, checked, and 0 off the mask."""
    given = {name: getattr(rollouts, name) for name in ARGUMENTS}
    copies = {name: None if tensor is None else tensor.clone() for name, tensor in given.items()}
    try:
        returned = call(**copies)
    except Exception as error:
        raise FunctionUnusable(f"{place} failed: {_told(error, parts(place)[0])}") from error
    shape = tuple(rollouts.mask.shape)
    if not isinstance(returned, torch.Tensor) or tuple(returned.shape) != shape or not returned.is_floating_point():
        said = (
            f"{returned.dtype} of shape {tuple(returned.shape)}"
            if isinstance(returned, torch.Tensor)
            else repr(type(returned))
        )
        raise FunctionUnusable(f"{place} returned {said}, but advantages are a float tensor of shape (N, T), {shape}")
    advantages = torch.where(rollouts.mask, returned.detach(), 0.0).to(rollouts.entropy.dtype)
    if not advantages.isfinite().all():
        row, column = (~advantages.isfinite()).nonzero()[0].tolist()
        raise FunctionUnusable(
            f"{place} returned {advantages[row, column].item()} for response {row}, column {column}, but advantages "
            "have to be finite on every response token"
        )
    return advantages


def _told(error: Exception, path: Path) -> str:
    """An exception in one line, with the last line of the user's file that it passed."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    place = f" in line {lines[-1]}" if lines else ""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}{place}: {text}" if text else f"{type(error).__name__}{place}"
