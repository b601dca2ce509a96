"""On a CPU a response depends on weights, prompt and seed alone: one real engine a precision, the same requests alone
and in company."""

from pathlib import Path
from typing import Any

import pytest
import torch

from openrlhf_gtpo.cpu.platform import engine_on_a_cpu
from openrlhf_gtpo.engine.repeatable import RewindableGenerator

from .test_vllm_entropy import result, run

PROGRAM = """
import json, random, sys, vllm
from vllm.v1.core.sched.scheduler import Scheduler
from openrlhf_gtpo.engine.repeatable import RewindableGenerator
from openrlhf_gtpo.vllm_entropy import *

counts = {"preempted": 0, "taken back": 0}
def counted(owner, method, name):
    original = getattr(owner, method)
    def counting(*args, **kwargs):
        counts[name] += 1
        return original(*args, **kwargs)
    setattr(owner, method, counting)
counted(Scheduler, "_preempt_request", "preempted")
counted(RewindableGenerator, "set_offset", "taken back")

llm = vllm.LLM(model=sys.argv[1], skip_tokenizer_init=True, enforce_eager=True, dtype=sys.argv[2], max_model_len=128,
               gpu_memory_utilization=0.1, max_num_batched_tokens=24, max_num_seqs=24, num_gpu_blocks_override=14,
               block_size=32, enable_prefix_caching=True, **engine_kwargs())
rng = random.Random(0)
prompts = [[rng.randrange(2, 500) for _ in range(rng.choice([1, 3, 20, 50]))] for _ in range(12)]
def ask(places):
    requests = [vllm.SamplingParams(max_tokens=8 + 5 * (p % 9), seed=p, detokenize=False, ignore_eos=True,
                                    temperature=1.0 if p % 2 else 0.7, **sampling_kwargs()) for p in places]
    found = llm.generate([{"prompt_token_ids": prompts[p // 2]} for p in places], requests, use_tqdm=False)
    return {p: [list(o.outputs[0].token_ids), entropies(o.outputs[0]), logprobs(o.outputs[0])]
            for p, o in zip(places, found)}
alone = {}
for p in range(24):
    alone |= ask([p])
few = ask([3, 4]) | ask([20, 21, 22])
print("RESULT" + json.dumps({"alone": alone, "few": few, "together": ask(range(24)),
                             "backwards": ask(range(23, -1, -1)), "counts": counts}))
"""


@pytest.fixture(scope="module", params=["float32", "the precision of runs"])
def answers(tiny_model: Path, request: pytest.FixtureRequest) -> Any:
    dtype = "float32" if request.param == "float32" else engine_on_a_cpu(str(tiny_model))["dtype"]
    if request.param != "float32" and dtype == "float32":
        pytest.skip("This CPU has no bfloat16 instructions.")
    program = PROGRAM.replace("sys.argv[2]", repr(dtype))
    # In one process, where the program can count.
    return result(run(program, tiny_model, VLLM_ENABLE_V1_MULTIPROCESSING="0", OMP_NUM_THREADS="1"))


@pytest.mark.engine
@pytest.mark.parametrize("company", ["few", "together", "backwards"])
def test_a_response_is_the_same_to_the_last_bit_in_any_company(answers: Any, company: str) -> None:
    """With prompts in parts, interrupted requests and cached prefixes: all that changes who shares a batch."""
    assert answers["counts"]["preempted"] >= 3
    assert answers["counts"]["taken back"] >= 3
    for place, found in answers[company].items():
        assert found == answers["alone"][place], place


@pytest.mark.engine
def test_other_seeds_give_other_responses(answers: Any) -> None:
    """Two requests each have one prompt."""
    tokens = [answers["alone"][str(place)][0] for place in range(24)]
    assert all(tokens[place][:8] != tokens[place + 1][:8] for place in range(0, 24, 2))


def test_a_generator_gives_the_ordinary_ones_noise_and_takes_its_last_draw_back() -> None:
    ordinary, ours = torch.Generator().manual_seed(7), RewindableGenerator().manual_seed(7)
    first = [torch.empty(5).exponential_(generator=one) for one in (ordinary, ours)]
    assert torch.equal(*first)
    ours.begin_draw()
    torch.empty(5).exponential_(generator=ours)
    ours.set_offset(ours.get_offset() - 4)  # as vLLM does
    second = [torch.empty(5).exponential_(generator=one) for one in (ordinary, ours)]
    assert torch.equal(*second)
    assert not torch.equal(first[0], second[0])
