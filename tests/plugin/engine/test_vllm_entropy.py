"""Entropies out of a real vLLM engine against a float32 forward pass of the same model in transformers, and responses
that are the same in any company."""

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
from vllm.v1.sample.sampler import Sampler

from openrlhf_gtpo.cpu.platform import engine_on_a_cpu
from openrlhf_gtpo.engine import hook
from openrlhf_gtpo.engine.hook import MARK, EntropyHookError
from openrlhf_gtpo.engine.one_message.front_end import ArrayLogprobs
from openrlhf_gtpo.engine.repeatable import RewindableGenerator, drawn
from openrlhf_gtpo.engine.versions import INSTALL_TESTED
from openrlhf_gtpo.vllm_entropy import EntropyMissing, entropies, logprobs

from ...refusals import assert_refusal
from .programs import RUNS, expected, run

PROGRAMS = Path(__file__).resolve().parents[2] / "versions"
"""Those that tests/versions/run.sh runs with each version of vLLM."""


@pytest.fixture(scope="module")
def found(tiny_model: Path) -> dict[str, Any]:
    return run(RUNS, "in float32", tiny_model)


@pytest.mark.engine
def test_each_entropy_is_that_of_the_distribution_its_token_was_sampled_from(
    found: dict[str, Any], tiny_model: Path
) -> None:
    for (prompt, how, n), kind, plain in zip(found["asked"], found["kinds"], found["plain"], strict=True):
        assert len(kind["tokens"]) == n
        exact = expected(tiny_model, prompt, kind["tokens"], **how)
        for name in ("logprob", "entropy"):
            assert kind[name] == pytest.approx(exact[name], abs=3e-5), (how, name)
        assert kind["tokens"] == plain["tokens"], "an engine without the hook samples the same"
        assert kind["logprob"] == pytest.approx(plain["logprob"], abs=2e-6)


@pytest.mark.engine
def test_a_sampler_that_is_not_hooked_is_found_out_at_start_up_and_by_the_reader(found: dict[str, Any]) -> None:
    assert found["found out"] == ["without_the_hook", "at_start_up"]


class OfAnotherVllm:
    """Takes any place, and has none of the names that the hook uses."""


@pytest.mark.parametrize(
    ("renamed", "change", "missing"),
    [
        ("sample.metadata.SamplingMetadata", OfAnotherVllm, "OfAnotherVllm has no max_num_logprobs"),
        ("outputs.LogprobsTensors", OfAnotherVllm, "OfAnotherVllm has no logprob_token_ids"),
        ("sample.sampler.Sampler.sample", lambda self, logits, metadata, mode: self.topk_topp_sampler, "_override"),
        ("sample.sampler.Sampler.sample", lambda self, logits, metadata, logprobs_mode_override: 0, "topk_topp_s"),
        ("sample.rejection_sampler.RejectionSampler", OfAnotherVllm, "has no _get_logprobs_tensors"),
    ],
)
def test_a_name_that_another_vllm_has_not_is_said_before_anything_is_sampled(
    renamed: str, change: Any, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sampler, MARK, False, raising=False)
    for name in ("__init__", "forward", "sample", "gather_logprobs"):  # as they were, whatever the hook did
        monkeypatch.setattr(Sampler, name, getattr(Sampler, name))
    monkeypatch.setattr(f"vllm.v1.{renamed}", change)
    with pytest.raises(EntropyHookError) as told:
        hook.install()
    assert_refusal(str(told.value), "does not fit the sampler of vLLM", missing, INSTALL_TESTED)


# ---- on a CPU a response depends on weights, prompt and seed alone


@pytest.mark.engine
@pytest.mark.parametrize("precision", ["float32", "the precision of runs"])
def test_a_response_is_the_same_to_the_last_bit_in_any_company(precision: str, request: pytest.FixtureRequest) -> None:
    """With prompts in parts, preempted requests and cached prefixes: all that changes who shares a batch."""
    if precision == "float32":
        answers = request.getfixturevalue("found")["company"]
    else:
        model = request.getfixturevalue("tiny_model")
        if engine_on_a_cpu(str(model))["dtype"] == "float32":
            pytest.skip("This CPU has no bfloat16 instructions.")
        answers = run(RUNS, "in the precision of runs", model)
    assert min(answers["counts"]) >= 3, "requests were preempted, and draws taken back"
    for company in ("few", "together", "backwards"):
        for place, response in answers[company].items():
            assert response == answers["alone"][place], (company, place)
    tokens = [answers["alone"][str(place)]["tokens"][:8] for place in range(24)]
    assert all(tokens[place] != tokens[place + 1] for place in range(0, 24, 2)), "one prompt, another seed"


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


def test_a_token_is_drawn_by_its_probability_and_its_rows_seed_alone() -> None:
    """Against the cumulative sums of Python's own floats, with the numbers that the seeds give."""
    shares = [[0.1, 0.0, 0.6, 0.3], [0.0, 2.0, 0.0, 2.0], [0.25] * 4]
    rows = torch.tensor(shares)

    def generators() -> dict[int, torch.Generator]:
        return {row: torch.Generator().manual_seed(7 + row) for row in range(3)}

    seeds, other, found = generators(), generators(), []
    for _ in range(3000):
        tokens = drawn(rows, seeds)
        for row, token in enumerate(tokens.tolist()):
            chance = torch.rand((), dtype=torch.float64, generator=other[row]).item() * sum(shares[row])
            assert token == next(t for t in range(4) if sum(shares[row][: t + 1]) > chance + 1e-9 * (t < 3) or t == 3)
        found.append(tokens)
    counts = torch.stack(found).T
    for row, row_shares in zip(counts, shares, strict=True):
        often = row.bincount(minlength=4) / len(row)
        assert often.tolist() == pytest.approx([share / sum(row_shares) for share in row_shares], abs=0.03)
        assert all(often[token] == 0 for token, share in enumerate(row_shares) if not share)
    alone = generators()
    assert [drawn(rows[2:], {0: alone[2]}).item() for _ in range(50)] == counts[2][:50].tolist(), "in any company"
    assert drawn(torch.full((1, 4), math.nan), {}).item() < 4


# ---- the reader


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


@FORMS
def test_whatever_is_not_one_entropy_per_token_is_refused(form: Any) -> None:
    for about, given in NOT_ENTROPIES.items():
        if form is as_objects and about in ("another token", "too few"):
            continue  # vLLM's dictionaries are by token, one for each
        with pytest.raises(EntropyMissing, match="without entropies"):
            entropies(SimpleNamespace(token_ids=[7, 0], logprobs=form(given)))


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
