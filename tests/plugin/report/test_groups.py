"""Groups for the token view: who is alive where, and what the tokens of a class are on average."""

import pytest

from openrlhf_gtpo.report.groups import MAX_GROUPS, groups

from .files import ROLLOUTS, response


def test_d_and_h_count_the_responses_of_each_class_that_are_at_least_so_long() -> None:
    (group,) = groups(ROLLOUTS)
    assert group["d"] == [2, 1, 1, 1, 1]
    assert group["h"] == [1, 1, 1, 0, 0]
    assert (group["step"], group["group"], group["label"]) == (1, 3, "42")
    assert [r["correct"] for r in group["responses"]] == [True, True, False]


def test_a_long_run_is_shown_by_groups_spread_over_its_steps() -> None:
    kept = groups([response(True, ["a"], step=s) for s in range(1, 1001)])
    assert len(kept) == MAX_GROUPS
    assert (kept[0]["step"], kept[-1]["step"]) == (1, 1000)


def test_a_class_has_the_mean_over_its_tokens_and_the_farthest_from_it() -> None:
    (group,) = groups(ROLLOUTS)
    # Advantages of correct tokens 1 to 5 and 1, of wrong ones -1 to -3.
    correct, wrong = group["classes"]["correct"], group["classes"]["wrong"]
    assert correct["advantage"]["mean"] == pytest.approx(16 / 6)
    assert correct["advantage"]["reach"] == pytest.approx(14 / 6)
    assert (wrong["advantage"]["mean"], wrong["advantage"]["reach"]) == (-2, 1)
    assert (correct["shaped_reward"]["mean"], correct["shaped_reward"]["reach"]) == (1, 0)
    assert group["classes"]["ungraded"]["advantage"] is None


def test_a_class_has_the_standard_deviation_of_its_tokens() -> None:
    # 1, 1, 3 and 3 around 2.
    (group,) = groups([response(True, list("abcd"), advantage=[1.0, 1.0, 3.0, 3.0])])
    assert group["classes"]["correct"]["advantage"]["spread"] == pytest.approx(1)
    (group,) = groups([response(True, list("abc"), advantage=[1.1, 1.1000001, 1.0999999])])
    assert group["classes"]["correct"]["advantage"]["spread"] == 0, "rounding"


def test_rounding_is_no_difference() -> None:
    """rollouts.jsonl has seven digits of a float32."""
    values = [1.1, 1.1000001, 1.0999999]
    (group,) = groups([response(True, list("abc"), shaped_reward=values)])
    assert group["classes"]["correct"]["shaped_reward"]["reach"] == 0
    (group,) = groups([response(True, list("abc"), shaped_reward=[1.1, 1.101, 1.1])])
    assert group["classes"]["correct"]["shaped_reward"]["reach"] == pytest.approx(0.001 * 2 / 3)


def test_an_estimator_without_shaped_rewards_and_an_ungraded_response_have_their_places() -> None:
    (group,) = groups([response(None, ["a", "b"], shaped_reward=None)])
    assert group["classes"]["ungraded"]["shaped_reward"] is None
    entropy = group["classes"]["ungraded"]["entropy"]
    assert (entropy["mean"], entropy["reach"]) == (0.25, 0.25)
