"""Mixed-policy DAPO's mathematics: worked example, the objective by loops against OpenRLHF's own loss, properties."""

import math
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from openrlhf.models.loss import PolicyLoss

from openrlhf_gtpo.algorithms.mixed_policy import batch_factors, guide_statistics
from openrlhf_gtpo.policy.loss import SequenceRatioLoss

from . import naive_mixed_policy as naive

F64 = torch.float64
LOW, HIGH = 0.2, 0.28
CLIP = {"clip_eps_low": LOW, "clip_eps_high": HIGH}
UNITS = pytest.mark.parametrize("unit", ["token", "response"])
moderate = settings(max_examples=50, deadline=None)


class Mixed(NamedTuple):
    """Responses of the policy and of its guide; log-probabilities in float64."""

    policy: torch.Tensor  # (N, T) log pi_theta
    old: torch.Tensor  # (N, T) log pi_old, without meaning on the guide's responses
    guide: torch.Tensor  # (N, T) log pi_phi, without meaning on the policy's responses
    mask: torch.Tensor  # (N, T) bool
    advantage: torch.Tensor  # (N,)
    is_guide: torch.Tensor  # (N,) bool
    second: torch.Tensor  # (N,) bool

    def rows(self) -> list[dict[str, Any]]:
        return [dict(zip(self._fields, row, strict=True)) for row in zip(*(x.tolist() for x in self), strict=True)]

    def along(self, factors: Any = 1.0) -> torch.Tensor:
        """(N, T) advantages times a factor for each response."""
        return (self.advantage * factors)[:, None].expand(self.mask.shape)


def mixed(rows: list[tuple[list[float], float, bool, bool]]) -> Mixed:
    """Responses given by their ratios, advantage, whether they are the guide's and whether they are in the second
    batch; the log-probabilities of the policy that a response is not from are rubbish."""
    n, t = len(rows), max(1, *(len(row[0]) for row in rows))
    behaviour = torch.linspace(-3.0, -0.1, n * t, dtype=F64).reshape(n, t)
    log_ratio = torch.full((n, t), 2.5, dtype=F64)
    mask = torch.zeros(n, t, dtype=torch.bool)
    for i, (ratios, *_) in enumerate(rows):
        log_ratio[i, : len(ratios)] = torch.tensor(ratios, dtype=F64).log()
        mask[i, : len(ratios)] = True
    advantage = torch.tensor([row[1] for row in rows], dtype=F64)
    is_guide, second = (torch.tensor([row[k] for row in rows], dtype=torch.bool) for k in (2, 3))
    rubbish = torch.full_like(behaviour, -7.0)
    return Mixed(
        behaviour + log_ratio,
        torch.where(is_guide[:, None], rubbish, behaviour),
        torch.where(is_guide[:, None], behaviour, rubbish),
        mask,
        advantage,
        is_guide,
        second,
    )


S = 1 / math.sqrt(3)


def worked_example() -> Mixed:
    """A mixed group (batch 1) and a zero-reward group (batch 2), each with two responses of the policy and one of the
    guide. Rewards [1, 0, 1]: mean 2/3, variance ((1/3)^2 + (2/3)^2 + (1/3)^2) / 2 = 1/3, advantages [S, -2 S, S] with
    S = 1 / sqrt(3). Rewards [0, 0, 1]: mean 1/3, variance 1/3, advantages [-S, -S, 2 S]."""
    return mixed(
        [
            ([1.0, 1.5], S, False, False),
            ([0.5], -2 * S, False, False),
            ([0.9, 1.1, 2.0], S, True, False),
            ([1.0], -S, False, True),
            ([1.2], -S, False, True),
            ([0.7, 1.0], 2 * S, True, True),
        ]
    )


def loss_of(batch: Mixed, unit: str, factors: Any) -> torch.Tensor:
    """The real losses of OpenRLHF (token) and of GRPO-S (response)."""
    loss = PolicyLoss(**CLIP) if unit == "token" else SequenceRatioLoss(**CLIP)
    behaviour = torch.where(batch.is_guide[:, None], batch.guide, batch.old)
    return loss(batch.policy, behaviour, batch.along(factors), batch.mask.long())[0]


@st.composite
def mixed_batches(draw) -> Mixed:
    """1 to 8 responses of 0 to 4 tokens; ratios and advantages are never on a bound of the clip."""
    ratio = st.sampled_from([0.1, 0.5, 0.79, 0.81, 1.0, 1.1, 1.27, 1.29, 3.0, 20.0])
    advantage = st.integers(-20, 20).map(lambda k: k / 8)
    row = st.tuples(st.lists(ratio, max_size=4), advantage, st.booleans(), st.booleans())
    return mixed(draw(st.lists(row, min_size=1, max_size=8).filter(lambda rows: any(r[0] for r in rows))))


# The worked example


def test_the_worked_examples_factors_and_its_objective_by_response():
    batch = worked_example()
    # 6 and 4 tokens: 10 / 6 and 0.5 * 10 / 4. 3 and 3 responses: 6 / 3 and 0.5 * 6 / 3.
    by_token = batch_factors(batch.mask, batch.second, weight=0.5, unit="token")
    assert by_token.dtype == torch.float32
    assert by_token.tolist() == pytest.approx([10 / 6] * 3 + [1.25] * 3)
    factors = batch_factors(batch.mask, batch.second, weight=0.5, unit="response")
    assert factors.tolist() == [2.0] * 3 + [1.0] * 3
    # Mean ratios 1.25, 0.5 -> 0.8, 4/3 -> 1.28: (1.25 - 1.6 + 1.28) S / 3 = 0.31 S.
    # 1, 1.2, 0.85: (-1 - 1.2 + 1.7) S / 3 = -S / 6. J = 0.31 S - S / 12.
    expected = (0.31 - 1 / 12) * S
    assert naive.naive_objective(batch.rows(), 0.5, "response", LOW, HIGH) == pytest.approx(expected, abs=1e-12)
    assert loss_of(batch, "response", factors).item() == pytest.approx(-expected, abs=1e-6)


# The objective: loops over plain numbers, and the real losses with our factors


@UNITS
@moderate
@given(mixed_batches(), st.sampled_from([0.0, 0.25, 1.0, 3.0]))
def test_the_real_loss_of_factored_advantages_is_minus_j(unit, batch, weight):
    factors = batch_factors(batch.mask, batch.second, weight=weight, unit=unit)
    expected = naive.naive_objective(batch.rows(), weight, unit, LOW, HIGH)
    assert loss_of(batch, unit, factors).item() == pytest.approx(-expected, rel=1e-6, abs=1e-5)


# batch_factors


@UNITS
def test_a_batch_without_tokens_is_no_batch_and_the_second_keeps_its_weight_alone(unit):
    """Without a second batch the loss is the plain one, bit for bit: every factor is exactly 1."""
    mask = torch.tensor([[1, 1, 0], [0, 0, 0], [1, 0, 0]])
    second = torch.tensor([False, True, False])
    assert batch_factors(mask, second, weight=0.3, unit=unit).tolist() == [1.0, 1.0, 1.0]
    assert batch_factors(mask, ~second, weight=0.5, unit=unit).tolist() == [0.5, 1.0, 0.5]


# guide_statistics


def test_an_extreme_log_ratio_is_held_at_twenty_and_what_is_off_the_mask_is_ignored():
    policy = torch.tensor([[-1000.0, 0.0, math.nan]])
    guide = torch.tensor([[0.0, -1000.0, math.nan]])
    advantages = torch.tensor([[-1.0, 1.0, math.nan]])
    mask = torch.tensor([[1, 1, 0]])
    found = guide_statistics(policy, guide, mask, advantages, clip_low=LOW, clip_high=HIGH)
    assert found["guide/ratio_mean"] == pytest.approx((math.exp(20) + math.exp(-20)) / 2)
    assert found["guide/kl"] == pytest.approx((math.exp(20) + math.exp(-20) - 2) / 2)
    assert found["guide/clip_share"] == 1.0
    assert found["guide/logprob_mean"] == -500
