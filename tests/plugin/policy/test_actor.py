"""The policy's trainer as OpenRLHF's actor makes it: its loss is the estimator's, and its engines have the hook."""

import copy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import openrlhf.trainer.ray.ppo_actor as ppo_actor
import pytest
import ray
import torch
from deepspeed.runtime.zero.offload_states import offload_adam_states, reload_adam_states
from openrlhf.models.loss import PolicyLoss

from openrlhf_gtpo.errors import EntropyMissing
from openrlhf_gtpo.policy.actor import LeftOver, PolicyActor, PolicyTrainer
from openrlhf_gtpo.policy.loss import SequenceRatioLoss
from openrlhf_gtpo.resume import FILE

Make = Callable[..., PolicyTrainer]


@pytest.fixture
def make(args: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Make:
    """The trainer of rank 0, by OpenRLHF's own constructor, which finds neither ranks nor a GPU here."""
    monkeypatch.setattr(ppo_actor, "torch_dist_barrier_and_cuda_sync", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 0)

    def made(estimator: str, engines: list[Any] | None = None) -> PolicyTrainer:
        words = ["--data.label_key", "answer", "--algo.kl.init_coef", 0, "--vllm.num_engines", 1]
        words += ["--algo.advantage.estimator", estimator, "--rollout.n_samples_per_prompt", 8]
        words += ["--actor.eps_clip_low_high", 0.1, 0.3, "--actor.dual_clip", 3]
        strategy = SimpleNamespace(args=args(*words))
        return PolicyTrainer(strategy, None, None, None, None, vllm_engines=engines)

    return made


@pytest.mark.parametrize(
    ("estimator", "kind"),
    [("rloo", PolicyLoss), ("gtpo", PolicyLoss), ("grpo_s", SequenceRatioLoss), ("mine.py:shape", PolicyLoss)],
)
def test_the_estimator_has_its_loss_with_the_settings_of_openrlhfs(make: Make, estimator: str, kind: type) -> None:
    loss: Any = make(estimator).actor_loss_fn
    assert type(loss) is kind
    assert (loss.clip_eps_low, loss.clip_eps_high, loss.dual_clip) == (0.1, 0.3, 3.0)


@pytest.mark.parametrize("micro_batches", [8, 7])
def test_a_step_that_ends_within_an_update_stops_training(
    make: Make, monkeypatch: pytest.MonkeyPatch, micro_batches: int
) -> None:
    trainer = make("gtpo")
    engine = SimpleNamespace(micro_steps=0, gradient_accumulation_steps=lambda: 4)
    trainer.actor = SimpleNamespace(model=engine)

    def trains(self: Any, kl_ctl: float) -> dict[str, Any]:
        engine.micro_steps += micro_batches
        return {"policy_loss": 0.5}

    monkeypatch.setattr(ppo_actor.ActorPPOTrainer, "ppo_train", trains)
    if micro_batches % 4:
        with pytest.raises(LeftOver, match="3 micro-batches of this step"):
            trainer.ppo_train(0.0)
    else:
        assert trainer.ppo_train(0.0) == {"policy_loss": 0.5}


@pytest.mark.parametrize("hooked", [True, False])
def test_the_weight_sync_is_opened_with_engines_that_have_the_entropy_hook(
    make: Make, monkeypatch: pytest.MonkeyPatch, hooked: bool
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(PolicyTrainer, "_init_vllm_sync_group", lambda self, backend: opened.append(backend))
    monkeypatch.setattr(ray, "get", list)
    reports = [[{"hooked": True}], [{"hooked": hooked, "vllm": "0.27", "sampler": "AnotherSampler"}]]
    engines = [SimpleNamespace(entropy_hook_report=SimpleNamespace(remote=lambda one=one: one)) for one in reports]
    if hooked:
        make("gtpo", engines)
        assert len(opened) == 1
    else:
        with pytest.raises(EntropyMissing, match="AnotherSampler"):
            make("gtpo", engines)
        assert opened == []


def test_a_checkpoint_has_no_buffers_of_a_policy_that_slept_and_says_what_it_is_of(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """DeepSpeed's own way to sleep and wake; a run that is resumed would load its buffers onto the GPU."""
    weight = torch.nn.Parameter(torch.ones(3))
    adam = torch.optim.Adam([weight])
    weight.sum().backward()
    adam.step()
    before = copy.deepcopy(adam.state_dict())
    offload_adam_states(adam, "cpu")
    reload_adam_states(adam, "cpu")
    buffers = {name: value for name, value in adam.state[weight].items() if name not in before["state"][0]}
    assert len(buffers) == 2, "else DeepSpeed keeps none any more, and this may go"
    written: list[Any] = []
    monkeypatch.setattr(
        ppo_actor.PolicyModelActor.__ray_metadata__.modified_class,
        "save_checkpoint",
        lambda self, tag: written.append(copy.deepcopy(adam.state_dict())),
    )
    actor = PolicyActor.__new__(PolicyActor)
    actor.actor = SimpleNamespace(model=SimpleNamespace(optimizer=SimpleNamespace(optimizer=adam)))
    args = SimpleNamespace(ckpt=SimpleNamespace(path=str(tmp_path)), checkpoint="of this run")
    for rank, tag in ((0, "global_step1"), (1, "global_step2"), (0, "global_step3")):
        if tag != "global_step3":  # which was not written, as with --ckpt.disable_ds
            (tmp_path / "_actor" / tag).mkdir(parents=True)
        actor.strategy = SimpleNamespace(args=args, is_rank_0=lambda rank=rank: rank == 0)
        actor.save_checkpoint(tag)
    assert [path.parent.name for path in tmp_path.rglob(FILE)] == ["global_step1"], "one rank writes"
    assert (tmp_path / "_actor" / "global_step1" / FILE).read_text() == "of this run"
    assert written[0]["state"][0].keys() == before["state"][0].keys()
    assert all(adam.state[weight][name] is value for name, value in buffers.items()), "they are used again"
