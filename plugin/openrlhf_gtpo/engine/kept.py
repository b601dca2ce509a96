"""The tokens that top-k, top-p and other limits keep, in columns beside the hook's statistics.

vLLM returns them by itself (``return_sampling_mask``, from 0.29 on), but only from its V2 sampler, which needs Triton,
and with one message a token. Here they take the way of the entropies, from either sampler: each column has the id of
a token. Their number is bounded by top-k, which vLLM's own way asks for too."""

import torch

CONFIG_KEY = "openrlhf_gtpo_kept_tokens"
"""The number of columns in vLLM's ``additional_config``."""

KEPT = "kept"
"""What each of the columns is called, beside the names of statistics."""


def kept_tokens(logits: torch.Tensor, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The tokens of each row that can be sampled, the likeliest first.

    Args:
        logits: (rows, V), -inf where a token cannot be sampled.
        columns: C, the most tokens that are wanted of a row.

    Returns:
        Ids (rows, C) int64, and scores (rows, C) float32: 0 for an id that only fills its place. For the others the
        number of tokens that can be sampled, or C + 1 if there are more than C.
    """
    values, ids = logits.topk(min(columns + 1, logits.shape[1]), dim=-1)
    can_be_sampled = values > float("-inf")
    scores = can_be_sampled * can_be_sampled.sum(dim=-1, keepdim=True, dtype=torch.float32)
    missing = (0, max(0, columns - ids.shape[1]))  # a vocabulary may be smaller
    return tuple(torch.nn.functional.pad(one[:, :columns], missing) for one in (ids, scores))  # type: ignore[return-value]
