"""Groups for the token view: which are shown, who is alive where, and what the tokens of a class are on average."""

import pytest

from openrlhf_gtpo.report import tokens
from openrlhf_gtpo.report.tokens import MAX_GROUPS, question, view, views

from .files import ROLLOUTS, response


def test_d_and_h_count_a_class_at_each_position_and_it_has_its_mean_and_the_farthest_token() -> None:
    group = view(ROLLOUTS)
    assert group["d"] == [2, 1, 1, 1, 1]
    assert group["h"] == [1, 1, 1, 0, 0]
    assert (group["step"], group["group"], group["label"]) == (1, 3, "42")
    assert [r["correct"] for r in group["responses"]] == [True, True, False]
    # Advantages of correct tokens 1 to 5 and 1, of wrong ones -1 to -3.
    correct, wrong = group["classes"]["correct"], group["classes"]["wrong"]
    assert correct["advantage"]["mean"] == pytest.approx(16 / 6)
    assert correct["advantage"]["reach"] == pytest.approx(14 / 6)
    assert (wrong["advantage"]["mean"], wrong["advantage"]["reach"]) == (-2, 1)
    assert (correct["shaped_reward"]["mean"], correct["shaped_reward"]["reach"]) == (1, 0)
    assert group["classes"]["ungraded"] is None


def test_a_long_run_is_shown_by_groups_spread_over_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, _ = views([response(True, ["a"], step=step)] for step in range(1000))
    steps = [group["step"] for group in shown]
    assert MAX_GROUPS / 2 <= len(steps) <= MAX_GROUPS
    assert steps == list(range(0, 1000, steps[1]))
    assert len(views([[response(True, ["a"])]] * MAX_GROUPS)[0]) == MAX_GROUPS, "what fits is shown"
    monkeypatch.setattr(tokens, "MAX_TOKENS", 100)
    shown, _ = views([response(True, ["a"] * 9, step=step)] for step in range(40))
    assert 5 <= len(shown) <= 11, "of long responses fewer"
    assert len(views([[response(True, ["a"] * 500)]] * 3)[0]) == 1, "one, however long it is"


def test_the_first_shown_is_of_median_spread_among_those_with_correct_and_wrong_responses() -> None:
    """A spread is of advantages within a class; correct against wrong is none."""

    def group(number: int, away: float, other: bool | None = False) -> list[dict[str, object]]:
        own = response(True, ["a", "b"], group=number, advantage=[1 + away, 1 - away])
        return [own, response(other, ["c"], group=number, advantage=[-9.0])]

    groups = [group(0, 5), group(1, 2), group(2, 1), group(3, 3, other=True), group(4, 0), group(5, 4, other=None)]
    _, typical = views(groups)
    assert typical == 1, "0, 1, 2 and 5 are the spreads of those with both"
    assert views([group(0, 1, other=True), group(1, 2, other=True)])[1] == 1
    assert views([]) == ([], 0)


@pytest.mark.parametrize(
    "prompt",
    [
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWhat is 6*7?<|im_end|>\n<|im_start|>assistant\n",
        "<start_of_turn>system\nBe brief.\n<start_of_turn>user\nWhat is 6*7?<end_of_turn>\n<start_of_turn>model\n",
        "Be brief.\nWhat is 6*7?",
    ],
)
def test_a_prompt_is_shown_without_the_tokens_of_its_chat_template(prompt: str) -> None:
    assert question(prompt) == "Be brief.\nWhat is 6*7?"
    assert question("Is a < b | c > d?") == "Is a < b | c > d?"
