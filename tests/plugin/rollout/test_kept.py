"""Kept tokens in columns beside the entropies: from logits, and out of vLLM's containers."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from vllm import SamplingParams
from vllm.logprobs import FlatLogprobs

from openrlhf_gtpo.engine.kept import kept_tokens
from openrlhf_gtpo.rollout.actor import AgentMismatch, EntropyRecorder, kept_in_sequence
from openrlhf_gtpo.rollout.kept import TooManyKept, engine_with_kept, sampling_with_kept, take_kept
from openrlhf_gtpo.vllm_entropy import engine_kwargs, entropies_and_logprobs, sampling_kwargs

from ...refusals import assert_refusal
from ..engine.test_vllm_entropy import Entries, at_once, flat

NO = float("-inf")
LOGITS = torch.tensor([[NO, 1.0, NO, 3.0], [NO, NO, 0.0, NO], [4.5, 4.0, 5.0, NO]])


def test_kept_tokens_come_likeliest_first_with_their_number() -> None:
    ids, scores = kept_tokens(LOGITS, 3)
    assert [row[: int(n[0])] for row, n in zip(ids.tolist(), scores, strict=True)] == [[3, 1], [2], [2, 0, 1]]
    assert scores.tolist() == [[2, 2, 0], [1, 0, 0], [3, 3, 3]]


def test_more_than_there_are_columns_are_told_by_the_number_and_a_small_vocabulary_is_padded() -> None:
    assert kept_tokens(LOGITS, 2)[1].tolist() == [[2, 2], [1, 0], [3, 3]], "3 is one more than there are columns"
    ids, scores = kept_tokens(LOGITS, 6)
    assert ids.shape == scores.shape == (3, 6)
    assert scores[2].tolist() == [3, 3, 3, 0, 0, 0]


GIVEN: Entries = [
    [(7, -0.1), (0, 0.5), (9, 2.0), (7, 2.0), (3, 0.0)],
    [(0, -0.2), (1, 0.0), (0, 1.0), (5, 0.0), (6, 0.0)],
]
"""Of each token its own log-probability, its entropy, and three columns for kept tokens."""


FORMS = pytest.mark.parametrize("form", [flat, at_once])


@FORMS
def test_they_are_taken_out_and_the_rest_is_what_an_engine_without_them_gives(form: Any) -> None:
    completion = SimpleNamespace(token_ids=[7, 0], logprobs=form(GIVEN))
    kept = take_kept(completion, 3)
    assert kept.dtype == np.int32
    assert kept.tolist() == [[0, 9], [0, 7], [1, 0]]
    entropy, logprob = entropies_and_logprobs(completion)
    assert (entropy.tolist(), logprob.tolist()) == ([0.5, 0.0], [-0.1, -0.2])
    assert completion.logprobs[0][7].logprob == -0.1, "as OpenRLHF reads it"


@FORMS
def test_too_many_are_refused_in_one_sentence(form: Any) -> None:
    many: Entries = [GIVEN[0], [(0, -0.2), (1, 0.0), (0, 4.0), (5, 4.0), (6, 4.0)]]
    completion = SimpleNamespace(token_ids=[7, 0], logprobs=form(many))
    with pytest.raises(TooManyKept) as refused:
        take_kept(completion, 3)
    assert_refusal(str(refused.value), "token 2", "response of 2", "3 tokens")


def test_a_response_without_tokens_has_none() -> None:
    assert take_kept(SimpleNamespace(token_ids=[], logprobs=FlatLogprobs()), 3).shape == (0, 2)


def test_an_engine_without_columns_is_the_ordinary_one() -> None:
    assert engine_with_kept(0) == engine_kwargs()
    assert sampling_with_kept(0) == sampling_kwargs()
    assert (engine_with_kept(40)["max_logprobs"], sampling_with_kept(40)["logprobs"]) == (41, 41)


def test_those_of_an_agents_turns_stand_at_their_places_in_the_sequence() -> None:
    turns = [np.array([[0, 11], [1, 12], [1, 13]], np.int32), np.array([[0, 14]], np.int32)]
    found = kept_in_sequence({"action_ranges": [(3, 5), (9, 10)]}, turns)
    assert (found.dtype, found.tolist()) == (np.int32, [[3, 11], [4, 12], [4, 13], [9, 14]])
    assert kept_in_sequence({"action_ranges": []}, []).shape == (0, 2), "a prompt that leaves no room for a token"


async def test_an_agent_that_takes_top_k_out_is_told_to_leave_it() -> None:
    recorder = EntropyRecorder(None, columns=24)
    with pytest.raises(AgentMismatch, match=r"--rollout\.top_k"):
        await recorder.generate([1, 2], SamplingParams(max_tokens=8, top_p=0.95))
