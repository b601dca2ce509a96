"""Batches that fill whole optimiser updates."""

import math
from typing import Any

__all__ = ["whole_updates"]


def whole_updates(args: Any) -> int:
    """The number of responses that has to divide a batch, so that it fills optimiser updates of ``--train.batch_size``
    and gives every rank the same number of micro-batches.

    Args:
        args: OpenRLHF's nested ``args``.
    """
    ranks = args.actor.num_nodes * args.actor.num_gpus_per_node
    ranks //= args.ds.ring_attn_size * args.ds.tensor_parallel_size
    return math.lcm(args.train.batch_size, args.rollout.micro_batch_size * ranks)
