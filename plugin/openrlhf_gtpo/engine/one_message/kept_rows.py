"""Rows of log-probabilities of requests that have not ended, in arrays.

In each step the engine has one row for each sampled token, of all requests one below the other. A block takes the
rows of many steps as they come, three copies a step. A request remembers where its rows are, and takes them out when a
new block begins or when it ends. So blocks are freed, and a long request does not keep the rows of others.
"""

import math
from array import array
from typing import Any

import numpy as np

BLOCK_BYTES = 2 * 2**20
"""Of a block: 256 steps of 256 requests with one log-probability beside the sampled token's."""


class _Block:
    """Rows of some steps: token ids and log-probabilities (rows, 1 + k), and the sampled tokens' ranks (rows,)."""

    def __init__(self, like: list[np.ndarray]) -> None:
        size = max(len(like[0]), BLOCK_BYTES // sum(rows.itemsize * math.prod(rows.shape[1:]) for rows in like))
        self.arrays = [np.empty((size, *rows.shape[1:]), dtype=rows.dtype) for rows in like]
        self.used = 0

    def takes(self, rows: list[np.ndarray]) -> bool:
        return self.used + len(rows[0]) <= len(self.arrays[0]) and all(
            mine.shape[1:] == theirs.shape[1:] and mine.dtype == theirs.dtype
            for mine, theirs in zip(self.arrays, rows, strict=True)
        )


class StepRows:
    """The block that the next step's rows go to."""

    def __init__(self) -> None:
        self._block: _Block | None = None

    def add(self, rows: Any, columns: int) -> tuple[_Block, int]:
        """Copy one step's rows.

        Args:
            rows: a ``vllm.v1.outputs.LogprobsLists``.
            columns: how many of its columns a request that is kept could want.

        Returns:
            The block, and the place of the first row in it.
        """
        arrays = [rows.logprob_token_ids[:, :columns], rows.logprobs[:, :columns], rows.sampled_token_ranks]
        if self._block is None or not self._block.takes(arrays):
            self._block = _Block(arrays)
        block, at = self._block, self._block.used
        block.used += len(arrays[0])
        for mine, theirs in zip(block.arrays, arrays, strict=True):
            mine[at : block.used] = theirs
        return block, at


class KeptRequest:
    """One request, and where its rows are."""

    __slots__ = ("_block", "_places", "_taken", "columns", "request")

    def __init__(self, request: Any) -> None:
        """
        Args:
            request: a ``vllm.v1.request.Request``.
        """
        self.request = request
        # A batch has as many columns as the one of its requests that asks for most.
        self.columns = 1 + (request.sampling_params.num_logprobs or 0)
        self._block: _Block | None = None
        self._places = array("q")
        self._taken: list[list[np.ndarray]] = []

    def add(self, block: _Block, place: int, count: int) -> None:
        """Remember ``count`` rows, one below the other."""
        if block is not self._block:
            self._take()
            self._block = block
        if count == 1:
            self._places.append(place)
        else:
            self._places.extend(range(place, place + count))

    def add_rows(self, rows: Any) -> None:
        """Copy rows that no block has, a ``vllm.v1.outputs.LogprobsLists``."""
        self._take()
        ids, logprobs = rows.logprob_token_ids[:, : self.columns], rows.logprobs[:, : self.columns]
        self._taken.append([ids.copy(), logprobs.copy(), rows.sampled_token_ranks.copy()])

    def rows(self) -> list[np.ndarray] | None:
        """All rows, T tokens: ids and log-probabilities (T, 1 + k), ranks (T,); None if there are none."""
        self._take()
        return [np.concatenate(arrays) for arrays in zip(*self._taken, strict=True)] if self._taken else None

    def _take(self) -> None:
        if self._block is None or not self._places:
            return
        places = np.frombuffer(self._places, dtype=np.int64)
        ids, logprobs, ranks = self._block.arrays
        self._taken.append([ids[:, : self.columns][places], logprobs[:, : self.columns][places], ranks[places]])
        self._places = array("q")
