"""Which tokens are forking tokens."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from openrlhf_gtpo.algorithms.forking import forking_tokens


def test_the_given_share_of_the_batch_with_the_highest_entropy_is_kept() -> None:
    entropy = torch.tensor([[0.1, 0.9, 0.2, 9.0], [0.8, 0.3, 0.4, 0.5]])
    mask = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]])
    # Two of the seven response tokens, over the whole batch and not per response; the 9.0 is off the mask.
    assert forking_tokens(entropy, mask, 0.3).tolist() == [[False, True, False, False], [True, False, False, False]]


def test_a_share_of_one_keeps_every_response_token_and_no_other() -> None:
    entropy = torch.tensor([[0.0, 1.0], [float("nan"), 2.0]])
    mask = torch.tensor([[1, 1], [0, 1]])
    assert torch.equal(forking_tokens(entropy, mask, 1.0), mask.bool())


def test_tokens_of_equal_entropy_are_kept_or_dropped_together() -> None:
    entropy = torch.tensor([[0.5, 0.5, 0.5, 0.1]])
    assert forking_tokens(entropy, torch.ones_like(entropy), 0.25).tolist() == [[True, True, True, False]]


def test_at_least_one_token_learns_and_none_where_there_is_none() -> None:
    assert forking_tokens(torch.tensor([[0.2, 0.3]]), torch.ones(1, 2), 1e-9).tolist() == [[False, True]]
    assert not forking_tokens(torch.ones(2, 3), torch.zeros(2, 3), 0.2).any()


@given(st.lists(st.floats(0, 5, width=32), min_size=1, max_size=200, unique=True), st.floats(0.01, 1.0))
def test_no_dropped_token_has_more_entropy_than_a_kept_one(values: list[float], share: float) -> None:
    entropy = torch.tensor([values])
    kept = forking_tokens(entropy, torch.ones_like(entropy), share)
    assert int(kept.sum()) == max(1, round(share * len(values)))
    if not kept.all():
        assert entropy[kept].min() > entropy[~kept].max()
