"""What OpenRLHF's trainers hand on to our generator and experience maker, without their actors."""

from types import SimpleNamespace
from typing import Any

import pytest
import ray

from openrlhf_gtpo.batch import Group, Response, RolloutBatch
from openrlhf_gtpo.controller import trainers

from ..guide.tables import guided, over
from .batches import made, rollout

CHECKPOINT = {"global_step": 7, "total_consumed_prompts": 70, "data_loader_state_dict": {"at": 3}}


@pytest.mark.parametrize("is_async", [False, True])
def test_a_run_that_resumes_counts_on_from_its_checkpoint(monkeypatch: pytest.MonkeyPatch, is_async: bool) -> None:
    monkeypatch.setattr(trainers.MetricsMixin, "init_checkpoint_states", lambda self: dict(CHECKPOINT))
    generate = over("ab", train__max_steps=7)
    if is_async:
        handed: list[Any] = []
        loader = SimpleNamespace(load_state_dict=handed.append)
        states = made(trainers.AsyncTrainer).init_checkpoint_states()
        half = made(trainers.AsyncGenerator, samples_generator=generate, prompts_dataloader=loader)
        half.load_state_dict(dict(states["data_loader_state_dict"]))
        assert handed == [{"at": 3}], "the data loader gets its own"
    else:
        made(trainers.Trainer, samples_generator=generate).init_checkpoint_states()
    assert (generate.steps, generate.prompts_consumed) == (7, 70)
    assert generate.generate_samples(max_len=64)[3], "which were all steps"


def test_the_learning_rates_schedule_extends_over_the_updates_that_a_guide_and_its_fillers_make() -> None:
    args = guided(rollout__batch_size=2, guide__samples=1, train__batch_size=4, train__max_steps=5)
    args.train.max_epochs = 1
    half = made(trainers.GeneratorMixin, args=args)
    # 2 x 4 responses of the policy and 2 x 1 of the guide are 10, which fillers make 12: three updates.
    assert half._updates(100) == 5 * 3


def test_a_step_logs_the_batchs_metrics_and_knows_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "get", list)
    seen: list[int] = []

    class OpenRLHFs:
        def train_step(self, batch: RolloutBatch, step: int) -> Any:
            seen.append(batch.step)
            return {"policy_loss": 2.0}, step + 1

    trainer = made(type("Trainer", (trainers.MetricsMixin, OpenRLHFs), {}), vllm_engines=None)
    batch = RolloutBatch([], metrics={"rollout/pass_rate": 0.5})
    assert trainer.train_step(batch, 4) == ({"policy_loss": 2.0, "rollout/pass_rate": 0.5}, 5)
    assert seen == [5]


def test_a_batch_is_let_go_before_the_update() -> None:
    """Gigabytes, of which only the metrics are asked for afterwards."""

    class OpenRLHFs:
        def _compute_rollout_stats(self, experiences: Any) -> Any:
            return {"rollout/num_samples": 4.0}

    batch = RolloutBatch([Group([Response(one, 64) for one in rollout()[:4]])], metrics={"rollout/pass_rate": 0.5})
    assert batch.mask.any()
    maker = SimpleNamespace(batch=batch, counted=lambda experiences: experiences)
    trainer = made(type("Trainer", (trainers.MetricsMixin, OpenRLHFs), {}), experience_maker=maker)
    assert trainer._compute_rollout_stats([]) == {"rollout/num_samples": 4.0}
    assert vars(batch) == {"metrics": {"rollout/pass_rate": 0.5}}
