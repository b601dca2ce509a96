"""Which tokens are forking tokens."""

import torch

from openrlhf_gtpo.algorithms.forking import forking_tokens


def test_tokens_of_equal_entropy_are_kept_together_and_at_least_one_is_where_there_are_any() -> None:
    entropy = torch.tensor([[0.5, 0.5, 0.5, 0.1]])
    assert forking_tokens(entropy, torch.ones_like(entropy), 0.25).tolist() == [[True, True, True, False]]
    assert forking_tokens(torch.tensor([[0.2, 0.3]]), torch.ones(1, 2), 1e-9).tolist() == [[False, True]]
    assert not forking_tokens(torch.ones(2, 3), torch.zeros(2, 3), 0.2).any()
