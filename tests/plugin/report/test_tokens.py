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
    assert steps == [*range(0, 990, steps[1]), 999], "the last tells most, and is shown in the place of its neighbour"
    assert len(views([[response(True, ["a"])]] * MAX_GROUPS)[0]) == MAX_GROUPS, "what fits is shown"
    monkeypatch.setattr(tokens, "MAX_TOKENS", 100)
    shown, _ = views([response(True, ["a"] * 9, step=step)] for step in range(40))
    assert 5 <= len(shown) <= 11, "of long responses fewer"
    assert len(views([[response(True, ["a"] * 500)]] * 3)[0]) == 1, "one, however long it is"


def test_the_first_shown_is_the_one_that_tells_most_of_all_wherever_it_stands() -> None:
    def group(correct: list[str], wrong: list[str], step: int = 1) -> list[dict[str, object]]:
        return [response(True, list(t), step=step) for t in correct] + [response(False, list(t)) for t in wrong]

    groups = [
        group(["ab", "ab"], ["c", "d"]),  # one correct text: entropy has nothing to divide among
        group(["ab", "a"], ["c", "d"]),
        group(["ab", "abc"], ["c", "d"]),
        group(["ab", "a"], []),
    ]
    assert views(groups)[1] == 2, "the longest correct response among equals"
    assert views([*groups, group(["a", "b"], ["c", "d"], step=2)])[1] == 4, "a later step comes first"
    assert views([group(["a", "b", "c"], []), group(["a"], ["b"])])[1] == 1, "both classes"
    many = [group(["a"], ["b"])] * 101
    many[99] = groups[1]
    shown, first = views(many)
    assert len(shown) <= MAX_GROUPS
    assert [one["tokens"] for one in shown[first]["responses"]] == [["a", "b"], ["a"], ["c"], ["d"]]
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
