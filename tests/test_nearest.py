"""Which flags are offered for one that does not exist, over all flags of OpenRLHF and ours."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from math_reward.nearest import did_you_mean, nearest
from openrlhf_gtpo import flags

FLAGS = sorted(
    option
    for action in flags.parser()._actions
    for option in action.option_strings
    if option.startswith("--") and len(option) > 8
)


@st.composite
def mistyped(draw: st.DrawFn) -> tuple[str, str]:
    """A flag, and the flag with one letter left out, doubled, changed, or changed places with the next."""
    flag = draw(st.sampled_from(FLAGS))
    place = draw(st.integers(4, len(flag) - 2))
    wrong = draw(
        st.sampled_from(
            [
                flag[:place] + flag[place + 1 :],
                flag[:place] + flag[place] + flag[place:],
                flag[:place] + "x" + flag[place + 1 :],
                flag[:place] + flag[place + 1] + flag[place] + flag[place + 2 :],
            ]
        )
    )
    return flag, wrong


@given(mistyped())
def test_a_flag_with_one_wrong_letter_is_among_those_that_are_offered(example: tuple[str, str]) -> None:
    flag, wrong = example
    assume(wrong not in FLAGS)
    assert flag in nearest(wrong, FLAGS)


@given(st.sampled_from(FLAGS))
def test_a_flag_itself_is_the_nearest(flag: str) -> None:
    assert nearest(flag, FLAGS)[0] == flag


@given(st.text(min_size=1))
def test_at_most_three_are_offered_whatever_is_typed(typed: str) -> None:
    found = nearest(typed, FLAGS)
    assert len(found) <= 3
    assert set(found) <= set(FLAGS)


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
