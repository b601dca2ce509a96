"""Every k during training, on OpenRLHF's own Experience and its own measure."""

from typing import Any

import pytest
import torch
from openrlhf.trainer.ppo_trainer import compute_eval_metrics
from openrlhf.trainer.ppo_utils.experience import Experience

from openrlhf_gtpo.controller.during_training import with_every_k

# As OpenRLHF's loader of evaluation prompts yields them: data sources, prompts, labels, images.
LOADER = [(["aime"], ["p0"], ["1"], [None]), (["aime"], ["p1"], ["2"], [None]), (["gsm8k"], ["p2"], ["3"], [None])]


def sample(prompt: str, score: float, entropy: list[float]) -> Experience:
    """A response of len(entropy) tokens after a prompt of 2; entropies stand off the response too, to be left out."""
    mask = torch.tensor([[0, *[1] * len(entropy)]])
    return Experience(
        prompts=[prompt],
        action_mask=mask,
        rewards=torch.tensor([score]),
        scores=torch.tensor([score]),
        response_length=torch.tensor([len(entropy)]),
        truncated=torch.tensor([False]),
        info={"entropy": torch.tensor([[9.0, *entropy]])},
    )


def samples(*scores: tuple[str, list[float]]) -> list[Experience]:
    return [sample(prompt, float(score), [0.5, 1.5]) for prompt, group in scores for score in group]


def measured(given: list[Any], n: int) -> dict[str, float]:
    return with_every_k(compute_eval_metrics)(LOADER, given, n)


def test_pass_at_every_k_is_worked_out_for_each_data_source() -> None:
    logs = measured(samples(("p0", [1, 1, -1, 0]), ("p1", [0, 0, 0, 1]), ("p2", [0, 0, 0, 0])), 4)  # -1 is wrong too
    # p0: 1 - C(2,2)/C(4,2) = 5/6; p1: 1 - C(3,2)/C(4,2) = 1/2.
    assert logs["eval_aime_pass2"] == pytest.approx((5 / 6 + 1 / 2) / 2)
    assert logs["eval_aime_pass1"] == pytest.approx(3 / 8)
    assert logs["eval_aime_pass4"] == pytest.approx(1.0)
    assert logs["eval_gsm8k_pass2"] == 0
    assert logs["eval_aime_pass2_low"] == pytest.approx(1 / 2)
    assert logs["eval_aime_pass2_high"] == pytest.approx(5 / 6)
    assert logs["eval_aime_entropy_token_mean"] == pytest.approx(1.0), "the 9 nats are off the response"


def test_a_token_of_a_long_response_counts_as_much_as_one_of_a_short_response() -> None:
    given = [sample("p0", 1.0, [1.0]), sample("p0", 0.0, [0.0, 0.0, 0.0])]
    logs = measured(given, 2)
    assert logs["eval_aime_entropy_token_mean"] == pytest.approx(0.25)
    assert logs["eval_aime_entropy_response_mean"] == pytest.approx(0.5)


def test_where_openrlhf_measures_the_same_it_finds_the_same() -> None:
    given = samples(("p0", [1, 0, 0]), ("p1", [1, 1, 1]), ("p2", [0, 0, 0]))
    theirs, ours = compute_eval_metrics(LOADER, given, 3), measured(given, 3)
    assert {"eval_aime_pass1", "eval_aime_pass3", "eval_aime_response_length_mean", "eval_num_samples"} <= set(theirs)
    assert {name: ours[name] for name in theirs} == pytest.approx(theirs)
    assert "eval_aime_pass2" in ours
