"""Ends OpenRLHF's passes over a step's responses after a number of micro-batches.

OpenRLHF's policy trainer makes ``--train.max_epochs`` whole passes in one method. The last one ends early where its
micro-batches do."""

import contextlib
import itertools
from collections.abc import Iterator
from types import ModuleType
from typing import Any


@contextlib.contextmanager
def stopped_after(module: ModuleType, micro_batches: int) -> Iterator[None]:
    """A context in which a module's ``iter_grad_accum_global_norm``, which OpenRLHF calls once for each pass, gives so
    many micro-batches in all.

    Args:
        module: OpenRLHF's with the policy trainer.
        micro_batches: whole optimiser updates.
    """
    every, left = module.iter_grad_accum_global_norm, micro_batches

    def some(*args: Any) -> Iterator[Any]:
        nonlocal left
        for micro_batch in itertools.islice(every(*args), left):
            left -= 1
            yield micro_batch

    module.iter_grad_accum_global_norm = some  # type: ignore[attr-defined]
    try:
        yield
    finally:
        module.iter_grad_accum_global_norm = every  # type: ignore[attr-defined]
