"""Which flags are offered for one that does not exist, over all flags of OpenRLHF and ours."""

import pytest

from math_reward.nearest import did_you_mean


@pytest.mark.parametrize(
    ("typed", "words", "named"),
    [
        ("trian", ["train", "eval", "data"], ["train"]),
        ("--topp", ["--rollout.top_p", "--eval.top_p"], ["--rollout.top_p", "--eval.top_p"]),
        ("xyz", ["train", "eval"], []),
        ("xyz", [], []),
    ],
)
def test_what_may_have_been_meant_is_a_question(typed: str, words: list[str], named: list[str]) -> None:
    said = did_you_mean(typed, words, "--help lists them")
    assert said.endswith("?" if named else "--help lists them.")
    assert [word for word in words if word in said] == named
