"""The controls: what stands in the place of the entropies, by hand, against loops, and as properties."""

import dataclasses
import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from openrlhf_gtpo import shaping
from openrlhf_gtpo.algorithms import estimators
from openrlhf_gtpo.algorithms.estimators import Rollouts
from openrlhf_gtpo.algorithms.table import ESTIMATORS
from openrlhf_gtpo.algorithms.weights import correlation, in_place_of_entropy

from . import naive_weights as naive
from .rollout_batches import batches, rollouts

WEIGHTS = ("entropy", "shuffled", "uniform", "surprisal", "inverse")
moderate = settings(max_examples=50, deadline=None)


def replaced(weights: str, batch: Rollouts, per_response: bool = False) -> torch.Tensor:
    assert batch.correct is not None
    return in_place_of_entropy(
        weights,
        batch.entropy,
        batch.logprob,
        batch.mask,
        batch.correct,
        batch.group,
        per_response=per_response,
        seed=batch.seed,
    )


# By hand


def test_inverse_weighs_correct_tokens_by_one_over_entropy_and_wrong_ones_by_entropy() -> None:
    batch = rollouts([[0.5], [0.25], [0.4], [0.1]], [True, True, False, False])
    found = estimators.gtpo(batch, alpha1=1.0, alpha2=0.1, weights="inverse")
    # Weights 2 and 4: shares 2 * 1/3 and 2 * 2/3. Weights 0.4 and 0.1: shares 2 * 4/5 and 2 * 1/5.
    assert found.shaped_rewards is not None
    assert found.shaped_rewards.flatten().tolist() == pytest.approx([1 + 0.2 / 3, 1 + 0.4 / 3, -1.16, -1.04])


def test_inverse_weighs_whole_responses_by_their_mean_entropy_in_grpo_s() -> None:
    batch = rollouts([[0.1, 0.3], [0.4], [0.5]], [True, True, False])
    found = estimators.grpo_s(batch, alpha1=1.0, alpha2=0.3, weights="inverse")
    # Mean entropies 0.2 and 0.4 give weights 5 and 2.5, shares 4/3 and 2/3; the mean of 1/H would be 6.67.
    assert found.shaped_rewards is not None
    assert found.shaped_rewards[:, 0].tolist() == pytest.approx([1.4, 1.2, -1.3])


def test_surprisal_weighs_by_minus_the_log_probability() -> None:
    batch = rollouts([[9.0], [9.0], [9.0], [9.0]], [True, True, False, False])
    batch = dataclasses.replace(batch, logprob=torch.tensor([[-0.1], [-0.3], [-0.5], [-2.0]], dtype=torch.float64))
    found = estimators.gtpo(batch, alpha1=1.0, alpha2=0.1, weights="surprisal")
    # 0.1 and 0.3: shares 2 * 1/4 and 2 * 3/4. 1/0.5 and 1/2: shares 2 * 4/5 and 2 * 1/5.
    assert found.shaped_rewards is not None
    assert found.shaped_rewards.flatten().tolist() == pytest.approx([1.05, 1.15, -1.16, -1.04])


@pytest.mark.parametrize("name", ["gtpo", "grpo_s"])
def test_uniform_gives_the_advantages_without_any_entropy_term(name: str) -> None:
    batch = rollouts([[0.5, 0.1], [0.25], [0.4], [0.1, 2.0, 1.0]], [True, True, False, False])
    estimate = ESTIMATORS[name].load()
    uniform, without = estimate(batch, alpha2=0.7, weights="uniform"), estimate(batch, alpha2=0.0)
    torch.testing.assert_close(uniform.advantages, without.advantages)
    assert set(uniform.shaped_rewards[batch.mask].tolist()) == {1.7, -1.7}


def test_shuffled_entropies_only_change_hands_among_equals() -> None:
    """Two tokens at the first position, one at the second: only the first two can change hands, over many seeds both
    ways."""
    batch = rollouts([[0.5, 0.1], [0.25], [0.4], [0.7]], [True, True, False, False], group=[0, 0, 0, 1])
    seen = {tuple(replaced("shuffled", dataclasses.replace(batch, seed=seed))[:, 0].tolist()) for seed in range(20)}
    assert seen == {(0.5, 0.25, 0.4, 0.7), (0.25, 0.5, 0.4, 0.7)}
    assert replaced("shuffled", batch)[0, 1] == 0.1


def test_shuffled_mean_entropies_change_hands_among_the_responses_of_a_class_in_grpo_s() -> None:
    batch = rollouts([[0.1, 0.3], [0.4], [0.5], []], [True, True, False, True])
    seen = set()
    for seed in range(20):
        values = replaced("shuffled", dataclasses.replace(batch, seed=seed), per_response=True)
        assert values[0, 0] == values[0, 1], "the same along a response"
        assert (values[3] == 0).all(), "an empty response takes no part"
        seen.add(tuple(round(value, 9) for value in values[:3, 0].tolist()))
    assert seen == {(0.2, 0.4, 0.5), (0.4, 0.2, 0.5)}


# What must hold, whatever the rollouts


@moderate
@given(batch=batches(), per_response=st.booleans())
@pytest.mark.parametrize("weights", sorted(set(WEIGHTS) - {"shuffled"}))
def test_agrees_with_a_naive_reference(weights: str, batch: Rollouts, per_response: bool) -> None:
    entropy, logprob, mask = (tensor.tolist() for tensor in (batch.entropy, batch.logprob, batch.mask))
    expected = torch.tensor(naive.naive_weights(weights, entropy, logprob, mask, per_response), dtype=torch.float64)
    torch.testing.assert_close(replaced(weights, batch, per_response), expected)


@moderate
@given(batch=batches())
def test_shuffling_keeps_the_entropies_of_every_position_group_and_class(batch: Rollouts) -> None:
    assert batch.correct is not None
    shuffled = replaced("shuffled", batch)
    assert (shuffled[~batch.mask] == 0).all()
    for cell in naive.exchanging(batch.mask.tolist(), batch.correct.tolist(), batch.group.tolist()):
        before, after = ([float(table[place]) for place in cell] for table in (batch.entropy, shuffled))
        assert sorted(before) == sorted(after)


@moderate
@given(batch=batches(), left=st.integers(0, 3), right=st.integers(0, 3), per_response=st.booleans())
@pytest.mark.parametrize("weights", WEIGHTS)
def test_padding_changes_nothing(weights: str, batch: Rollouts, left: int, right: int, per_response: bool) -> None:
    def pad(table: torch.Tensor, value: float = math.nan) -> torch.Tensor:
        return torch.nn.functional.pad(table, (left, right), value=value)

    padded = dataclasses.replace(
        batch, entropy=pad(batch.entropy), logprob=pad(batch.logprob), mask=pad(batch.mask, False)
    )
    expected = torch.nn.functional.pad(replaced(weights, batch, per_response), (left, right))
    torch.testing.assert_close(replaced(weights, padded, per_response), expected)


@moderate
@given(batch=batches(), alpha1=st.floats(0, 2), alpha2=st.floats(0, 2))
@pytest.mark.parametrize("weights", WEIGHTS)
def test_every_control_hands_out_what_entropy_hands_out_in_total(
    weights: str, batch: Rollouts, alpha1: float, alpha2: float
) -> None:
    assert batch.correct is not None
    rewards = estimators.gtpo(batch, alpha1=alpha1, alpha2=alpha2, weights=weights).shaped_rewards
    assert rewards is not None
    for cell in naive.exchanging(batch.mask.tolist(), batch.correct.tolist(), batch.group.tolist()):
        sign = 1 if batch.correct[cell[0][0]] else -1
        total = math.fsum(float(rewards[place]) for place in cell)
        assert total == pytest.approx(sign * (alpha1 + alpha2) * len(cell), abs=1e-9)
        for place in cell:
            bound = alpha1 + alpha2 * len(cell)
            assert alpha1 - 1e-9 <= sign * float(rewards[place]) <= bound + 1e-9


def test_the_same_seed_shuffles_in_the_same_way_and_each_order_is_as_likely() -> None:
    batch = rollouts([[0.1], [0.2], [0.3]], [True] * 3)
    orders = [
        tuple(replaced("shuffled", dataclasses.replace(batch, seed=seed)).flatten().tolist()) for seed in range(600)
    ]
    again = [
        tuple(replaced("shuffled", dataclasses.replace(batch, seed=seed)).flatten().tolist()) for seed in range(600)
    ]
    assert orders == again
    counts = [orders.count(order) for order in itertools.permutations((0.1, 0.2, 0.3))]
    assert sum(counts) == 600
    # Chi square with 5 degrees of freedom: above 20.5 once in a thousand tries; the seeds are fixed.
    assert sum((count - 100) ** 2 / 100 for count in counts) < 20.5


@pytest.mark.parametrize("name", ["gtpo", "grpo_s"])
def test_entropy_is_the_default_and_logs_no_correlation_with_itself(name: str) -> None:
    batch = rollouts([[0.5, 0.1], [0.25], [0.4], [0.1, 2.0, 1.0]], [True, True, False, False])
    estimate = ESTIMATORS[name].load()
    plain = {"gtpo": shaping.gtpo, "grpo_s": shaping.grpo_s}[name](
        batch.entropy, batch.mask, batch.correct, batch.group
    )
    for found in (estimate(batch), estimate(batch, weights="entropy")):
        assert torch.equal(found.advantages, plain.advantages)
        assert found.metrics == {}


def test_the_correlation_is_that_of_the_shares_worked_out_by_hand() -> None:
    batch = rollouts([[0.2], [0.6], [0.4], [0.4]], [True, True, False, False])
    batch = dataclasses.replace(batch, logprob=torch.tensor([[-0.2], [-0.2], [-1.0], [-3.0]], dtype=torch.float64))
    # Shares by entropy 0.5, 1.5, 1, 1; by surprisal 1, 1, 1.5, 0.5: deviations without anything in common.
    assert estimators.gtpo(batch, weights="surprisal").metrics["shaping/weight_entropy_correlation"] == pytest.approx(
        0
    )
    # By 1/H 1.5, 0.5, 1, 1: the deviations with the other sign.
    assert estimators.gtpo(batch, weights="inverse").metrics == {
        "shaping/weight_entropy_correlation": pytest.approx(-1)
    }
    assert estimators.gtpo(batch, weights="uniform").metrics == {}, "what does not vary correlates with nothing"


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=2, max_size=20))
def test_correlation_agrees_with_the_standard_librarys(pairs: list[tuple[int, int]]) -> None:
    import statistics

    one, other = zip(*pairs, strict=True)
    found = correlation(torch.tensor(one).float(), torch.tensor(other).float())
    if len(set(one)) == 1 or len(set(other)) == 1:
        assert found is None
    else:
        assert found == pytest.approx(statistics.correlation(one, other), abs=1e-9)


def test_unknown_weights_are_refused() -> None:
    batch = rollouts([[0.5]], [True])
    with pytest.raises(ValueError, match="weights is sideways"):
        replaced("sideways", batch)
