"""The tokens that a response's tokens were sampled from, for runs that correct by ratios of probabilities.

vLLM's log-probability of a token is normalised over the tokens that top-k and top-p kept, a policy's over the whole
vocabulary, so their ratio is wrong by the mass that was cut off. Over the same tokens it is exact: DeepSeek-V3.2's
"Keep Sampling Mask" (arXiv 2512.02556, 3.1). It takes the tokens themselves: their mass, or their number, says nothing
about the probabilities that another policy gives them. `openrlhf_gtpo.engine.kept` returns them."""

from typing import Any

import numpy as np

from openrlhf_gtpo.engine.kept import CONFIG_KEY
from openrlhf_gtpo.engine.one_message.front_end import ArrayLogprobs
from openrlhf_gtpo.errors import UserError
from openrlhf_gtpo.vllm_entropy import engine_kwargs, sampling_kwargs


class TooManyKept(UserError):
    """More tokens were kept than the engine has columns for."""


def engine_with_kept(columns: int) -> dict[str, Any]:
    """Arguments of an engine that returns entropies and this many kept tokens, or none with 0 columns; else as
    `openrlhf_gtpo.vllm_entropy.engine_kwargs`."""
    given = engine_kwargs()
    if columns:
        given |= {"max_logprobs": given["max_logprobs"] + columns, "additional_config": {CONFIG_KEY: columns}}
    return given


def sampling_with_kept(columns: int) -> dict[str, Any]:
    """Arguments of a request to such an engine, with as many columns or 0; else as
    `openrlhf_gtpo.vllm_entropy.sampling_kwargs`."""
    given = sampling_kwargs()
    return {**given, "logprobs": given["logprobs"] + columns}


def take_kept(completion: Any, columns: int) -> np.ndarray:
    """Take the kept tokens out of a response, whose log-probabilities become those of an engine without them.

    Args:
        completion: a ``vllm.outputs.CompletionOutput`` of a request with `sampling_with_kept`; changed in place.
        columns: the request's.

    Returns:
        (n, 2) int32, a row for each kept token: the place in the response, from 0, and the token's id.

    Raises:
        TooManyKept: at one place more tokens were kept than there are columns.
    """
    tokens, given, own = len(completion.token_ids), completion.logprobs, 1 + sampling_kwargs()["logprobs"]
    if getattr(given, "arrays", None) is not None:
        ids, scores, ranks = given.arrays
    else:  # a short response, or one that vLLM sent token by token
        ids, scores = (np.asarray(one).reshape(tokens, own + columns) for one in (given.token_ids, given.logprobs))
        ranks = np.zeros(tokens, dtype=np.int64)
    completion.logprobs = ArrayLogprobs(ids[:, :own], scores[:, :own], ranks)
    many = scores[:, own:].max(axis=1, initial=0) > columns
    if many.any():
        raise TooManyKept(
            f"At token {many.argmax() + 1} of a response of {tokens}, more than {columns} tokens could be sampled: "
            "--rollout.top_k keeps all that are as likely as the last one, and here too many are. Lower it."
        )
    places, column = scores[:, own:].nonzero()
    return np.stack([places, ids[:, own:][places, column]], axis=1).astype(np.int32)
