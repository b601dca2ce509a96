"""Entropies out of a real vLLM engine against a float32 forward pass of the same model in transformers."""

import itertools
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from vllm.logprobs import FlatLogprobs

from openrlhf_gtpo.engine.one_message.front_end import ArrayLogprobs
from openrlhf_gtpo.vllm_entropy import EntropyMissing, entropies, logprobs

from ... import preloaded

PROMPTS = [[5, 17, 300], [9], [100, 200, 300, 400, 11, 12, 13], [42, 42], [7, 8, 9, 10]]
TEMPERATURES = [1.0, 0.7, 1.3, 0.4, 1.0]
LENGTHS = [20, 3, 33, 1, 12]
PROGRAMS = Path(__file__).resolve().parents[2] / "versions"
"""Those that tests/versions/run.sh runs with each version of vLLM."""


def run(program: str, model: Path, **environment: str) -> str:
    """Run a program with an engine in a process of its own; the engine's workers are processes of that one."""
    done = subprocess.run(
        [preloaded.python(), "-c", program, str(model)],
        env={**os.environ, "VLLM_ENABLE_V1_MULTIPROCESSING": "1", **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


ENGINE = """
import json, sys, vllm
from openrlhf_gtpo.vllm_entropy import *
def engine(**kwargs):
    return vllm.LLM(model=sys.argv[1], skip_tokenizer_init=True, enforce_eager=True, dtype="float32",
                    max_model_len=128, gpu_memory_utilization=0.1, **kwargs)
def request(n, **kwargs):
    return vllm.SamplingParams(max_tokens=n, min_tokens=n, stop_token_ids=[1], detokenize=False, **kwargs)
"""

REQUESTS = f"""
requests = [request(n, temperature=t, seed=i, **({{"top_k": 5}} if i == 4 else {{}}), **sampling_kwargs())
            for i, (t, n) in enumerate(zip({TEMPERATURES}, {LENGTHS}))]
outputs = llm.generate([{{"prompt_token_ids": p}} for p in {PROMPTS}], requests)
"""
"""The same in every engine: concurrent requests of different prompts, lengths and temperatures; min_tokens masks the
EOS logit."""


def result(out: str) -> Any:
    line = next(line for line in out.splitlines() if line.startswith("RESULT"))
    return json.loads(line.removeprefix("RESULT"))


@pytest.fixture(scope="module")
def generated(tiny_model: Path) -> list[dict[str, Any]]:
    program = (
        ENGINE
        + """
llm = engine(**engine_kwargs())
check_hook(llm.collective_rpc("entropy_hook_report"))
"""
        + REQUESTS
        + """
from vllm.v1.sample.sampler import Sampler
from openrlhf_gtpo.engine.hook import is_hooked
print("RESULT" + json.dumps({
    "here": is_hooked(Sampler()),
    "outputs": [{"tokens": list(o.outputs[0].token_ids), "entropy": entropies(o.outputs[0]),
                 "logprob": [e[t].logprob for t, e in zip(o.outputs[0].token_ids, o.outputs[0].logprobs)]}
                for o in outputs]}))
"""
    )
    found = result(run(program, tiny_model))
    assert found["here"] is False, "the hook belongs into vLLM's workers, not into the process that asks them"
    return found["outputs"]


def logits_of(model: Path, prompt: list[int], tokens: list[int], end_is_masked: bool = True) -> torch.Tensor:
    """(len(tokens), V) float32 logits from which each token was sampled, before temperature."""
    from transformers import AutoModelForCausalLM

    policy = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, attn_implementation="eager")
    with torch.no_grad():
        logits = policy(torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1 : -1]
    if end_is_masked:  # min_tokens forbids the end of the sequence
        logits[:, 1] = float("-inf")
    return logits


@pytest.mark.engine
@pytest.mark.parametrize("i", range(len(PROMPTS)))
def test_each_entropy_is_that_of_the_distribution_its_token_was_sampled_from(
    generated: list[dict[str, Any]], tiny_model: Path, i: int
) -> None:
    tokens = generated[i]["tokens"]
    assert len(tokens) == LENGTHS[i] == len(generated[i]["entropy"])
    logits = logits_of(tiny_model, PROMPTS[i], tokens).double() / TEMPERATURES[i]
    if i == 4:  # top-k 5
        logits[logits < logits.topk(5, dim=-1).values[:, -1:]] = float("-inf")
    logp = logits.log_softmax(dim=-1)
    expected = -(logp.exp() * logp).nan_to_num(0.0).sum(dim=-1)
    assert len(tokens) == 1 or expected.std() > 0.01, "the test's model must have entropies worth telling apart"
    error = (torch.tensor(generated[i]["entropy"]).double() - expected).abs().max()
    assert error <= 1e-5, f"{error:.2e}"


@pytest.mark.engine
def test_an_engine_without_the_hook_samples_the_same_tokens_and_is_found_out_by_the_reader(
    generated: list[dict[str, Any]], tiny_model: Path
) -> None:
    program = (
        ENGINE
        + """
llm = engine(logprobs_mode="processed_logprobs", max_logprobs=1)
"""
        + REQUESTS
        + """
try:
    entropies(outputs[0].outputs[0])
except EntropyMissing as error:
    print("FOUND OUT", error)
print("RESULT" + json.dumps([
    [list(o.outputs[0].token_ids), [e[t].logprob for t, e in zip(o.outputs[0].token_ids, o.outputs[0].logprobs)]]
    for o in outputs]))
"""
    )
    out = run(program, tiny_model)
    assert "FOUND OUT" in out
    for ours, (tokens, vllms) in zip(generated, result(out), strict=True):
        assert ours["tokens"] == tokens
        assert ours["logprob"] == pytest.approx(vllms, abs=2e-6)


@pytest.fixture(scope="module")
def side_by_side(tiny_model: Path) -> str:
    """What an engine prints whose requests ask differently; and, in the end, whether a sampler of a foreign class is
    found out, which is what a future vLLM's third would look like."""
    program = (
        ENGINE
        + """
def swap(worker):
    from vllm.v1.sample.sampler import Sampler
    third = type("ThirdSampler", (), {"__module__": "vllm.v3"})
    worker.model_runner.sampler = third()
llm = engine(**{**engine_kwargs(), "max_logprobs": 4})
check_hook(llm.collective_rpc("entropy_hook_report"))
entropy, prompt = sampling_kwargs(), {"prompt_token_ids": [5, 17, 300]}
def ask(*requests):
    return llm.generate([prompt] * len(requests), list(requests))
together = ask(request(9, seed=0, **entropy), request(9, temperature=0, **entropy), request(9, seed=1),
               request(9, seed=0, **{**entropy, "flat_logprobs": False}),
               request(9, seed=2, prompt_logprobs=2, **entropy))
beside_more, more = ask(request(9, seed=0, **entropy), request(9, seed=3, logprobs=4, flat_logprobs=True))
def read(output):
    one = output.outputs[0]
    return {"tokens": list(one.token_ids), "logprob": logprobs(one), "entropy": entropies(one)}
print("RESULT" + json.dumps({
    "sampled": read(together[0]), "greedy": read(together[1]), "nothing": together[2].outputs[0].logprobs,
    "objects": read(together[3]), "asks for its prompt": read(together[4]),
    "prompt": [sorted(e[t].logprob for t in e) for e in together[4].prompt_logprobs[1:]],
    "beside more": read(beside_more), "more": [more.outputs[0].logprobs.logprobs[i::5] for i in range(5)],
    "more's tokens": list(more.outputs[0].token_ids)}))
llm.collective_rpc(swap)
try:
    check_hook(llm.collective_rpc("entropy_hook_report"))
except EntropyMissing as error:
    print("FOUND OUT", error)
"""
    )
    return run(program, tiny_model, VLLM_ALLOW_INSECURE_SERIALIZATION="1", VLLM_ENABLE_V1_MULTIPROCESSING="0")


def in_float64(model: Path, tokens: list[int]) -> dict[str, list[float]]:
    """Log-probabilities and entropies of the tokens that follow that engine's prompt."""
    logp = logits_of(model, [5, 17, 300], tokens).double().log_softmax(dim=-1)
    return {
        "logprob": logp[range(len(tokens)), tokens].tolist(),
        "entropy": (-(logp.exp() * logp).nan_to_num(0.0).sum(dim=-1)).tolist(),
    }


@pytest.mark.engine
@pytest.mark.parametrize("which", ["sampled", "greedy", "objects", "asks for its prompt", "beside more"])
def test_entropies_of_requests_that_ask_differently_are_those_of_float64(
    side_by_side: str, tiny_model: Path, which: str
) -> None:
    found = result(side_by_side)[which]
    for name, expected in in_float64(tiny_model, found["tokens"]).items():
        assert found[name] == pytest.approx(expected, abs=1e-5), name


@pytest.mark.engine
def test_requests_beside_those_that_ask_for_entropies_get_what_they_ask_for(
    side_by_side: str, tiny_model: Path
) -> None:
    found = result(side_by_side)
    assert found["nothing"] is None
    logp = logits_of(tiny_model, [5], [17, 300], end_is_masked=False).log_softmax(dim=-1)
    likeliest = logp.sort(descending=True).values[:, :2]
    assert [entries[-2:] for entries in found["prompt"]] == [
        pytest.approx(two[::-1], abs=1e-5) for two in likeliest.tolist()
    ]
    # More than the entropy: vLLM's own log-probabilities after it, but for the token whose id the entropy has.
    tokens, more = found["more's tokens"], found["more"]
    logp = logits_of(tiny_model, [5, 17, 300], tokens).log_softmax(dim=-1)
    assert more[1] == pytest.approx(in_float64(tiny_model, tokens)["entropy"], abs=1e-5)
    for place in (2, 3, 4):
        likely = logp.argsort(descending=True)[:, place - 1].tolist()
        shown = [own if other == (own == 0) else other for own, other in zip(tokens, likely, strict=True)]
        assert more[place] == pytest.approx(logp[range(len(tokens)), shown].tolist(), abs=1e-5)


@pytest.mark.engine
def test_a_sampler_that_is_not_hooked_is_found_out_at_start_up(side_by_side: str) -> None:
    assert "FOUND OUT vLLM 0.29" in side_by_side
    assert "vllm.v3.ThirdSampler" in side_by_side


def test_a_request_that_did_not_ask_is_told_how_to() -> None:
    with pytest.raises(EntropyMissing, match=r"\*\*sampling_kwargs\(\)"):
        entropies(SimpleNamespace(token_ids=[1], logprobs=None))


Entries = list[list[tuple[int, float]]]
"""Of each token: its own id and log-probability, then those beside it."""


def as_objects(given: Entries) -> Any:
    return [{token: SimpleNamespace(logprob=value) for token, value in entries} for entries in given]


def flat(given: Entries) -> FlatLogprobs:
    """vLLM's own container, filled as vLLM fills it."""
    found = FlatLogprobs()
    for entries in given:
        tokens, values = zip(*entries, strict=True)
        found.append_fast(list(tokens), list(values), itertools.repeat(1), itertools.repeat(None))
    return found


def at_once(given: Entries) -> ArrayLogprobs:
    """As they come in one message."""
    table = np.asarray(given).reshape(len(given), -1, 2)
    return ArrayLogprobs(table[..., 0].astype(np.int64), table[..., 1], np.ones(len(given)))


FORMS = pytest.mark.parametrize("form", [as_objects, flat, at_once])


@FORMS
def test_entropies_and_log_probabilities_are_read_whatever_holds_them(form: Any) -> None:
    one = SimpleNamespace(token_ids=[7, 0], logprobs=form([[(7, -0.1), (0, 0.5)], [(0, -0.2), (1, 0.0)]]))
    assert entropies(one) == [0.5, 0.0]
    assert logprobs(one) == [-0.1, -0.2]


NOT_ENTROPIES: dict[str, Entries] = {
    "only the sampled tokens": [[(7, -0.1)], [(0, -0.2)]],
    "a log-probability": [[(7, -0.1), (3, 1.0)], [(0, -0.2), (1, -1.0)]],
    "two others": [[(7, -0.1), (3, 1.0), (4, 1.0)], [(0, -0.2), (1, 0.5), (2, 0.5)]],
    "another token": [[(8, -0.1), (3, 0.5)], [(0, -0.2), (1, 0.5)]],
    "too few": [[(7, -0.1), (3, 0.5)]],
    # Without the hook the most likely token comes twice, and a probability of 1 has a log-probability of 0.
    "the sampled token twice": [[(7, 0.0), (7, 0.0)], [(0, -0.2), (1, 0.5)]],
}


@pytest.mark.parametrize(
    ("form", "given"),
    # vLLM's dictionaries are by token, one for each.
    [
        (form, given)
        for form in (as_objects, flat, at_once)
        for given in NOT_ENTROPIES
        if form is not as_objects or given not in ("another token", "too few")
    ],
)
def test_whatever_is_not_one_entropy_per_token_is_refused(form: Any, given: str) -> None:
    with pytest.raises(EntropyMissing, match="without entropies"):
        entropies(SimpleNamespace(token_ids=[7, 0], logprobs=form(NOT_ENTROPIES[given])))


@FORMS
def test_logits_that_are_no_numbers_are_called_so_and_not_a_missing_hook(form: Any) -> None:
    given = form([[(7, -0.1), (3, 0.5)], [(0, math.nan), (1, math.nan)]])
    with pytest.raises(EntropyMissing, match=r"^Token 2 of 2 .* NaN") as told:
        entropies(SimpleNamespace(token_ids=[7, 0], logprobs=given))
    assert "engine_kwargs" not in str(told.value)


def answer(program: str, folder: Path, **environment: str) -> dict[str, float]:
    """What a program of tests/versions found."""
    file = folder / "answer.json"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", PROGRAMS / program, file],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(file.read_text(encoding="utf-8"))


@pytest.mark.engine
def test_the_v2_samplers_own_code_returns_entropies_in_tritons_interpreter(tmp_path: Path) -> None:
    """vLLM's V2 sampler is the one that GPUs use; its Triton kernels run here in Triton's interpreter."""
    pytest.importorskip("triton", reason="Triton has no wheel for this platform, where V2 cannot be in use either")
    apart = answer("v2_sampler.py", tmp_path, TRITON_INTERPRET="1")
    assert apart["entropy_apart"] < 1e-6
    assert apart["logprob_apart"] < 5e-6


@pytest.mark.engine
def test_the_v1_rejection_sampler_returns_entropies_of_accepted_drafts(tmp_path: Path) -> None:
    assert answer("v1_sampler.py", tmp_path, TORCH_COMPILE_DISABLE="1")["apart"] < 5e-6
