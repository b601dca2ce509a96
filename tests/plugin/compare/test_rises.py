"""How far a step raises what is wanted: values against plain loops, intervals against cases whose truth is known."""

import argparse
import itertools
from collections.abc import Mapping

import numpy as np
import pytest
import torch

from openrlhf_gtpo.compare import methods as compared
from openrlhf_gtpo.compare import rises as source
from openrlhf_gtpo.compare.command import weights_of
from openrlhf_gtpo.compare.rises import rises

from . import bandit

Table = Mapping[str, np.ndarray]
METHODS, TARGETS, BATCH = ("GRPO", "GTPO", "GRPO-S", "first", "uncertain"), ("reward", "pass", "entropy"), 8


def slowly(own: np.ndarray, targets: Table, n: int, batch: int, share: np.ndarray, adam: bool) -> dict[str, float]:
    """What `rises` says of one method: a pair of different groups after the other, those without a gradient too."""
    x, *others = (np.pad(one.astype(float), ((0, n - len(one)), (0, 0))) for one in (own, *targets.values()))
    pairs = list(itertools.permutations(range(n), 2))
    square, *products = (np.mean([x[i] * one[k] for i, k in pairs], axis=0) for one in (x, *others))
    noise = ((x**2).mean(0) - square) / batch
    length = (x**2).mean(0) / batch + (1 - 1 / batch) * (np.maximum(square, 0) if adam else square)
    unit = np.where(x.any(0), length, np.inf) if adam else np.ones_like(length)
    whole = 1.0 if adam else (share * length).sum() ** 0.5
    found = {key: (share * one / unit**0.5).sum() / whole for key, one in zip(targets, products, strict=True)}
    return found | {"signal": (share * square / unit).sum() / (share * noise / unit).sum()}


@pytest.mark.parametrize(("adam", "groups"), [(True, 6), (True, 9), (False, 6), (False, 9)])
def test_values_are_means_over_pairs_of_groups(adam: bool, groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six groups have a gradient, of six or of nine; a coordinate is always 0, and no two lie in one block."""
    monkeypatch.setattr(source, "BLOCK", 1)
    draw = np.random.default_rng(groups)
    one, other, reward, entropy = (draw.normal(0.4, 1, (6, 5)).astype(np.float32) for _ in range(4))
    one[:, 3] = 0
    methods, targets = {"one": one, "other": other}, {"reward": reward, "entropy": entropy}
    share = np.array([1, 2, 7, 1, 0.5], dtype=np.float32)
    found = rises(methods, targets, groups, 4, share, adam=adam)
    for name, own in methods.items():
        wanted = slowly(own, targets, groups, 4, share, adam)
        assert {key: rise.value for key, rise in found[name].items()} == pytest.approx(wanted, rel=1e-4)


Case = tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]


@pytest.fixture(scope="module")
def case() -> Case:
    """Of every group of the bandit its probability, whether it has a gradient, and its gradients; "first" is GRPO on
    first tokens alone and "uncertain" RLOO times entropy."""
    parser = argparse.ArgumentParser()
    compared.add_flags(parser)
    args = parser.parse_args(["--shaping.alpha2", "1"], argparse.Namespace(n=4, batch=1000, seed=0, k=2))
    outcomes = bandit.outcomes()
    weights = weights_of([one.group for one in outcomes], compared.methods(args), args)
    for one, of in zip(outcomes, weights, strict=True):
        entropy = torch.stack([response.of_tokens("entropy") for response in one.group.policy])
        of |= {"first": of["GRPO"] * torch.tensor([1.0, 0.0]), "uncertain": of["reward"] * entropy}
    found = {
        key: np.stack([one.gradient(of[key].numpy()) for one, of in zip(outcomes, weights, strict=True)])
        for key in ("reward", "pass", *METHODS)
    }
    there = found["GRPO"].any(1)
    found["entropy"] = np.stack([one.entropy for one in outcomes]) * there[:, None]  # `compare` knows no others
    return np.array([one.probability for one in outcomes]), there, found


def truth(p: np.ndarray, of: Table, name: str, adam: bool) -> dict[str, float]:
    """The rises by a method's step, from the expectations over all groups."""
    mean, square = p @ of[name], p @ of[name] ** 2
    length = square / BATCH + (1 - 1 / BATCH) * mean**2
    unit, whole = (length, 1) if adam else (np.ones_like(length), length.sum() ** 0.5)
    found = {key: (p @ of[key] * mean / unit**0.5).sum() / whole for key in TARGETS}
    return found | {"signal": (mean**2 / unit).sum() / ((square - mean**2) / BATCH / unit).sum()}


@pytest.mark.parametrize("adam", [True, False])
def test_intervals_cover_the_truth_of_a_policy_whose_groups_can_all_be_listed(adam: bool, case: Case) -> None:
    """In 88 to 99.5 % of 200 draws of 250 groups: of 95 % the standard error is 1.5 %, and of 16 shares the lowest
    and the highest are two of them away."""
    (p, there, of), draw = case, np.random.default_rng(3)
    exact = {name: truth(p, of, name, adam) for name in METHODS}
    wanted = {(name, key): exact[name][key] / exact["GRPO"][key] for name in METHODS[1:] for key in exact[name]}
    assert wanted["first", "reward"] < 0.6 < 3 < wanted["first", "entropy"], "these are far from 1"
    small, covered = {key: table.astype(np.float32) for key, table in of.items()}, dict.fromkeys(wanted, 0)
    for number in range(200):
        drawn = draw.choice(len(p), 250, p=p)
        methods, targets = ({key: small[key][drawn[there[drawn]]] for key in keys} for keys in (METHODS, TARGETS))
        found = rises(methods, targets, 250, BATCH, adam=adam, seed=number)
        for name, key in wanted:
            figure = found[name][key].over(found["GRPO"][key])
            covered[name, key] += figure.low <= wanted[name, key] <= figure.high
    assert 0.88 <= min(covered.values()) / 200 <= max(covered.values()) / 200 <= 0.995, covered


@pytest.mark.parametrize("adam", [True, False])
def test_intervals_are_as_wide_as_estimates_vary_where_noise_has_two_thousand_dimensions(adam: bool) -> None:
    """Of a hundred groups of different size, whose noise is more than their signal: the bootstrap's were 1.7 times as
    wide, and those of weights that count pairs twice 1.3 times. What has no part in a step does not seem to rise."""
    draw, means, halves, positive = np.random.default_rng(0), [], [], []
    for number in range(240):
        size = np.exp(draw.normal(0, 0.3 if adam else 0.5, (100, 1)).astype(np.float32))
        grpo, noise, nothing = (draw.standard_normal((100, 2_000), dtype=np.float32) * size for _ in range(3))
        grpo[:, :200] += 0.2
        methods, targets = {"GRPO": grpo, "own": grpo + noise}, {"reward": grpo, "nothing": nothing}
        found = rises(methods, targets, 100, 16, adam=adam, seed=number, draws=100 if number < 40 else 1)
        figure = found["own"]["reward"].over(found["GRPO"]["reward"])
        means.append(figure.mean)
        if number < 40:
            halves.append((figure.high - figure.low) / 2)
            positive.append([found["GRPO"][key].is_positive for key in targets])
    assert 0.8 < np.mean(halves) / (1.96 * np.std(means)) < 1.2
    assert np.sum(positive, axis=0).tolist() == [40, pytest.approx(2, abs=2)]


@pytest.mark.parametrize(("key", "k"), [("reward", 1), ("pass", 1), ("pass", 2), ("pass", 3)])
def test_weights_of_the_targets_give_their_exact_gradients(key: str, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In expectation over all groups of the bandit, against a numerical derivative; of the expected reward once for
    each of the four responses, which no ratio sees."""
    outcomes = bandit.outcomes()
    weights = weights_of([one.group for one in outcomes], [], argparse.Namespace(batch=1000, seed=0, k=k))
    found = sum(one.probability * one.gradient(of[key].numpy()) for one, of in zip(outcomes, weights, strict=True))

    def passed(theta: np.ndarray) -> float:
        monkeypatch.setattr(bandit, "THETA", theta)
        right = [np.exp(bandit.of_response(prompt, bandit.WANTED[prompt])[0].sum()) for prompt in range(3)]
        return float(np.mean([1 - (1 - p) ** k for p in right]))

    theta, steps = bandit.THETA, 1e-5 * np.eye(5)
    wanted = np.array([(passed(theta + step) - passed(theta - step)) / 2e-5 for step in steps])
    assert found == pytest.approx(wanted * (bandit.SIZE if key == "reward" else 1), rel=1e-4)
