"""Groups for the token view: who is alive where, and what the tokens of a class are on average."""

import itertools

import pytest

from openrlhf_gtpo.report.groups import MAX_GROUPS, shown, view

from .files import ROLLOUTS, response


def test_d_and_h_count_the_responses_of_each_class_that_are_at_least_so_long() -> None:
    group = view(ROLLOUTS)
    assert group["d"] == [2, 1, 1, 1, 1]
    assert group["h"] == [1, 1, 1, 0, 0]
    assert (group["step"], group["group"], group["label"]) == (1, 3, "42")
    assert [r["correct"] for r in group["responses"]] == [True, True, False]


def test_a_long_run_is_shown_by_groups_spread_over_its_steps() -> None:
    kept = shown([1] * 1000, most=1000)
    assert len(kept) == MAX_GROUPS
    assert (kept[0], kept[-1]) == (0, 999)
    assert {26, 25} == {after - before for before, after in itertools.pairwise(kept)}, "39 ways of 25.6"


def test_as_many_groups_are_shown_as_fit() -> None:
    assert shown([10] * 5, most=50) == [0, 1, 2, 3, 4]
    assert shown([10] * 5, most=49) == [0, 1, 3, 4]
    assert shown([10, 30, 10], most=25) == [0, 2]
    assert shown([10, 7, 10], most=8) == [1], "the smallest"
    assert shown([10, 30, 10], most=5) == []
    assert shown([], most=5) == []


def test_a_class_has_the_mean_over_its_tokens_and_the_farthest_from_it() -> None:
    group = view(ROLLOUTS)
    # Advantages of correct tokens 1 to 5 and 1, of wrong ones -1 to -3.
    correct, wrong = group["classes"]["correct"], group["classes"]["wrong"]
    assert correct["advantage"]["mean"] == pytest.approx(16 / 6)
    assert correct["advantage"]["reach"] == pytest.approx(14 / 6)
    assert (wrong["advantage"]["mean"], wrong["advantage"]["reach"]) == (-2, 1)
    assert (correct["shaped_reward"]["mean"], correct["shaped_reward"]["reach"]) == (1, 0)
    assert group["classes"]["ungraded"]["advantage"] is None


def test_a_class_has_the_standard_deviation_of_its_tokens() -> None:
    # 1, 1, 3 and 3 around 2.
    group = view([response(True, list("abcd"), advantage=[1.0, 1.0, 3.0, 3.0])])
    assert group["classes"]["correct"]["advantage"]["spread"] == pytest.approx(1)
    group = view([response(True, list("abc"), advantage=[1.1, 1.1000001, 1.0999999])])
    assert group["classes"]["correct"]["advantage"]["spread"] == 0, "rounding"


def test_rounding_is_no_difference() -> None:
    """rollouts.jsonl has seven digits of a float32."""
    values = [1.1, 1.1000001, 1.0999999]
    group = view([response(True, list("abc"), shaped_reward=values)])
    assert group["classes"]["correct"]["shaped_reward"]["reach"] == 0
    group = view([response(True, list("abc"), shaped_reward=[1.1, 1.101, 1.1])])
    assert group["classes"]["correct"]["shaped_reward"]["reach"] == pytest.approx(0.001 * 2 / 3)


def test_an_estimator_without_shaped_rewards_and_an_ungraded_response_have_their_places() -> None:
    group = view([response(None, ["a", "b"], shaped_reward=None)])
    assert group["classes"]["ungraded"]["shaped_reward"] is None
    entropy = group["classes"]["ungraded"]["entropy"]
    assert (entropy["mean"], entropy["reach"]) == (0.25, 0.25)
