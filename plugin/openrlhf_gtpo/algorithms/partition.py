"""Sequences into micro-batches of nearly the same number of tokens (``--train.dynamic_batch_enable``).

OpenRLHF's partition is Karmarkar and Karp's, which keeps all micro-batches once for each sequence, so its time grows
with sequences times micro-batches. Both ways here take n log n, and the better one of the two is as balanced."""

import heapq
from collections.abc import Sequence

_Part = tuple[int, list[int]]
"""Tokens, and the sequences that have them."""


def balanced_partition(lengths: Sequence[int], parts: int, equal_size: bool = False) -> list[list[int]]:
    """Divide sequences among parts so that the longest part is short.

    Takes the arguments of OpenRLHF's ``get_seqlen_balanced_partitions``.

    Args:
        lengths: tokens of each sequence, at least 1.
        parts: number of parts, at most that of sequences.
        equal_size: whether every part has to have as many sequences as the others.

    Returns:
        For each part the indices of its sequences, in ascending order; none is empty.

    Raises:
        ValueError: there are fewer sequences than parts, or they cannot be divided into parts of equal size.
    """
    if len(lengths) < parts or (equal_size and len(lengths) % parts):
        how = "equal parts" if equal_size else "parts"
        raise ValueError(f"{len(lengths)} sequences cannot be divided into {parts} {how}.")
    longest_first = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    partition = _differencing(lengths, parts, longest_first)
    if not equal_size:
        partition = min(partition, _longest_to_lightest(lengths, parts, longest_first), key=lambda part: max(part)[0])
    return [sorted(members) for _, members in partition]


def _longest_to_lightest(lengths: Sequence[int], parts: int, order: Sequence[int]) -> list[_Part]:
    """Each sequence, the longest first, goes to the part that has the fewest tokens (Graham's LPT rule)."""
    heap: list[_Part] = [(0, []) for _ in range(parts)]
    for i in order:
        tokens, members = heap[0]
        members.append(i)
        heapq.heapreplace(heap, (tokens + lengths[i], members))
    return heap


def _differencing(lengths: Sequence[int], parts: int, order: Sequence[int]) -> list[_Part]:
    """Karmarkar and Karp's differencing of blocks of one sequence a part: of the two blocks with the largest spreads
    the heaviest part of one gets the lightest of the other."""
    heap = []
    for number, start in enumerate(range(0, len(order), parts)):
        block = [(lengths[i], [i]) for i in order[start : start + parts]]
        block += [(0, [])] * (parts - len(block))
        heap.append((block[-1][0] - block[0][0], number, block))
    heapq.heapify(heap)
    while len(heap) > 1:
        (_, number, one), (_, _, other) = heapq.heappop(heap), heapq.heappop(heap)
        pairs = zip(one, reversed(other), strict=True)
        joined = sorted(((a + b, of_a + of_b) for (a, of_a), (b, of_b) in pairs), reverse=True)
        heapq.heappush(heap, (joined[-1][0] - joined[0][0], number, joined))
    return heap[0][2]
