"""Whole groups into advantages: OpenRLHF's real Experience, splitting and length penalties; no model, no engine."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from openrlhf_gtpo.batch import Group, NotBinary, Response, RolloutBatch
from openrlhf_gtpo.controller.experience import PolicyBroken, ShapingFailed
from openrlhf_gtpo.controller.metrics import weights_differ
from openrlhf_gtpo.shaping import grpo_s, gtpo

from .batches import G, Step, advantages_by_response, arguments, maker, response, rollout


def assert_close(found: list[torch.Tensor], expected: torch.Tensor) -> None:
    """Each response's advantages are those of its row: (N, T) beginning with its tokens, or (N,) one for all."""
    for row, values in enumerate(found):
        wanted = expected[row].expand_as(values) if expected.dim() == 1 else expected[row][: len(values)]
        assert torch.allclose(values, wanted, atol=1e-5), (row, values)


def dense(responses: list[dict[str, Any]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Entropies side by side without prompts and gaps, (N, T), and their mask: no alignment left to get wrong."""
    rows = [[r["entropy"][t] for start, end in r["action_ranges"] for t in range(start, end)] for r in responses]
    width = max(map(len, rows))
    entropy = torch.tensor([row + [0.0] * (width - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    return entropy, mask


SPLITS = {
    "one by one": {},
    "across groups": {"rollout__micro_batch_size": 3},
    "whole batch": {"rollout__micro_batch_size": 24},
    "dynamic": {"train__dynamic_batch_enable": True},
}


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("estimator", ["gtpo", "grpo_s"])
def test_advantages_are_those_of_whole_groups_whatever_the_micro_batches(estimator: str, split: str) -> None:
    responses = rollout()
    entropy, mask = dense(responses)
    correct = torch.tensor([r["scores"] == 1 for r in responses])
    group = torch.arange(len(responses)) // G
    expected = {"gtpo": gtpo, "grpo_s": grpo_s}[estimator](entropy, mask, correct, group).advantages
    found = advantages_by_response(arguments(estimator, **SPLITS[split]), responses)
    assert any(values.abs().sum() > 0 for values in found)
    assert_close(found, expected)


@pytest.mark.parametrize(("ranks", "micro_batches"), [(1, 5), (2, 6), (4, 8), (24, 24)])
def test_dynamic_micro_batches_are_as_many_on_every_rank_and_have_at_most_the_tokens_that_are_allowed(
    ranks: int, micro_batches: int
) -> None:
    """OpenRLHF makes 4 of the 5 that are needed for two ranks, and lets them grow."""
    args = arguments(train__dynamic_batch_enable=True, actor__num_gpus_per_node=ranks)
    args.rollout.max_tokens_per_gpu = 66
    found = Step(args, rollout()).experiences
    assert len(found) == micro_batches
    assert all(experience.total_length.sum() <= 66 for experience in found)


@pytest.mark.parametrize("split", SPLITS)
def test_group_norm_is_left_to_openrlhf(split: str) -> None:
    responses = rollout()
    found = advantages_by_response(arguments("group_norm", **SPLITS[split]), responses)
    scores = torch.tensor([r["scores"] for r in responses]).view(-1, G)
    assert_close(found, ((scores - scores.mean(-1, keepdim=True)) / (scores.std(-1, keepdim=True) + 1e-9)).flatten())


PENALISED = [
    # 12 tokens of 12 allowed, 8 expected: the whole buffer is exceeded, so the whole factor is subtracted.
    ({"reward__overlong_buffer_len": 4.0, "reward__overlong_penalty_factor": 1.5}, [12, 4, 4, 4], 2, [-1.5, 0, 0, 0]),
    # The first and third are truncated. A reward of 1 is halved, which subtracts 0.5; half of 0 is 0.
    ({"reward__stop_properly_penalty_coef": 0.5}, [4, 4, 4, 4], 2, [-0.5, 0, 0, 0]),
    # Easy: L = max((2 + 10) / 2, 14 / 3) = 6 over the correct responses; (10 - 6) / 12 is taken off the longest.
    ({"shaping__grop": True}, [2, 2, 10, 12], 3, [0, 0, -1 / 3, 0]),
]


@pytest.mark.parametrize(("changes", "lengths", "correct", "penalty"), PENALISED)
def test_a_length_penalty_moves_advantages_but_not_the_partition(
    changes: dict[str, Any], lengths: list[int], correct: int, penalty: list[float]
) -> None:
    """A correct response that is penalised below 0 stays among the correct ones: its tokens keep their positive
    share."""
    responses = [response("p", 3, [0.5] * n, float(i < correct), truncated=i % 2 == 0) for i, n in enumerate(lengths)]
    found = advantages_by_response(arguments(**changes), responses)
    is_correct, group = torch.arange(4) < correct, torch.zeros(4, dtype=torch.long)
    assert_close(found, gtpo(*dense(responses), is_correct, group, penalty=torch.tensor(penalty)).advantages)
    plain = advantages_by_response(arguments(), responses)
    assert all((found[i] < plain[i]).all() for i, taken in enumerate(penalty) if taken)


def test_group_relative_overlong_punishment_reaches_openrlhfs_own_estimators() -> None:
    responses = [response("p", 3, [0.5] * n, 1.0) for n in (2, 2, 10)] + [response("p", 3, [0.5] * 12, 0.0)]
    found = advantages_by_response(arguments("group_norm", shaping__grop=True), responses)
    rewards = torch.tensor([1.0, 1.0, 2 / 3, 0.0])
    assert_close(found, (rewards - rewards.mean()) / (rewards.std() + 1e-9))


@pytest.mark.parametrize(("estimator", "split"), [("gtpo", "across groups"), ("group_norm", "dynamic")])
def test_only_the_tokens_of_highest_entropy_in_the_whole_batch_learn(estimator: str, split: str) -> None:
    responses = rollout()
    every = advantages_by_response(arguments(estimator, **SPLITS[split]), responses)
    some = advantages_by_response(arguments(estimator, shaping__top_entropy_share=0.2, **SPLITS[split]), responses)
    entropy, mask = dense(responses)
    values = sorted(entropy[mask.bool()].tolist(), reverse=True)
    threshold = values[round(0.2 * len(values)) - 1]
    for row, (before, after) in enumerate(zip(every, some, strict=True)):
        keeps = entropy[row][mask[row].bool()] >= threshold
        assert torch.equal(after, torch.where(keeps, before, 0.0))
    assert any(values.abs().sum() > 0 for values in some)


def test_metrics_tell_the_classes_apart_and_count_uninformative_groups() -> None:
    responses = rollout()
    step = Step(arguments(), responses, actor_logprob=-0.75)
    metrics = step.metrics
    entropy, mask = dense(responses)
    correct = torch.tensor([r["scores"] == 1 for r in responses])
    right = mask.bool() & correct[:, None]
    assert metrics["entropy/correct_token_mean"] == pytest.approx(entropy[right].mean().item(), abs=1e-6)
    assert metrics["shaped_reward/wrong_max"] <= -1.0 <= 1.0 <= metrics["shaped_reward/correct_min"]
    assert metrics["mismatch/logprob_gap"] == pytest.approx(0.25)
    # Groups 0..5 have 0, 1, 2, 3, 4, 0 correct responses of 4.
    assert metrics["groups/all_wrong_share"] == pytest.approx(2 / 6)
    assert metrics["groups/all_correct_share"] == pytest.approx(1 / 6)
    assert metrics["groups/uninformative_share"] == pytest.approx(3 / 6)
    assert metrics["rollout/pass_rate"] == pytest.approx(10 / 24)
    assert step.generator.metrics()["reward/wait_seconds_mean"] == pytest.approx(0.25)
    assert step.generator.metrics()["reward/wait_after_generation"] == pytest.approx(0.25)


def test_a_group_counts_as_shaped_where_entropy_distributes_something_between_its_responses() -> None:
    def group(prompt: str, *entropies: list[float]) -> list[dict[str, Any]]:
        """Two right ones first."""
        return [response(prompt, 3, entropy, float(i < 2)) for i, entropy in enumerate(entropies)]

    alike = group("a", [0.2, 0.6], [0.2, 0.600001], [0.5, 0.1], [0.5, 0.1])  # but for rounding
    longer = group("b", [0.2, 0.6, 0.9, 0.9, 0.9, 0.9], [0.2, 0.6], [0.5, 0.1], [0.5])  # nothing to compare with
    right_differ = group("c", [0.2, 0.6], [0.2, 0.7], [0.5, 0.1], [0.5, 0.1])
    wrong_differ = group("d", [0.2, 0.6], [0.2, 0.6], [0.5, 0.1], [0.4, 0.1])
    all_right = [response("e", 3, [0.1 * i], 1.0) for i in range(G)]
    responses = [*alike, *longer, *right_differ, *wrong_differ, *all_right]
    assert Step(arguments(), responses).metrics["groups/shaped_share"] == pytest.approx(2 / 4)
    punished = Step(arguments(shaping__grop=True), group("f", *([0.5] * n for n in (2, 2, 2, 12)))).metrics
    assert punished["overlong/punished_share"] > 0
    assert punished["groups/shaped_share"] == 0, "a penalty is none of entropy's"
    assert "groups/shaped_share" not in Step(arguments(), all_right).metrics
    assert "groups/shaped_share" not in Step(arguments("group_norm"), responses).metrics


def ramblers() -> list[dict[str, Any]]:
    """Two correct responses to a prompt, of which the first goes on after its answer with the highest entropies, and a
    wrong one."""
    return [
        response("a", 3, [0.2, 0.6, 3.0, 2.8], 1.0, answer_end=2),
        response("a", 3, [0.6, 0.2, 0.1, 0.1], 1.0),
        response("a", 3, [0.5, 0.5, 0.5], 0.0, answer_end=2),
        response("a", 3, [0.5, 0.5, 0.5], 0.0),
    ]


def test_until_the_answer_entropy_distributes_among_the_tokens_up_to_it_and_a_metric_says_who_is_paid_most() -> None:
    (end, *_), (answer, other, *_) = (
        [values.tolist() for values in advantages_by_response(arguments("gtpo", shaping__until=until), ramblers())]
        for until in ("end", "answer")
    )
    assert max(end) == end[2], "the most is paid to the words behind the answer"
    assert max(answer) == answer[1]
    assert answer[2] == answer[3] == pytest.approx(other[2]), "a share of 1"
    for until, share in (("end", 1.0), ("answer", 0.0)):
        step = Step(arguments("gtpo", shaping__until=until), ramblers())
        assert step.metrics["advantage/best_after_answer"] == share
    assert "advantage/best_after_answer" not in Step(arguments(), rollout()).metrics, "nobody says where answers stand"


@pytest.mark.parametrize(
    ("first", "gap", "is_wider"),
    [(0.03, 0.085, False), (0.03, 0.095, True), (3e-7, 4e-3, False), (3e-7, 6e-3, True)],
)
def test_a_gap_is_compared_with_that_of_the_runs_first_step(first: float, gap: float, is_wider: bool) -> None:
    warning = weights_differ(12, gap, first)
    assert (warning is not None) is is_wider
    assert warning is None or "step 12" in warning


def test_saved_rollouts_hold_each_tokens_entropy_reward_and_advantage(tmp_path: Path) -> None:
    args = arguments(shaping__save_rollouts=2, logger__metrics_path=str(tmp_path / "metrics.jsonl"))
    responses = rollout()
    for one in responses:  # every token comes in every response
        one["observation_tokens"] = [7 + i % 3 for i in range(len(one["observation_tokens"]))]
    decoded: list[int] = []
    advantages_by_response(args, responses, decoded=decoded)
    lines = [json.loads(line) for line in (tmp_path / "rollouts.jsonl").read_text().splitlines()]
    assert sorted(decoded) == [7, 8, 9], "each is turned into text once, not each time that it comes"
    assert [line["group"] for line in lines] == [1] * G + [2] * G, "the first groups with right and wrong responses"
    first, one = lines[0], responses[G]
    assert (first["correct"], first["prompt"]) == (True, "prompt 1")
    places = [t for start, end in one["action_ranges"] for t in range(start, end)]
    assert first["entropy"] == pytest.approx([one["entropy"][t] for t in places], abs=1e-6)
    assert first["tokens"] == [f"<{one['observation_tokens'][t]}>" for t in places]
    assert len(first["shaped_reward"]) == len(first["advantage"]) == len(places)


def test_a_reward_model_and_a_critic_get_what_they_need_and_padding_may_hold_anything() -> None:
    made = maker(arguments("group_norm"))
    made.critic_model_group = object()
    later = [{**one, "reward": None, "scores": None} for one in rollout()[:G]]
    experiences = made.split_rollout_samples(RolloutBatch([Group([Response(one, 64) for one in later])]))
    for experience in experiences:
        off = ~experience.action_mask.bool()
        experience.rewards = experience.info["reward"] = torch.tensor([float(row) for row in experience.index])
        experience.action_log_probs = torch.zeros(off.shape).masked_fill(off, math.nan)
        experience.kl = torch.zeros(off.shape)
    made.compute_advantages_and_returns(experiences)
    assert made.batch.given_reward.tolist() == [0, 1, 2, 3]
    assert all(experience.returns is not None for experience in experiences)


@pytest.mark.parametrize("score", [0.3, -0.5])
def test_a_score_that_is_neither_right_nor_wrong_stops_training(score: float) -> None:
    responses = rollout()
    responses[5]["reward"] = responses[5]["scores"] = score
    with pytest.raises(NotBinary, match=rf"score is {score:g}: .*'scores'.*\.$"):
        advantages_by_response(arguments(), responses)


@pytest.mark.parametrize("estimator", ["gtpo", "group_norm"])
def test_what_is_no_number_stops_training_before_the_weights_are_spoiled(estimator: str) -> None:
    with pytest.raises(PolicyBroken, match=r"step 0's .* NaN"):
        advantages_by_response(arguments(estimator), rollout(), actor_logprob=float("nan"))
    responses = rollout()
    responses[6]["entropy"][responses[6]["action_ranges"][0][0]] = float("nan")
    with pytest.raises(ShapingFailed, match=r"step 0 .*entropy .*nan in response 6.*\.$"):
        advantages_by_response(arguments(), responses)


def test_a_function_of_ones_own_decides_the_advantages_or_stops_training(tmp_path: Path) -> None:
    """Whatever the micro-batches are, it is called with the whole batch."""
    file = tmp_path / "mine.py"
    file.write_text("def mine(entropy, logprob, mask, correct, reward, group):\n    return group[:, None] + entropy\n")
    responses = rollout()
    entropy, mask = dense(responses)
    expected = (torch.arange(len(responses)) // G)[:, None] + entropy
    found = advantages_by_response(arguments(f"{file}:mine", rollout__micro_batch_size=5), responses)
    assert_close(found, torch.where(mask.bool(), expected, 0.0))
    file.with_name("fails.py").write_text(file.read_text().replace("group[:, None] + entropy", "reward.nothing"))
    with pytest.raises(ShapingFailed, match=r"step 0 .*fails.py:mine failed in line 2: AttributeError.*\.$"):
        advantages_by_response(arguments(f"{tmp_path}/fails.py:mine"), rollout())
