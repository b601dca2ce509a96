"""A function of one's own: the documented examples, and what is refused before training."""

from pathlib import Path

import pytest
import torch

from openrlhf_gtpo.algorithms.estimators import Estimate, estimator_named, try_out
from openrlhf_gtpo.batch import RolloutBatch

from ...refusals import assert_refusal
from .rollout_batches import rollouts

EXAMPLES = Path(__file__).resolve().parents[3] / "docs" / "examples"
SIX = "entropy, logprob, mask, correct, reward, group"


def function(batch: RolloutBatch, place: str) -> Estimate:
    estimator = estimator_named(place)
    assert estimator is not None
    return estimator.function(batch)


def mine(body: str, arguments: str = SIX) -> str:
    return f"import torch\n\n\ndef mine({arguments}):\n    {body}\n"


# Of the two responses, one is right; GRPO's advantages are +-0.70711.
BY_HAND = [
    # Log-probabilities are minus twice the entropies: surprisals 1, 3 with mean 2; and 2.
    ("shaping_function.py:surprise", [[-1.0, -3.0], [-2.0, 0.0]], [[0.35355, 1.06066], [-0.70711, 0.0]]),
    # 0.70711 times 0.2 * 0.5 + 0.8, 0.2 * 0.1 + 0.8 and 1.
    ("ideas.py:low_probability_less", [[-0.69315, -2.30259], [0.0, 0.0]], [[0.63640, 0.57983], [-0.70711, 0.0]]),
    # Success gets a tenth.
    ("less_from_success.py:less_from_success", [[-1.0, -3.0], [-2.0, 0.0]], [[0.070711, 0.070711], [-0.70711, 0.0]]),
]


@pytest.mark.parametrize(("name", "logprob", "expected"), BY_HAND)
def test_a_documented_example_has_its_sentences_advantages_by_hand(
    name: str, logprob: list[list[float]], expected: list[list[float]]
) -> None:
    batch = rollouts([[0.5, 1.5], [1.0]], [True, False])
    batch.logprob = torch.tensor(logprob, dtype=torch.float64)
    found = function(batch, f"{EXAMPLES}/{name}").advantages.float()
    assert torch.allclose(found, torch.tensor(expected), atol=1e-4)
    try_out(f"{EXAMPLES}/{name}", 8)


@pytest.mark.parametrize(
    ("source", "place", "named"),
    [
        (mine("return reward"), "mine.py:mine", ["torch.float32", "(8,)", "(8, 5)"]),
        (mine("return None"), "mine.py:mine", ["NoneType"]),
        (mine("return entropy / 0"), "mine.py:mine", ["response 0, column 0"]),
        (mine("return {}['x']"), "mine.py:mine", ["KeyError", "line 5", "'x'"]),
        (mine("return entropy"), "none.py:mine", ["none.py"]),
        (mine("return entropy"), "mine.py:other", ["other"]),
        (mine("return entropy", "entropy, mask"), "mine.py:mine", [SIX]),
        ("import nothing_of_that_name\n", "mine.py:mine", ["ModuleNotFoundError", "line 1"]),
    ],
)
def test_what_does_not_work_is_refused_before_training(
    tmp_path: Path, source: str, place: str, named: list[str]
) -> None:
    (tmp_path / "mine.py").write_text(source)
    with pytest.raises(ValueError, match=r"mine|none") as refused:
        try_out(f"{tmp_path}/{place}", 4)
    assert_refusal(f"--algo.advantage.estimator: {refused.value}", place.split(":")[0], *named)


def test_what_it_changes_in_place_and_puts_off_the_mask_stays_its_own_affair(tmp_path: Path) -> None:
    batch = rollouts([[0.5, 1.5], [1.0]], [True, False])
    (tmp_path / "mine.py").write_text(mine("reward += 7; return torch.nan_to_num(entropy, nan=9.0) + 1"))
    found = function(batch, f"{tmp_path}/mine.py:mine").advantages
    assert batch.reward.tolist() == [1.0, 0.0]
    assert found.tolist() == [[1.5, 2.5], [2.0, 0.0]]
