"""What TRL's trainer reads out of rewards and log-probabilities, without TRL."""

from typing import Any

import pytest
import torch

from openrlhf_gtpo.errors import SettingsError, UserError
from openrlhf_gtpo.trainers.trl_rewards import place_of, taken_apart, verdicts

NAN = float("nan")


@pytest.mark.parametrize(("correct", "place"), [("", 0), ("length", 0), ("math", 1)])
def test_the_function_that_is_named_says_what_is_correct_and_the_first_where_none_is(correct: str, place: int):
    assert place_of(correct, ["length", "math"], torch.tensor([1.0, 1.0])) == place


@pytest.mark.parametrize(
    ("correct", "weights", "sentence"),
    [
        ("maths", [1.0, 1.0], "correct='maths' names no reward function: name one of length, math."),
        ("math", [1.0, 0.5], r"reward_weights=\[1.0, 0.5\] weighs math, .*: give it the weight 1.0"),
    ],
)
def test_a_function_that_is_not_there_or_has_a_weight_is_refused(correct: str, weights: list[float], sentence: str):
    with pytest.raises(SettingsError, match=sentence):
        place_of(correct, ["length", "math"], torch.tensor(weights))


def test_other_rewards_times_their_weights_are_the_penalty_and_none_is_no_verdict():
    rewards = torch.tensor([[-2.0, 1.0, 4.0], [NAN, 0.0, 1.0], [-1.0, NAN, NAN]])

    correct, judged, penalty = verdicts(rewards, torch.tensor([0.5, 1.0, 0.25]), ["a", "math", "b"], place=1)

    assert correct.tolist() == [True, False, False]
    assert judged.tolist() == [True, True, False]
    assert penalty.tolist() == [-2 * 0.5 + 4 * 0.25, 0.25, -0.5]


@pytest.mark.parametrize("value", [0.5, -1.0, 2.0])
def test_a_verdict_that_is_neither_right_nor_wrong_is_refused_with_its_function(value: float):
    with pytest.raises(ValueError, match=rf"The reward function math gave {value:g}, and GTPO and GRPO-S need 0"):
        verdicts(torch.tensor([[1.0], [value]]), torch.ones(1), ["math"], place=0)


def test_of_two_log_probabilities_in_any_order_the_one_above_0_is_the_entropy():
    entropy, logprobs = taken_apart([[[-0.5, 1.5], [0.25, -2.0]], [[0.0, -0.125]]])

    assert entropy.tolist() == [[1.5, 0.25], [0.0, 0.0]]
    assert logprobs == [[[-0.5], [-2.0]], [[-0.125]]]


@pytest.mark.parametrize("pairs", [[[[-0.2]]], [[[-0.2, -1.0]]], [[[None, 0.5]]]], ids=["alone", "top token", "NaN"])
def test_a_sampler_without_the_hook_is_refused_with_a_sentence(pairs: Any):
    with pytest.raises(UserError, match="vLLM sampled a token without an entropy"):
        taken_apart(pairs)
