"""A planned number of optimiser updates, in OpenRLHF's own loop over passes: no Ray, no DeepSpeed, one process."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.replay_buffer import NaiveReplayBuffer
from openrlhf.trainer.ray import ppo_actor

from openrlhf_gtpo.policy.actor import PolicyTrainer

RESPONSES, MICRO, OF_UPDATE = 24, 2, 3
"""A pass has 12 micro-batches of 2 responses: 4 updates of 3 micro-batches."""


class Trained:
    """The policy's trainer without its constructor. ``seen``: the responses of every micro-batch, by their numbers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, epochs: int = 1) -> None:
        self.seen: list[list[int]] = []
        self.trainer: PolicyTrainer = object.__new__(PolicyTrainer)
        self.trainer.args = SimpleNamespace(
            train=SimpleNamespace(dynamic_batch_enable=False), ds=SimpleNamespace(tensor_parallel_size=1)
        )
        self.trainer.strategy = SimpleNamespace(
            ring_attn_group=None,
            accumulated_gradient=OF_UPDATE,
            is_rank_0=lambda: False,
            all_reduce=lambda data: data,
        )
        self.trainer.max_epochs, self.trainer.dataloader_pin_memory = epochs, False
        self.trainer.actor_loss_fn, self.trainer.update_parts = torch.nn.Identity(), []
        self.trainer.kept = SimpleNamespace(of=lambda *args: torch.no_grad())  # type: ignore[assignment]
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        self.trainer.replay_buffer = NaiveReplayBuffer(MICRO, cpu_offload=False)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: "cpu")
        ones = torch.ones(RESPONSES, 3)
        self.trainer.replay_buffer.append(
            Experience(
                sequences=ones.long(),
                attention_mask=ones,
                action_mask=torch.ones(RESPONSES, 2),
                info={"number": torch.arange(RESPONSES).float()},
            )
        )

        def training_step(_: Any, experience: Experience, kl: float, step: int, norm: dict[str, Any]) -> Any:
            assert norm["batch_num_tokens"] == 2 * MICRO, "of a whole update, by its number of micro-batches"
            self.seen.append([int(number) for number in experience.info["number"]])
            status = {"metrics": {"policy_loss": torch.tensor(1.0)}, "weights": {"policy_loss": "token"}}
            return {**status, "num_samples": float(MICRO), "num_action_tokens": 2.0 * MICRO}

        monkeypatch.setattr(ppo_actor.ActorPPOTrainer, "training_step", training_step)

    def step(self, planned: int | None) -> dict[str, float]:
        torch.manual_seed(11)
        self.trainer.planned = planned
        self.seen.clear()
        status: dict[str, float] = self.trainer.ppo_train(0.0)
        return status


@pytest.mark.parametrize("planned", [1, 3, 4, 5, 8, 11, 12])
def test_planned_updates_are_the_first_of_as_many_whole_passes(monkeypatch: pytest.MonkeyPatch, planned: int) -> None:
    three_passes = Trained(monkeypatch, epochs=3)
    assert three_passes.step(None)["policy/updates"] == 12
    order = list(three_passes.seen)
    assert len({str(order[start : start + 12]) for start in (0, 12, 24)}) == 3, "each pass has an order of its own"
    found = Trained(monkeypatch)
    status = found.step(planned)
    assert status == {"policy_loss": 1.0, "policy/updates": float(planned)}
    assert found.seen == order[: planned * OF_UPDATE]
    for start in range(0, len(found.seen) - 11, 12):
        of_pass = [number for one in found.seen[start : start + 12] for number in one]
        assert sorted(of_pass) == list(range(RESPONSES)), "a whole pass has every response once"


def test_every_step_has_its_own_plan_and_without_one_the_run_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Trained(monkeypatch)
    assert plain.step(None)["policy/updates"] == 4
    once = list(plain.seen)
    found = Trained(monkeypatch)
    assert [found.step(planned)["policy/updates"] for planned in (9, 2, 6)] == [9, 2, 6]
    assert found.step(4)["policy/updates"] == 4
    assert found.seen == once
