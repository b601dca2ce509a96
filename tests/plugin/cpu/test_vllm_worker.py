"""After an update the engine has the policy's new weights, in every layer."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from ...small_models import small_qwen2
from ..engine.programs import run

PROGRAM = """
import json, sys
from openrlhf_gtpo.cpu.platform import engine_on_a_cpu
arguments = {**engine_on_a_cpu(sys.argv[1] + "/old"), "dtype": "float32"}
import torch, vllm
from transformers import AutoModelForCausalLM
from openrlhf_gtpo.bindings import worker_extension
from openrlhf_gtpo.cpu.weight_sync import reduce_tensor
from openrlhf_gtpo.vllm_entropy import engine_kwargs, logprobs, sampling_kwargs

llm = vllm.LLM(model=sys.argv[1] + "/old", skip_tokenizer_init=True, max_model_len=64, **arguments,
               **{**engine_kwargs(), "worker_extension_cls": worker_extension("cpu")})
new = list(AutoModelForCausalLM.from_pretrained(sys.argv[1] + "/new", dtype=torch.float32).named_parameters())
for place, (name, weight) in enumerate(new, start=1):
    handles = {"": reduce_tensor(weight.detach())}
    llm.collective_rpc("update_weight_cuda_ipc", args=(name, weight.dtype, weight.shape, handles, place == len(new)))
wanted = vllm.SamplingParams(max_tokens=8, seed=1, detokenize=False, ignore_eos=True, **sampling_kwargs())
answer = llm.generate([{"prompt_token_ids": [5, 6, 7]}], wanted, use_tqdm=False)[0].outputs[0]
print("RESULT" + json.dumps([list(answer.token_ids), list(logprobs(answer))]))
"""


@pytest.mark.engine
def test_an_updated_engine_whose_head_is_the_embedding_samples_from_the_new_weights(tmp_path: Path) -> None:
    """vLLM packs a head for a CPU, and its reload left a tied one with the old weights. The whole runs of
    tests/end_to_end have a head of its own."""
    model = small_qwen2(tie_word_embeddings=True, eos_token_id=1, bos_token_id=None)
    model.save_pretrained(tmp_path / "old")
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    model.save_pretrained(tmp_path / "new")

    tokens, found = run("-c", PROGRAM, tmp_path, VLLM_ENABLE_V1_MULTIPROCESSING="0")

    sequence = torch.tensor([[5, 6, 7, *tokens]])
    with torch.no_grad():
        scores = model(sequence).logits[0, 2:-1].log_softmax(-1)
    expected = scores.gather(-1, torch.tensor(tokens)[:, None]).flatten()
    torch.testing.assert_close(torch.tensor(found), expected, atol=1e-4, rtol=1e-4)
    with torch.no_grad():
        old = AutoModelForCausalLM.from_pretrained(tmp_path / "old")(sequence).logits[0, 2:-1].log_softmax(-1)
    assert (scores - old).abs().max() > 0.1, "the weights differ"
