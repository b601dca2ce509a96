"""Groups of two policies into advantages, and these through OpenRLHF's own loss: J as it is written down in loops.

What stands between is real: OpenRLHF's Experience, its splitting and length penalties, its PolicyLoss."""

import json
import random
from collections.abc import Sequence
from math import exp, fsum, log
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from openrlhf.models.loss import PolicyLoss
from openrlhf.trainer.ppo_utils.experience import Experience

from openrlhf_gtpo.controller.experience import ExperienceMaker
from openrlhf_gtpo.policy.loss import SequenceRatioLoss

from ..algorithms.naive_mixed_policy import clipped_objective, naive_group_norm, naive_objective
from ..controller.batches import maker, response
from ..naive_shaping import naive_grpo_s, naive_gtpo
from .tables import guided, joined, labels, marks, said

LOW, HIGH = 0.2, 0.28
BOTH = ["all", "zero_reward"]
ESTIMATORS = pytest.mark.parametrize("estimator", ["group_norm", "gtpo", "grpo_s"])


def tokens(one: dict[str, Any], name: str) -> list[float]:
    """Of a response's own tokens."""
    return [one[name][t] for start, end in one["action_ranges"] for t in range(start, end)]


def placed(experience: Experience, responses: dict[str, Any], name: str) -> torch.Tensor:
    """(B, A) one number for each token, and rubbish elsewhere. A filler has its response's first token."""
    found = torch.full(experience.action_mask.shape, -9.0, dtype=torch.float64)
    for row, mask, label in zip(found, experience.action_mask.bool(), experience.labels, strict=True):
        row[mask] = torch.tensor(responses[label][name], dtype=torch.float64)[: int(mask.sum())]
    return found


class Batch:
    """A rollout batch of groups, with what a guide says to their prompts, through the experience maker."""

    def __init__(
        self, args: SimpleNamespace, groups: Sequence[list[Any]], guide: dict[str, Any], shuffle: int | None = None
    ) -> None:
        self.args = args
        self.responses = {one["label"]: one for group in (*groups, *guide.values()) for one in group}
        self.batch, _ = joined(args, groups, guide)
        self.maker: ExperienceMaker = maker(args)
        self.batch.step = 3
        experiences = self.maker.split_rollout_samples(self.batch)
        if shuffle is not None:
            random.Random(shuffle).shuffle(experiences)
        for experience in experiences:
            experience.action_log_probs = placed(experience, self.responses, "old").float()
            experience.kl = torch.zeros(experience.action_mask.shape)
        self.experiences = self.maker.compute_advantages_and_returns(experiences)

    @property
    def real(self) -> list[tuple[dict[str, Any], int, bool, bool]]:
        """Of each response but fillers: it, its group, and whether it is of the second batch, and the guide's."""
        rows = zip(labels(self.batch), marks(self.batch), strict=True)
        return [
            (self.responses[label], group, second, guide) for label, (group, second, fills, guide) in rows if not fills
        ]

    def loss(self, loss: torch.nn.Module) -> float:
        """One update over everything: micro-batch by micro-batch, normalised as OpenRLHF does it, fillers counted."""
        masks = [experience.action_mask for experience in self.experiences]
        norm = {
            "batch_num_tokens": float(sum(mask.sum() for mask in masks)),
            "global_batch_size": float(sum((mask.sum(-1) > 0).sum() for mask in masks)),
        }
        return sum(
            loss(
                placed(experience, self.responses, "new"),
                experience.action_log_probs.double(),
                experience.advantages.double(),
                action_mask=experience.action_mask,
                rollout_log_probs=experience.rollout_log_probs,
                **norm,
            )[0].item()
            for experience in self.experiences
        )

    def naive_advantages(self) -> list[list[float]]:
        """Over the union, of each response's tokens; by loops."""
        told, group = [one for one, *_ in self.real], [group for _, group, *_ in self.real]
        entropy = [tokens(one, "entropy") for one in told]
        estimator = self.args.algo.advantage.estimator
        if estimator == "group_norm":
            normalised = naive_group_norm([one["reward"] for one in told], group)
            return [[value] * len(row) for value, row in zip(normalised, entropy, strict=True)]
        width = max(map(len, entropy))
        mask = [[True] * len(row) + [False] * (width - len(row)) for row in entropy]
        padded = [row + [0.0] * (width - len(row)) for row in entropy]
        correct = [one["scores"] == 1 for one in told]
        shape = {"gtpo": naive_gtpo, "grpo_s": naive_grpo_s}[estimator]
        _, found, _ = shape(padded, mask, correct, group, 1.0, 0.1, "group", "group", [0.0] * len(told), None, 1e-8)
        return [row[: len(kept)] for row, kept in zip(found, entropy, strict=True)]

    def rows(self, unit: str) -> list[dict[str, Any]]:
        """For `naive_objective`: a row for each token, or one for each response."""
        found = []
        for (one, _, second, is_guide), advantages in zip(self.real, self.naive_advantages(), strict=True):
            n = len(advantages)
            columns = {"policy": one["new"], "old": one["old"], "guide": tokens(one, "logprob")}
            parts = [slice(t, t + 1) for t in range(n)] if unit == "token" else [slice(n)]
            for part in parts:
                cut = {name: values[part] for name, values in columns.items()}
                mask, advantage = [1] * len(cut["policy"]), advantages[part.start or 0]
                more = {"mask": mask, "advantage": advantage, "is_guide": bool(is_guide), "second": bool(second)}
                found.append(cut | more)
        return found


def loss_of(estimator: str, **settings: Any) -> torch.nn.Module:
    cls = SequenceRatioLoss if estimator == "grpo_s" else PolicyLoss
    return cls(clip_eps_low=LOW, clip_eps_high=HIGH, **settings)


def both_batches() -> tuple[list[Any], dict[str, Any]]:
    """Two groups for the first batch, one that is all right, two rescued and one that the guide cannot solve."""
    scores = {"a": [1, 0, 0, 0], "b": [0] * 4, "c": [1, 1, 1, 0], "d": [0] * 4, "e": [1] * 4, "f": [0] * 4}
    guide = {"a": [1, 0], "b": [1, 0], "c": [1, 1], "d": [0, 0], "e": [1, 0], "f": [0, 1]}
    groups = [said(prompt, [float(score) for score in found]) for prompt, found in scores.items()]
    return groups, {prompt: said(prompt, [float(x) for x in found], "guide") for prompt, found in guide.items()}


@pytest.mark.parametrize(
    ("micro", "batch", "shuffle"), [(1, 1, None), (3, 1, 1), (30, 1, None), (1, 8, 2), (5, 7, 3), (32, 8, None)]
)
@pytest.mark.parametrize("weight", [1.0, 0.25])
@ESTIMATORS
def test_openrlhfs_loss_is_the_objective_of_both_policies_and_both_batches(
    estimator: str, weight: float, micro: int, batch: int, shuffle: int | None
) -> None:
    args = guided(
        estimator=estimator,
        guide__when=BOTH,
        guide__weight=weight,
        rollout__micro_batch_size=micro,
        train__batch_size=batch,
    )
    found = Batch(args, *both_batches(), shuffle)
    assert len(found.real) == 5 * 6, "five groups of 4 + 2"
    assert len(found.batch) == {1: 30, 7: 35, 8: 32}[batch]
    unit = "response" if estimator == "grpo_s" else "token"
    rows = found.rows(unit)
    assert {(row["is_guide"], row["second"]) for row in rows} == {(a, b) for a in (True, False) for b in (True, False)}
    expected = naive_objective(rows, weight, unit, LOW, HIGH)
    assert abs(expected) > 1e-3
    assert -found.loss(loss_of(estimator)) == pytest.approx(expected, abs=2e-6)
    unclipped = naive_objective(rows, weight, unit, 1.0, 1e9)
    assert unclipped != pytest.approx(expected, abs=1e-4), "the clip plays its part"


def test_a_mean_over_responses_of_token_means_is_the_objectives_too() -> None:
    """--actor.loss_agg_mode seq-mean-token-mean: the batches' normalisers are numbers of responses."""
    args = guided(estimator="group_norm", guide__when=BOTH, guide__weight=0.5, train__batch_size=8)
    args.actor.loss_agg_mode = "seq-mean-token-mean"
    found = Batch(args, *both_batches())
    assert len(found.batch) == 32
    means: dict[bool, list[float]] = {False: [], True: []}
    for row in found.rows("response"):
        old = row["guide" if row["is_guide"] else "old"]
        ratios = [exp(new - before) for new, before in zip(row["policy"], old, strict=True)]
        terms = [clipped_objective(ratio, row["advantage"], LOW, HIGH) for ratio in ratios]
        means[row["second"]].append(fsum(terms) / len(terms))
    expected = fsum(means[False]) / len(means[False]) + 0.5 * fsum(means[True]) / len(means[True])
    assert -found.loss(loss_of("group_norm", token_level_loss=False)) == pytest.approx(expected, abs=2e-6)


def test_the_importance_correction_leaves_the_guides_tokens_alone() -> None:
    groups, guide = both_batches()
    for one in (one for group in (*groups, *guide.values()) for one in group):
        start = one["action_ranges"][0][0]
        one["rollout_log_probs"] = [0.0] * start + [value - 0.05 for value in one["old"]]
    args = guided(estimator="group_norm", guide__when=BOTH, train__batch_size=8)
    found = Batch(args, groups, guide)
    for experience in found.experiences:
        for i, row in enumerate(experience.index):
            if found.batch.guide[row]:
                assert torch.equal(experience.rollout_log_probs[i], experience.action_log_probs[i])
    corrected = loss_of("group_norm", is_correction_level="token", is_correction_threshold=[0.5, 5.0])
    # What the policy's own tokens count: pi_old over the engine's probability, exp(0.05).
    terms: dict[bool, list[float]] = {False: [], True: []}
    for row in found.rows("token"):
        ratio = exp(row["policy"][0] - row["guide" if row["is_guide"] else "old"][0])
        weight = 1.0 if row["is_guide"] else exp(0.05)
        terms[row["second"]].append(weight * clipped_objective(ratio, row["advantage"], LOW, HIGH))
    expected = sum(fsum(values) / len(values) for values in terms.values())
    assert -found.loss(corrected) == pytest.approx(expected, abs=2e-6)


# ── without responses of the guide ──


@pytest.mark.parametrize("micro", [1, 3])
@ESTIMATORS
def test_without_responses_of_the_guide_it_is_bit_for_bit_the_run_without_one(estimator: str, micro: int) -> None:
    groups, _ = both_batches()
    kinds = {"estimator": estimator, "rollout__micro_batch_size": micro}
    nothing = {prompt: [] for prompt in "abcdef"}
    no_guide, silent_guide = (Batch(guided(**kinds, **changes), groups, nothing) for changes in ({"model": None}, {}))
    assert any(experience.advantages.abs().sum() > 0 for experience in no_guide.experiences)
    for one, other in zip(no_guide.experiences, silent_guide.experiences, strict=True):
        on = one.action_mask.bool()
        # Off the mask OpenRLHF's group_norm leaves what nobody reads.
        assert torch.equal(one.advantages[on], other.advantages[on])
        for before, after in (
            (one.action_log_probs, other.action_log_probs),
            (one.rewards, other.rewards),
            (one.info["return"], other.info["return"]),
        ):
            assert torch.equal(before, after)
        torch.testing.assert_close(one.info["group_reward_std"], other.info["group_reward_std"])
        assert one.rollout_log_probs is other.rollout_log_probs is None
        assert set(other.info) == set(one.info)
    plain, guided_ = (
        {name: value for name, value in found.batch.metrics.items() if not name.startswith(("guide/", "shaping/sec"))}
        for found in (no_guide, silent_guide)
    )
    assert plain == guided_


def test_statistics_are_of_the_policys_own_responses_in_the_first_batch() -> None:
    groups = [said("a", [1.0, 0.0, 0.0, 0.0]), said("b", [0.0] * 4)]
    guide = {"a": said("a", [1.0], "guide"), "b": said("b", [1.0, 0.0], "guide")}
    found = Batch(guided(guide__when=BOTH, train__batch_size=8), groups, guide)
    assert len(found.batch) == 16
    entropies = [value for one in groups[0] for value in tokens(one, "entropy")]
    told = found.batch.metrics
    assert told["rollout/pass_rate"] == 0.25
    assert told["groups/all_wrong_share"] == told["groups/all_correct_share"] == 0
    assert told["entropy/token_mean"] == pytest.approx(fsum(entropies) / len(entropies), abs=1e-6)
    assert told["guide/share"] == 3 / 16
    policy = found.maker.counted(found.experiences)
    assert torch.cat([experience.info["reward"] for experience in policy]).tolist() == [1, 0, 0, 0]


def test_saved_groups_are_of_both_policies_and_no_filler_is_among_them(tmp_path: Path) -> None:
    args = guided(
        guide__when=BOTH,
        train__batch_size=8,
        shaping__save_rollouts=9,
        logger__metrics_path=str(tmp_path / "metrics.jsonl"),
    )
    found = Batch(args, *both_batches())
    lines = [json.loads(line) for line in (tmp_path / "rollouts.jsonl").read_text().splitlines()]
    assert len(found.batch) > len(lines) == 5 * 6
    told = sorted((line["group"], line["label"], line["guide"]) for line in lines)
    assert told == sorted((group, one["label"], guide) for one, group, _, guide in found.real)


def test_without_a_first_batch_statistics_are_of_the_second() -> None:
    args = guided(guide__when=["zero_reward"])
    found = Batch(args, [said("a", [0.0] * 4)], {"a": said("a", [1.0], "guide")})
    assert found.batch.metrics["groups/all_wrong_share"] == 1
    assert torch.cat([one.response_length for one in found.maker.counted(found.experiences)]).shape == (4,)


# ── what the metrics say of a step ──


def test_what_is_told_of_the_guide_is_of_its_tokens_in_both_batches() -> None:
    def one(prompt: str, who: str, score: float, old: list[float], logprob: list[float]) -> dict[str, Any]:
        made = response(prompt, 2, [0.5] * len(old), score)
        made.update(label=f"{prompt} {who}", old=old, new=old, logprob=[0.0, 0.0, *logprob])
        return made

    groups = [[one(prompt, str(i), 0.0, [-1.0], [-1.0]) for i in range(4)] for prompt in "ab"]
    groups[0][0].update(reward=1.0, scores=1.0)
    # Ratios of the policy before the update to the guide: 2 and 1/2 on the first's tokens, 1 on the second's.
    guide = {
        "a": [one("a", "guide", 1.0, [log(0.8), log(0.2)], [log(0.4), log(0.4)])],
        "b": [one("b", "guide", 1.0, [log(0.3)], [log(0.3)])],
    }
    told = Batch(guided(guide__when=BOTH, estimator="group_norm", train__batch_size=16), groups, guide).batch.metrics
    assert told["guide/ratio_mean"] == pytest.approx((2 + 0.5 + 1) / 3)
    assert told["guide/ratio_q50"] == pytest.approx(1)
    assert told["guide/logprob_mean"] == pytest.approx((2 * log(0.4) + log(0.3)) / 3)
    assert told["guide/kl"] == pytest.approx(((2 - 1 - log(2)) + (0.5 - 1 + log(2))) / 3)
    # Both responses are right among wrong ones, so their advantages are positive: a ratio above 1.28 is clipped.
    assert told["guide/clip_share"] == pytest.approx(1 / 3)
