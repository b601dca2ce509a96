"""What tokens deserve, worked out by hand and against simulations."""

from typing import Any

import numpy as np
import pytest

from openrlhf_gtpo.compare import deserved
from openrlhf_gtpo.compare.deserved import Tokens, by_entropy, explained, rankings


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deserved, "DRAWS", 200)


def tokens(a: Any, noise: float = 0, rng: Any = None, **columns: Any) -> Tokens:
    """Tokens with an advantage each, to which each stream adds noise; two prompts in turn, without other columns."""
    n = len(a)
    given = {name: np.zeros(n) for name in ("position", "entropy", "logprob")} | {"prompt": np.arange(n) % 2}
    given |= {"right": np.ones(n, bool), "weight": np.ones(n), "gradient": np.ones(n)}
    worth = np.asarray(a, float) + (noise * rng.standard_normal((4, n)) if noise else np.zeros((4, n)))
    return Tokens(**{**given, "worth": worth, **{name: np.asarray(value) for name, value in columns.items()}})


def test_the_top_tokens_hold_what_their_squares_add_up_to() -> None:
    """A of 3, 4 and 0, 0: 9 and 16 of 25. By entropy the 4 is first; by surprisal the 3; by position none of them."""
    given = tokens([3, 0, 0, 4], entropy=[1, 2, 0, 3], logprob=[-5, -1, -2, -3], position=[2, 0, 1, 3])
    found = {name: rows[0].tolist() for name, rows in rankings(given, np.array([0, 0.25, 0.5, 1])).items()}
    assert found == {
        "entropy": pytest.approx([0, 16 / 25, 16 / 25, 1]),
        "surprisal": pytest.approx([0, 9 / 25, 1, 1]),
        "position": pytest.approx([0, 0, 0, 1]),
        "best, at least": pytest.approx([0, 16 / 25, 1, 1]),
        "best, at most": pytest.approx([0, 16 / 25, 1, 1]),
    }


def test_a_chosen_token_stands_for_those_that_were_not() -> None:
    """The first stands for two, the second for itself. Entropy ranks all; the best ranking has but the chosen ones."""
    given = tokens([3, 4, 9, 9], weight=[2, 1, 0, 0], entropy=[4, 1, 3, 2])
    found = {name: rows[0, 0] for name, rows in rankings(given, np.array([0.5])).items()}
    assert found["entropy"] == pytest.approx(18 / 34)
    assert (found["best, at least"], found["best, at most"]) == (pytest.approx(25 / 34), pytest.approx(25 / 34))


def test_the_best_possible_ranking_lies_between_its_bounds() -> None:
    rng, bounds = np.random.default_rng(0), []
    a = np.where(rng.random(400) < 0.1, rng.standard_normal(400), 0)
    for _ in range(40):
        found = rankings(tokens(a, 0.3, rng), np.array([0.05]))
        bounds.append([found["best, at least"][0, 0], found["best, at most"][0, 0]])
    low, high = np.mean(bounds, axis=0)
    assert low < np.sort(a**2)[-20:].sum() / (a**2).sum() < high
    assert high - low < 0.4


def test_the_mean_in_each_bin_of_entropy_is_that_of_its_class() -> None:
    given = tokens([1, 2, 4, 8], entropy=[0.02, 0.09, 0.02, 5], right=[True, True, False, True])
    right, wrong = (by_entropy(given, given.worth[0], side) for side in (True, False))
    assert [one.mean for one in right] == pytest.approx([np.nan, 1.5, np.nan, np.nan, np.nan, 8], nan_ok=True)
    assert (wrong[1].low, wrong[1].high) == (4, 4), "of the draws that have such tokens"
    assert [one.mean for one in wrong] == pytest.approx([np.nan, 4, np.nan, np.nan, np.nan, np.nan], nan_ok=True)


def test_credit_explains_the_squared_cosine_with_what_was_true() -> None:
    """A of 1, 2 with gradients of 1 and 4: equal credit has (1 + 8)^2 / (5 * 17). Its scale is no matter."""
    given = tokens([1, 2], gradient=[1, 4], prompt=[0, 1])
    found = explained(given, {"true": -3 * given.worth[0], "equal": np.full(2, 0.7), "none": np.zeros(2)})
    assert {name: float(one[0]) for name, one in found.items()} == pytest.approx(
        {"true": 1, "equal": 81 / 85, "none": 0}
    )


def test_noise_in_the_values_does_not_change_the_figures_on_average() -> None:
    """With noise as large as A, squares of a mean would be half as large again, and credit without a direction would
    explain 1 / 400."""
    rng, found = np.random.default_rng(1), []
    a = np.repeat([1.0, 0.0], 200)
    credits = {"half": np.tile([1, 1, 0, 0], 100), "none": np.tile([1, -1], 200)}
    for _ in range(60):
        given = tokens(a, 1, rng, entropy=a)
        shares = [one[0] for one in explained(given, credits).values()]
        found.append([*shares, rankings(given, np.array([0.5]))["entropy"][0, 0]])
    assert np.mean(found, axis=0) == pytest.approx([0.25, 0, 1], abs=0.03)
    assert abs(np.mean(found, axis=0)[1]) < 0.0012
    assert tokens([0, 0], worth=np.array([[1, 0], [3, 0], [5, 2], [9, 2]])).halves.tolist() == [[2, 0], [7, 2]]


def test_intervals_cover_the_truth() -> None:
    """Thirty prompts whose tokens are worth as much as the prompt has drawn, 0 on average: in 90 to 98 % of 200."""
    rng, prompt = np.random.default_rng(2), np.repeat(np.arange(30), 4)
    covered = 0
    for _ in range(200):
        one = by_entropy(tokens(rng.standard_normal(30)[prompt], 0.1, rng, prompt=prompt), np.zeros(120), True)[0]
        assert (one.low, one.mean, one.high) == (0, 0, 0)
        given = tokens(rng.standard_normal(30)[prompt], 0.1, rng, prompt=prompt)
        one = by_entropy(given, given.halves.mean(0), True)[0]
        covered += one.low <= 0 <= one.high
    assert 180 <= covered <= 196
