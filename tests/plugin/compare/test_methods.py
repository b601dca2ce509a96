"""What is compared: which methods a command line means, and the weights that each gives a token."""

import argparse
from pathlib import Path

import pytest
import torch

from openrlhf_gtpo.algorithms.estimators import ESTIMATORS, Estimate, Estimator, small_batch
from openrlhf_gtpo.batch import RolloutBatch
from openrlhf_gtpo.compare.command import weights_of
from openrlhf_gtpo.compare.methods import Method, add_flags, methods
from openrlhf_gtpo.errors import SettingsError

from ...refusals import assert_refusal
from .conftest import group


def of(words: str) -> dict[str, Method]:
    """The methods of a command line, by name."""
    parser = argparse.ArgumentParser()
    add_flags(parser)
    found = methods(parser.parse_args(words.split(), argparse.Namespace(n=8)))
    assert len({one.name for one in found}) == len(found)
    return {one.name: one for one in found}


def own(folder: Path, returned: str) -> Path:
    path = folder / "own.py"
    path.write_text(f"def idea(entropy, logprob, mask, correct, reward, group):\n    return {returned}\n")
    return path


CLIP, SHARE = "--shaping.entropy_clip", "--shaping.top_entropy_share"
ALL = "GRPO|GTPO|GTPO, alpha2 0|GTPO, shuffled|GRPO-S|GRPO-S, alpha2 0|GRPO-S, shuffled"
NAMES = {
    "": ALL,
    "--estimators grpo_s,,group_norm,grpo": "GRPO|GRPO-S|GRPO-S, alpha2 0|GRPO-S, shuffled",
    "--estimators gtpo --shaping.alpha2 0.1 3": f"{ALL[:39]}|GTPO, alpha2 3|GTPO, alpha2 3, shuffled",
    f"--shaping.alpha2 0 {CLIP} 0 1 0.5 4 --estimators gtpo": "GRPO|GTPO|GTPO, entropy_clip 0.5-4",
    f"--shaping.alpha2 0 --shaping.grop off on {SHARE} 1 0.2 --estimators grpo_s": "GRPO|GRPO, top_entropy_share 0.2|"
    "GRPO, grop on|GRPO, grop on, top_entropy_share 0.2|GRPO-S|GRPO-S, grop on",
}


@pytest.mark.parametrize("words", NAMES)
def test_grpo_comes_first_and_once_and_each_combination_has_a_name(words: str) -> None:
    assert list(of(words)) == NAMES[words].split("|")


@pytest.mark.parametrize("per_response", [False, True])
def test_shuffled_entropies_stay_in_their_group_and_class(per_response: bool) -> None:
    """At their position too; where a response's mean counts, responses exchange it, and it is the same at each
    token."""
    batch = small_batch(8)
    length, responses = batch.mask.sum(1, keepdim=True), range(len(batch))
    before = (batch.entropy.sum(1, keepdim=True) / length * batch.mask if per_response else batch.entropy).clone()
    seen = Estimator(function=lambda of: Estimate(of.entropy, of.reward), per_response=per_response)
    method = Method("", seen, {"grop": "off", "top_entropy_share": 1}, shuffled=True)
    found, again = (method.weights(batch) * (length if per_response else 1) for _ in range(2))
    assert torch.equal(found, again), "the same each time"
    assert (found != before).any(1).sum() > 8
    assert batch.correct is not None
    for a, b in {(batch.group[row].item(), batch.correct[row].item()) for row in responses}:
        cell = (batch.group == a) & (batch.correct == b)
        for column in [0] if per_response else range(batch.mask.shape[1]):
            assert torch.allclose(*(one[cell][:, column].sort().values for one in (found, before)))
    if per_response:
        assert torch.allclose(found, found[:, :1] * batch.mask)


def test_weights_are_advantages_and_of_grpo_s_those_by_the_responses_length() -> None:
    """So the weights of a response of GRPO-S have the sum that its mean over responses gives them; and of forking
    tokens the share of highest entropy keeps its weights."""
    batch, found = small_batch(8), of(f"--shaping.alpha2 2 {SHARE} 1 0.25")
    for name, length in {"gtpo": 1, "grpo_s": batch.mask.sum(1, keepdim=True)}.items():
        advantages = ESTIMATORS[name].function(batch, alpha2=2.0).advantages
        assert torch.equal(found[name.upper().replace("_", "-")].weights(batch), advantages / length)
    limit = sorted(batch.entropy[batch.mask].tolist())[-round(0.25 * int(batch.mask.sum()))]
    whole, some = (found[name].weights(batch) for name in ("GTPO", "GTPO, top_entropy_share 0.25"))
    assert torch.equal(some, whole * (batch.entropy >= limit))


def test_a_long_right_response_is_punished_with_grop_and_the_expected_reward_is_not() -> None:
    """Lengths 2, 2 and 6 of the right ones: the limit is 4, and 6 loses (6 - 4) / 8."""
    one = group((True, [1.0] * 2), (True, [1.0] * 2), (True, [1.0] * 6), (False, [1.0]))
    found = list(of("--estimators grpo --shaping.grop off on").values())
    (weights,) = weights_of([one], found, argparse.Namespace(batch=4, seed=0, k=1))
    for name, rewards in {"GRPO": [1.0, 1, 1, 0], "GRPO, grop on": [1.0, 1, 0.75, 0]}.items():
        reward = torch.tensor(rewards)
        assert torch.allclose(weights[name][:, 0], (reward - reward.mean()) / reward.std())
    assert weights["reward"][:, 0].tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3, -1])


def test_methods_see_the_groups_of_an_update_together() -> None:
    """With means over the batch; the last update has one group, and each group has as many columns as it needs."""
    groups = [
        group((True, [0.5, 1.0, 3.0]), (False, [1.0])),
        group((True, [2.0]), (True, [0.1]), (False, [0.7, 0.3])),
        group((False, [2.0]), (True, [0.2, 0.4])),
    ]
    method = of("--shaping.scope batch")["GTPO"]
    found = [one["GTPO"] for one in weights_of(groups, [method], argparse.Namespace(batch=2, seed=0, k=1))]
    first, second = method.weights(RolloutBatch(groups[:2])), method.weights(RolloutBatch(groups[2:]))
    assert all(torch.equal(*pair) for pair in zip(found, (first[:2], first[2:, :2], second), strict=True))
    assert not torch.equal(method.weights(RolloutBatch(groups[:1])), first[:2])


def test_a_function_of_ones_own_is_a_method(tmp_path: Path) -> None:
    found, batch = of(f"--estimators {own(tmp_path, 'entropy * 2')}:idea {SHARE} 1 0.5"), small_batch(8)
    assert list(found)[2:] == ["own.py:idea", "own.py:idea, top_entropy_share 0.5"]
    assert torch.equal(found["own.py:idea"].weights(batch), batch.entropy * 2)


REFUSED = {
    "--estimators gtpo,ppo": ["--estimators", "ppo", "grpo_s"],
    "--estimators {own}:other": ["--estimators", "own.py has no function other"],
    "--estimators nowhere.py:idea": ["--estimators", "nowhere.py"],
    "--estimators {own}:idea": ["--estimators", "own.py:idea", "ZeroDivisionError", "line 2"],
    f"{CLIP} 0 1 2": [CLIP, "two numbers"],
    f"{CLIP} 3 1": [CLIP, "LOW first"],
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_compared_is_refused_in_a_sentence(words: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refused:
        of(words.format(own=own(tmp_path, "entropy * (1 / 0)")))
    assert_refusal(str(refused.value), *REFUSED[words])
