"""Every random number of a run follows from ``--train.seed`` and from what it is for, never from what came first.

So two runs differ in what was changed between them, and a run that is resumed draws what it would have drawn.

| for | derived from the seed and |
|---|---|
| a response of the policy | "policy", the step, the prompt's place in the batch, the response's place in its group |
| a response of the guide, or its choice among worked solutions | "guide", and the same places |
| a response in an evaluation during training | "evaluation", the step, the prompt's place, the response's place |
| the shuffles of an update, and dropout | "update", the step |
| a control's permutations | "weights", the step |
| the order of the prompts | "prompts" |
| a response in ``openrlhf-gtpo eval`` | "eval", the prompt's number in its benchmark, the response's place |

A turn of an agent adds its number."""

import hashlib
import json
import random
from typing import Any

__all__ = ["derived", "seed_process"]


def derived(seed: int, *purpose: str | int) -> int:
    """A seed for one purpose, from 0 to 2^63 - 1; other purposes get seeds that have nothing to do with it.

    Args:
        seed: what it is derived from.
        purpose: names and places.
    """
    digest = hashlib.sha256(json.dumps([seed, *purpose]).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def seed_process(_: Any, seed: int) -> None:
    """Seed Python's, numpy's and torch's generators of this process; for Ray's ``__ray_call__``, which passes an
    actor."""
    import numpy
    import torch

    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    torch.manual_seed(seed)
