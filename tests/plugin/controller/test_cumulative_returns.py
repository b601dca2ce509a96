"""Cumulative returns in few passes, against OpenRLHF's own loop over the columns."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker

from openrlhf_gtpo.controller.experience import ExperienceMaker

OURS, OPENRLHFS = object.__new__(ExperienceMaker), object.__new__(RemoteExperienceMaker)
shapes = st.tuples(st.integers(1, 4), st.integers(1, 40))


def test_each_place_has_the_discounted_sum_of_what_follows() -> None:
    rewards = torch.tensor([[1.0, 0.0, 4.0, 8.0]])
    mask = torch.tensor([[1, 1, 1, 0]])
    assert OURS.get_cumulative_returns(rewards, mask, 0.5).tolist() == [[2.0, 2.0, 4.0, 0.0]]
    assert OURS.get_cumulative_returns(rewards, None, 1.0).tolist() == [[13.0, 12.0, 12.0, 8.0]]


@given(shapes, st.integers(0, 2**32), st.sampled_from([torch.float32, torch.bfloat16]))
def test_one_reward_a_row_gives_openrlhfs_values_to_the_last_bit(
    shape: tuple[int, int], seed: int, dtype: torch.dtype
) -> None:
    draw = torch.Generator().manual_seed(seed)
    place = torch.randint(0, shape[1], (shape[0], 1), generator=draw)
    rewards = torch.zeros(shape).scatter_(1, place, torch.randn(shape[0], 1, generator=draw)).to(dtype)
    mask = torch.rand(shape, generator=draw) < 0.8
    rewards_before = rewards.clone()
    found = OURS.get_cumulative_returns(rewards, mask.long(), 1.0)
    expected = OPENRLHFS.get_cumulative_returns(rewards, mask.long(), 1.0)
    assert found.dtype == expected.dtype
    assert torch.equal(found, expected)
    assert torch.equal(rewards, rewards_before)


@given(shapes, st.integers(0, 2**32), st.sampled_from([0.0, 0.5, 0.99, 1.0]), st.booleans())
def test_rewards_everywhere_give_openrlhfs_values_up_to_rounding(
    shape: tuple[int, int], seed: int, gamma: float, masked: bool
) -> None:
    draw = torch.Generator().manual_seed(seed)
    rewards = torch.randn(shape, generator=draw)
    mask = (torch.rand(shape, generator=draw) < 0.8).long() if masked else None
    torch.testing.assert_close(
        OURS.get_cumulative_returns(rewards, mask, gamma),
        OPENRLHFS.get_cumulative_returns(rewards, mask, gamma),
        rtol=1e-5,
        atol=1e-5,
    )


@pytest.mark.parametrize("gamma", [1.0, 0.999])
def test_thousands_of_columns_stay_within_float32s_rounding(gamma: float) -> None:
    rewards = torch.rand(2, 5000, generator=torch.Generator().manual_seed(0))
    expected = OPENRLHFS.get_cumulative_returns(rewards.double(), None, gamma).float()
    torch.testing.assert_close(OURS.get_cumulative_returns(rewards, None, gamma), expected, rtol=1e-6, atol=0)
