"""Which responses make an update with dynamic micro-batches: OpenRLHF's own balancing and buffers, on two ranks."""

import random
from types import SimpleNamespace
from typing import Any

import pytest
import ray
import torch
from openrlhf.trainer.ppo_utils.experience import Experience, balance_experiences
from openrlhf.trainer.ppo_utils.replay_buffer import NaiveReplayBuffer

from openrlhf_gtpo.batch import Response
from openrlhf_gtpo.controller.micro_batches import experience_of
from openrlhf_gtpo.controller.trainers import MetricsMixin
from openrlhf_gtpo.policy.updates import shuffle_share
from openrlhf_gtpo.seeds import seed_process

from ..controller.batches import arguments, made, response

RANKS, UPDATES, OF_A_RANK = 2, 4, 16


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What each training actor has before an update, of 128 responses with log-normal lengths."""
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    draw = random.Random(0)
    lengths = [round(draw.lognormvariate(3, 0.5)) + 1 for _ in range(RANKS * UPDATES * OF_A_RANK)]
    samples = [experience_of(Response(response("p", 3, [0.5] * length, 1.0), 1000)) for length in lengths]
    dealt = balance_experiences([Experience.concat_experiences(samples, 0)], arguments())
    buffers = [NaiveReplayBuffer(1, dynamic_batch=True) for _ in dealt]
    for buffer, share in zip(buffers, dealt, strict=True):
        buffer.append(share)
    return [SimpleNamespace(trainer=SimpleNamespace(replay_buffer=buffer)) for buffer in buffers]


def lengths(ranks: list[Any]) -> torch.Tensor:
    """(updates, responses of a rank, ranks), as OpenRLHF cuts them."""
    of_ranks = [[int(item.action_mask.sum()) for item in rank.trainer.replay_buffer.items] for rank in ranks]
    return torch.tensor(of_ranks).T.reshape(UPDATES, OF_A_RANK, RANKS).float()


def test_updates_are_no_longer_sorted_by_length_and_ranks_stay_balanced(ranks: list[Any]) -> None:
    by_length = lengths(ranks)
    spread = by_length.flatten(1).std(1)
    assert spread[0] > 10 * spread[-1], "OpenRLHF: the longest and the shortest first, then all alike"
    for rank in ranks:
        shuffle_share(rank, 7)
    shuffled = lengths(ranks)
    spread = shuffled.flatten(1).std(1)
    assert spread.max() < 4 * spread.min()
    pairs, before = shuffled.reshape(-1, RANKS).tolist(), by_length.reshape(-1, RANKS).tolist()
    assert sorted(pairs) == sorted(before) != pairs, "each response stays beside one of about its length"


@pytest.mark.parametrize(
    ("dynamic", "order", "seeds"), [(True, "shuffle", 2), (True, "length", 1), (False, "shuffle", 1)]
)
def test_a_flag_decides_and_each_step_draws_another_order_which_a_repeated_one_draws_again(
    monkeypatch: pytest.MonkeyPatch, dynamic: bool, order: str, seeds: int
) -> None:
    monkeypatch.setattr(ray, "get", list)
    asked: list[tuple[Any, int]] = []
    call = SimpleNamespace(remote=lambda function, seed: asked.append((function, seed)))
    group = SimpleNamespace(_actor_handlers=[SimpleNamespace(__ray_call__=call)])

    class OpenRLHFs:
        def ppo_train(self, global_step: int) -> None:
            pass

    args = arguments(train__dynamic_batch_enable=dynamic, train__update_order=order)
    cls = type("Trainer", (MetricsMixin, OpenRLHFs), {})
    controller = made(cls, args=args, actor_model_group=group, critic_model_group=group)
    for step in (1, 2, 1):
        controller.ppo_train(step)
    functions = [function for function, _ in asked]
    assert functions == ([seed_process] * 2 + [shuffle_share] * 2 * (seeds - 1)) * 3
    first, second, again = (asked[start : start + 2 * seeds] for start in range(0, len(asked), 2 * seeds))
    assert first == again != second
    assert len({seed for _, seed in first}) == seeds, "policy and critic have one seed, and each purpose its own"
