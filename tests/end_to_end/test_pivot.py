"""The simulation of a pivotal token's update: its ratio by hand, its controls, and the policy that it starts from."""

import math

import pytest
import torch

import pivot

WORDINGS, TRAPS = pivot.TASKS


@pytest.fixture(scope="module")
def drawn() -> pivot.Drawn:
    return pivot.draw(WORDINGS, 150, *WORDINGS.policies[0])


def test_the_ratio_is_the_mean_of_the_updates_over_their_standard_deviation() -> None:
    # One state, right half of the time. In every other group one of two responses is right: U = 1 (1 - 0.5) + -1 (0 -
    # 0.5) = 1; in the rest both are, and advantages are 0. Thirty groups: mean 0.5, deviation 0.5 sqrt(30 / 29).
    responses = torch.arange(60)
    right = (responses % 2 == 0) | (responses % 4 == 3)
    one = torch.ones(60, 1)
    drawn = pivot.Drawn(
        entropy=one,
        mask=one.bool(),
        correct=right,
        group=responses // 2,
        state=torch.zeros(60, 1, dtype=torch.long),
        surprise=torch.where(right, 0.5, -0.5)[:, None].double(),
    )
    informative = (responses // 2) % 2 == 0
    advantages = torch.where(informative, torch.where(right, 1.0, -1.0), 0.0)[:, None]
    assert pivot.ratio(advantages, drawn, range(1)) == pytest.approx(math.sqrt(29 / 30))


def test_the_simulated_policy_starts_where_the_study_did(drawn: pivot.Drawn) -> None:
    # pass@1 0.286, 0.321 nats, 80 tokens: the records' step 0.
    assert drawn.correct.double().mean() == pytest.approx(0.286, abs=0.04)
    assert drawn.entropy[drawn.mask].mean() == pytest.approx(0.321, abs=0.02)
    assert drawn.mask.sum(1).double().mean() == pytest.approx(80, abs=4)


def test_the_policy_of_the_traps_starts_where_its_demonstrations_do() -> None:
    # 0.7 ** (4 - x) * 0.15 ** x for x exceptions in a row: 0.076 on average; the pilot measured 0.086
    # and 0.344 nats. Spread over states makes it a little more.
    drawn = pivot.draw(TRAPS, 300, *TRAPS.policies[0])
    assert drawn.correct.double().mean() == pytest.approx(0.08, abs=0.03)
    assert drawn.entropy[drawn.mask].mean() == pytest.approx(0.344, abs=0.05)
    assert drawn.mask.sum(1).double().mean() == pytest.approx(44.5, abs=1.5)
    # An operation at an exception is right with 0.15, at the other gates with 0.7: x - p is 1 - p or -p.
    exceptional = drawn.state >= 10 * pivot.traps.LETTERS.index(pivot.traps.EXCEPTIONS[0])
    right = (drawn.surprise > 0)[exceptional].double().mean()
    assert right == pytest.approx(0.16, abs=0.04)
    assert (drawn.surprise > 0)[drawn.pivotal & ~exceptional].double().mean() == pytest.approx(0.69, abs=0.04)


def test_a_surprise_is_zero_on_average_at_every_state(drawn: pivot.Drawn) -> None:
    seen = drawn.surprise[drawn.pivotal]
    assert abs(seen.mean()) < 4 * seen.std() / math.sqrt(len(seen))


@pytest.mark.parametrize(("kind", "pivots"), [("shuffled_pivots", True), ("shuffled_others", False)])
def test_a_shuffle_of_one_kind_moves_that_kind_alone_and_keeps_every_columns_values(
    drawn: pivot.Drawn, kind: str, pivots: bool
) -> None:
    values = pivot.weights(kind, drawn)
    moved = drawn.mask & (drawn.pivotal == pivots)
    assert torch.equal(values[~moved], drawn.entropy[~moved])
    assert not torch.equal(values[moved], drawn.entropy[moved])
    for group in (0, 149):
        for correct in (False, True):
            rows = (drawn.group == group) & (drawn.correct == correct)
            for column in range(drawn.mask.shape[1]):
                there = rows & moved[:, column]
                before, after = drawn.entropy[there, column], values[there, column]
                assert torch.equal(before.sort().values, after.sort().values)


def test_without_entropy_no_dose_changes_anything_and_shuffled_entropies_are_worse_than_real_ones(
    drawn: pivot.Drawn,
) -> None:
    def of(kind: str, dose: float) -> float:
        values = pivot.weights(kind, drawn)
        shaped = pivot.gtpo(values, drawn.mask, drawn.correct, drawn.group, alpha2=dose)
        return pivot.ratio(shaped.advantages, drawn, range(100))

    assert of("uniform", 3.0) == pytest.approx(of("uniform", 0.0))
    assert of("shuffled", 1.0) < 0.8 * of("entropy", 1.0)
    assert of("average", 0.1) == pytest.approx(of("uniform", 0.0), rel=0.03)
