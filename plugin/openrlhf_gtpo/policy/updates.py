"""Runs in the training actors, for the controller: which responses make an update."""

import random
from typing import Any


def shuffle_share(rank: Any, seed: int) -> None:
    """Shuffle a rank's responses before OpenRLHF cuts them into updates with dynamic micro-batches.

    OpenRLHF deals them out by length, one to each rank at a time, the longest and the shortest first. Every rank gets
    the same permutation, so that an update still has responses of about the same length on each.

    Args:
        rank: a training actor; Ray's ``__ray_call__`` passes it.
        seed: of the permutation, the same for all ranks.
    """
    random.Random(seed).shuffle(rank.trainer.replay_buffer.items)
