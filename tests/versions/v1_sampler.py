"""The hook in vLLM's V1 sampler and its rejection sampler, called with logits of our own, against float64.

``TORCH_COMPILE_DISABLE=1 python v1_sampler.py ANSWER``. Every request is asked of an unhooked sampler first, and the
tokens must be the same.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from vllm.config import VllmConfig, set_current_vllm_config
from vllm.v1.outputs import LogprobsTensors
from vllm.v1.sample.logits_processor import LogitsProcessors
from vllm.v1.sample.metadata import SamplingMetadata
from vllm.v1.sample.rejection_sampler import RejectionSampler
from vllm.v1.sample.sampler import Sampler
from vllm.v1.spec_decode.metadata import SpecDecodeMetadata

from openrlhf_gtpo.algorithms.distribution import CONFIG_KEY, STATISTICS
from openrlhf_gtpo.engine import hook as vllm_hook
from openrlhf_gtpo.engine import refusals

ROWS, VOCABULARY = 6, 400
EVERY = tuple(STATISTICS)
TEMPERATURES = [1.0, 0.7, 0.0, 1.3, 1.0, 0.0]
"""0 is a greedy request."""


def a_sampler(statistics: Sequence[str], mode: str = "processed_logprobs") -> Any:
    """As a worker makes it: while vLLM has the engine's configuration at hand."""
    with set_current_vllm_config(VllmConfig(additional_config={CONFIG_KEY: list(statistics)})):
        return Sampler(mode)


def asked(num_logprobs: int | None, temperatures: Sequence[float] = TEMPERATURES, **others: Any) -> SamplingMetadata:
    rows, greedy = len(temperatures), [temperature == 0.0 for temperature in temperatures]
    given: dict[str, Any] = {
        "temperature": torch.tensor(temperatures),
        "all_greedy": all(greedy),
        "all_random": not any(greedy),
        "top_p": None,
        "top_k": None,
        "generators": {},
        "max_num_logprobs": num_logprobs,
        "no_penalties": True,
        "prompt_token_ids": None,
        "frequency_penalties": torch.zeros(rows),
        "presence_penalties": torch.zeros(rows),
        "repetition_penalties": torch.ones(rows),
        "output_token_ids": [[] for _ in temperatures],
        "allowed_token_ids_mask": None,
        "bad_words_token_ids": {},
        "logitsprocs": LogitsProcessors(),
    }
    return SamplingMetadata(**{**given, **others})


def sample(sampler: Any, logits: torch.Tensor, metadata: SamplingMetadata) -> tuple[list[int], LogprobsTensors]:
    torch.manual_seed(7)
    output = sampler(logits.clone(), metadata)  # which it changes
    return output.sampled_token_ids.flatten().tolist(), output.logprobs_tensors


def distribution(logits: torch.Tensor, metadata: SamplingMetadata) -> torch.Tensor:
    """(rows, V) float64 log-probabilities of what is sampled from; of greedy requests at temperature 1."""
    logits = logits.double() / torch.where(metadata.temperature == 0, 1.0, metadata.temperature).double()[:, None]
    if metadata.top_k is not None:
        least = logits.sort(descending=True).values.gather(1, metadata.top_k.long()[:, None] - 1)
        logits = logits.masked_fill(logits < least, float("-inf"))
    return logits.log_softmax(-1)


def expected(logp: torch.Tensor, sampled: Sequence[int]) -> torch.Tensor:
    """(rows, 5): the sampled token's log-probability, then each statistic in the order of the list."""
    p = logp.exp()
    columns = [
        logp[range(len(logp)), list(sampled)],
        -(p * logp).nan_to_num(0.0).sum(-1),
        p.square().sum(-1),
        logp.isfinite().sum(-1),
        -logp.amax(-1),
    ]
    return torch.stack(columns, dim=1)


torch.manual_seed(0)
LOGITS = torch.randn(ROWS, VOCABULARY) * 3
LOGITS[0, 0] = 60.0  # sampled: the other entries' ids begin with 1
LOGITS[1, 5:300] = float("-inf")
BATCHES: dict[str, tuple[torch.Tensor, dict[str, Any]]] = {
    "mixed": (LOGITS, {}),
    "random": (LOGITS, {"temperatures": [1.0] * ROWS}),
    "greedy": (LOGITS, {"temperatures": [0.0] * ROWS}),
    "top-k": (LOGITS, {"top_k": torch.tensor([3, 400, 400, 5, 1, 400], dtype=torch.int32)}),
    "seeds": (LOGITS, {"temperatures": [1.0] * ROWS}),
    "one row": (LOGITS[1:2], {"temperatures": [0.7]}),
    "bfloat16": (LOGITS.bfloat16(), {}),
}


def metadata_of(name: str, num_logprobs: int | None) -> SamplingMetadata:
    others = {"generators": {1: torch.Generator().manual_seed(3)}} if name == "seeds" else {}
    return asked(num_logprobs, **BATCHES[name][1], **others)


plain = Sampler("processed_logprobs")
unhooked = {
    (name, k): sample(plain, logits, metadata_of(name, k)) for name, (logits, _) in BATCHES.items() for k in (1, 4)
}
named = asked(1, logprob_token_ids={0: [5, 6], 1: [7]})
unhooked_named = sample(plain, LOGITS, named)
# The entropy takes the first place beside the sampled token, which vLLM puts first (its RFC 42259 would leave it out).
for (name, k), (tokens, scores) in unhooked.items():
    assert scores.logprob_token_ids.shape == (len(tokens), 1 + k), name
    assert scores.logprob_token_ids[:, 0].tolist() == tokens, name
    assert scores.logprob_token_ids[:, 1].tolist() == BATCHES[name][0].argmax(-1).tolist(), name
unhooked_all = sample(plain, LOGITS, asked(-1))[1]
DRAFTS = [[301, 302], [13]]
"""Two requests: two drafts and one, each with a bonus token."""
VERIFIED = torch.tensor([[301, 302, 3], [0, -1, -1]])  # all accepted; the draft rejected, and 0 in its place
speculative = SpecDecodeMetadata.make_dummy(DRAFTS, torch.device("cpu"))
speculative.target_logits_indices = torch.tensor([0, 1, 3])
speculative.bonus_logits_indices = torch.tensor([2, 4])
FIVE = LOGITS[:5]


def verify(sampler: Any, num_logprobs: int) -> LogprobsTensors:
    targets, bonus = FIVE[speculative.target_logits_indices], FIVE[speculative.bonus_logits_indices]
    return RejectionSampler(sampler)._get_logprobs_tensors(num_logprobs, speculative, FIVE, targets, bonus, VERIFIED)


for _ in range(2):  # again: changes nothing
    vllm_hook.install()
    refusals.install()
assert vllm_hook.is_hooked(plain)

apart, vllms_apart = [], []
for name, (logits, _) in BATCHES.items():
    for statistics in (EVERY, ("entropy",), EVERY[::-1]):
        k, metadata = len(statistics), metadata_of(name, len(statistics))
        with profile(activities=[ProfilerActivity.CPU]) as work:
            tokens, scores = sample(a_sampler(statistics), logits, metadata)
        done = {event.key for event in work.key_averages()}
        assert "aten::_log_softmax" not in done, (name, "is done in the one pass")
        assert name == "top-k" or "aten::topk" not in done, (name, "is done in the one pass")
        assert tokens == unhooked[name, k][0], (name, "other tokens than without the hook")
        assert scores.logprob_token_ids.dtype == torch.int32
        assert scores.logprob_token_ids[:, 0].tolist() == tokens
        assert all(len(set(ids)) == 1 + k for ids in scores.logprob_token_ids.tolist())
        assert scores.selected_token_ranks.tolist() == [0] * len(tokens)
        wanted = expected(distribution(logits, metadata), tokens)
        order = [0, *(1 + EVERY.index(statistic) for statistic in statistics)]
        apart.append((scores.logprobs - wanted[:, order]).abs().max().item())
        vllms_apart.append((unhooked[name, k][1].logprobs[:, 0] - wanted[:, 0]).abs().max().item())

# What is asked for beside the statistics. Fewer columns hold the first ones, more hold vLLM's after them.
one = a_sampler(EVERY)
tokens, few = sample(one, LOGITS, asked(2))
full = sample(one, LOGITS, asked(4))[1]
assert torch.equal(few.logprobs, full.logprobs[:, :3])
tokens, more = sample(one, LOGITS, asked(6))
torch.testing.assert_close(more.logprobs[:, :5], full.logprobs, atol=1e-6, rtol=1e-6)
sixth = distribution(LOGITS, asked(6)).sort(descending=True).values[:, 4:6]
torch.testing.assert_close(more.logprobs[:, 5:].double(), sixth, atol=1e-5, rtol=1e-5)
assert (more.selected_token_ranks >= 1).all()
assert sample(one, LOGITS, asked(None)) == (tokens, None), "nobody asked"
assert sample(one, LOGITS, asked(0))[1].logprobs.shape == (ROWS, 1)
assert torch.equal(sample(one, LOGITS, asked(-1))[1].logprobs, unhooked_all.logprobs), "the whole vocabulary"
_, by_name = sample(a_sampler(["entropy"]), LOGITS, named)
assert torch.equal(by_name.logprobs, unhooked_named[1].logprobs), "tokens that a request names"
# A token behind the entropy would have its id: of three that can be sampled, it is the second most likely.
three = torch.full_like(LOGITS, float("-inf"))
three[:, :3] = torch.tensor([1.0, 2.0, 0.0])
three[0, :3] = torch.tensor([60.0, 1.0, 0.0])
drawn, scores = sample(a_sampler(["entropy"]), three, asked(2))
wanted = expected(distribution(three, asked(2)), drawn)
for row, token in enumerate(drawn):
    by_id = dict(zip(scores.logprob_token_ids[row].tolist(), scores.logprobs[row].tolist(), strict=True))
    assert abs(by_id[token] - wanted[row, 0]) < 1e-5
    assert abs(by_id[int(token == 0)] - wanted[row, 1]) < 1e-5
# Prompts.
logp = LOGITS.log_softmax(-1)
prompt = one.gather_logprobs(logp, 4, torch.arange(ROWS))
assert prompt.logprob_token_ids[:, 1].tolist() == LOGITS.argmax(-1).tolist()
# No engine has entropies of another distribution.
for mode in ("raw_logprobs", "raw_logits", "processed_logits"):
    said = ""
    try:
        a_sampler(["entropy"], mode)
    except vllm_hook.EntropyHookError as refused:
        said = str(refused)
    assert f"--logprobs-mode is {mode}, with which" in said
# Logits that are no numbers have no statistics, and change no other row.
broken = LOGITS.clone()
broken[3, 9], broken[4] = float("nan"), float("-inf")
found = sample(one, broken, asked(4))[1].logprobs
assert found[3:5].isnan().all()
assert torch.equal(found[:3], full.logprobs[:3])
# Speculative decoding: the entries of drafts that were accepted, and of the bonus token.
checked, accepted = verify(one, 4), [301, 302, 3, 0]
assert checked.logprob_token_ids[:4, 0].tolist() == accepted
apart.append((checked.logprobs[:4] - expected(FIVE[:4].double().log_softmax(-1), accepted)).abs().max().item())
assert verify(one, 6).logprobs.shape == (6, 7)

answer = {"apart": max(apart), "vllms_logprob_apart": max(vllms_apart)}
Path(sys.argv[1]).write_text(json.dumps(answer), encoding="utf-8")
