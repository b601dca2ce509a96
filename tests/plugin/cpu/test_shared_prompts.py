"""Where prompts are computed once: that it pays, and that micro-batches bring together what shares a prompt."""

import itertools
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from openrlhf_gtpo.cpu.shared_prompts import PromptsTogether
from openrlhf_gtpo.policy.layout import layout


def items(prompt: int, response: int, silent: tuple[int, ...] = ()) -> list[SimpleNamespace]:
    """A replay buffer's, of four prompts with four responses, which have so many tokens; the responses to `silent`
    prompts have no advantage."""
    return [
        SimpleNamespace(
            prompts=[f"prompt {number // 4}"],
            advantages=torch.full((response,), 0.0 if number // 4 in silent else -0.5),
            response_length=torch.tensor(response),
            total_length=torch.tensor(prompt + response),
        )
        for number in range(16)
    ]


def order(of: list[SimpleNamespace], update: int, seed: int = 0) -> list[int]:
    torch.manual_seed(seed)
    return list(PromptsTogether(of, update))


@given(st.sampled_from([4, 8, 16]), st.integers(0, 1000))
def test_responses_to_a_prompt_stand_together_in_their_update_and_no_response_changes_it(update: int, seed: int):
    shuffled, together = order(items(5, 9), update, seed), order(items(300, 5), update, seed)
    for begin in range(0, 16, update):
        window = together[begin : begin + update]
        assert sorted(window) == sorted(shuffled[begin : begin + update]), "the update that torch's shuffle gave it"
        prompts = [i // 4 for i in window]
        changes = sum(one != other for one, other in itertools.pairwise(prompts))
        assert changes == len(set(prompts)) - 1


def test_short_prompts_which_it_would_not_pay_to_share_are_shuffled_as_torch_does():
    torch.manual_seed(3)
    expected = list(torch.utils.data.RandomSampler(range(16)))
    assert order(items(5, 9), 16, seed=3) == expected


@pytest.mark.parametrize("prompt", [5, 300])
def test_responses_without_an_advantage_stand_first_in_their_update(prompt: int):
    ordered = order(items(prompt, 9, silent=(1, 2)), 16)
    assert {i // 4 for i in ordered[:8]} == {1, 2}


def rows(prompts: list[list[int]], response: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sequences of these prompts, their action mask and their attention mask."""
    longest = max(map(len, prompts))
    padded = [[0] * (longest - len(prompt)) + prompt for prompt in prompts]
    sequences = torch.cat([torch.tensor(padded), torch.randint(2, 9, (len(prompts), response))], dim=1)
    attention = torch.cat(
        [torch.tensor(padded).gt(0).long(), torch.ones(len(prompts), response, dtype=torch.long)], dim=1
    )
    actions = torch.zeros(len(prompts), longest + response - 1, dtype=torch.long)
    actions[:, -response:] = 1
    return sequences, actions, attention


@pytest.mark.parametrize(
    ("prompts", "response", "columns"),
    [
        ([[1] * 30] * 4, 5, (1, 50)),
        ([[1] * 30, [2] * 20] * 2, 5, (2, 40)),
        ([[1] * 30, [2] * 30], 5, (2, 35)),
        ([[1] * 5] * 4, 30, None),
    ],
    ids=["one prompt", "two prompts", "none shared", "long responses, whose attention would cost more"],
)
def test_a_row_holds_a_prompt_and_its_responses_where_that_is_less(prompts, response, columns):
    found = layout(*rows(prompts, response))
    assert (found and tuple(found.tokens.shape)) == columns
