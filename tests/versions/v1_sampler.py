"""The hook in the rejection sampler of vLLM's V1, called with logits of our own, against float64.

``python v1_sampler.py ANSWER``. The engine of `exactness.py` samples with V1 too, but never from drafts.
"""

from typing import Any

import torch
from reference import answer, expected
from vllm.config import VllmConfig, set_current_vllm_config
from vllm.v1.outputs import LogprobsTensors
from vllm.v1.sample.rejection_sampler import RejectionSampler
from vllm.v1.sample.sampler import Sampler
from vllm.v1.spec_decode.metadata import SpecDecodeMetadata

from openrlhf_gtpo.engine import hook as vllm_hook

DRAFTS = [[301, 302], [13]]
"""Two requests: two drafts and one, each with a bonus token."""
VERIFIED = torch.tensor([[301, 302, 3], [0, -1, -1]])  # all accepted; the draft rejected, and 0 in its place
ACCEPTED = torch.tensor([301, 302, 3, 0])


def a_sampler() -> Any:
    """As a worker makes it: while vLLM has the engine's configuration at hand."""
    with set_current_vllm_config(VllmConfig()):
        return Sampler("processed_logprobs")


def verify(sampler: Any, logits: torch.Tensor, num_logprobs: int) -> LogprobsTensors:
    """The rows of both requests: three tokens, one, and what is left of the rejected draft."""
    speculative = SpecDecodeMetadata.make_dummy(DRAFTS, torch.device("cpu"))
    speculative.target_logits_indices = torch.tensor([0, 1, 3])
    speculative.bonus_logits_indices = torch.tensor([2, 4])
    targets, bonus = logits[speculative.target_logits_indices], logits[speculative.bonus_logits_indices]
    return RejectionSampler(sampler)._get_logprobs_tensors(num_logprobs, speculative, logits, targets, bonus, VERIFIED)


plain = Sampler("processed_logprobs")
for _ in range(2):  # again: changes nothing
    vllm_hook.install()
assert vllm_hook.is_hooked(plain)
torch.manual_seed(0)
rows = torch.randn(5, 400) * 3
rows[1, 5:300] = float("-inf")
apart = []
for logits in (rows, rows.bfloat16()):
    for num_logprobs in (1, 3):
        scores = verify(a_sampler(), logits, num_logprobs)
        assert scores.logprobs.shape[1] == 1 + num_logprobs, "vLLM's own after the entropy"
        assert scores.logprob_token_ids[:4, 0].tolist() == ACCEPTED.tolist()
        assert scores.logprob_token_ids[:4, 1].tolist() == [0, 0, 0, 1], "never the sampled token's id"
        apart.append((scores.logprobs[:4, :2] - expected(logits[:4], ACCEPTED)).abs().max().item())
answer(apart=max(apart))
