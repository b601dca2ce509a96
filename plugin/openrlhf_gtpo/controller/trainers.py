"""Runs in the controller: puts our generator and experience maker into OpenRLHF's loop, and writes the files of a
run."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openrlhf.trainer.ppo_trainer as ppo_trainer
import openrlhf.trainer.ppo_trainer_async as ppo_trainer_async
import ray
import torch
from openrlhf.trainer.ppo_utils.experience import Experience

from openrlhf_gtpo.batch import RolloutBatch
from openrlhf_gtpo.controller.during_training import with_every_k
from openrlhf_gtpo.controller.experience import ExperienceMaker
from openrlhf_gtpo.controller.files import StepsFile, write_run_record
from openrlhf_gtpo.controller.generator import Generator
from openrlhf_gtpo.controller.metrics import GAP, progress_line, weights_differ
from openrlhf_gtpo.controller.watch import Watch
from openrlhf_gtpo.data.prompts import reading_as_written
from openrlhf_gtpo.host import overrides, plain_class, replace
from openrlhf_gtpo.policy.updates import shuffle_share
from openrlhf_gtpo.seeds import derived, seed_process
from openrlhf_gtpo.sent_once import SentOnce
from openrlhf_gtpo.terminal import MARK

OF_TRAINING = (
    "init_checkpoint_states",
    "ppo_train",
    "train_step",
    "_compute_rollout_stats",
    "save_logs_and_checkpoints",
    "save_best_checkpoint",
)
"""Methods of OpenRLHF that `MetricsMixin` overrides."""
CHECKPOINT = "openrlhf_gtpo"
"""Under which a checkpoint's counts travel with the state of the data loader."""


def in_seeded_order(prepare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """OpenRLHF's ``prepare_datasets``, whose order of prompts follows from ``--train.seed``.

    Its data loader takes its seed from torch's global generator when it is made, and nothing seeds that.
    """

    @functools.wraps(prepare)
    def prepare_datasets(strategy: Any, tokenizer: Any) -> Any:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived(strategy.args.train.seed, "prompts"))
            return prepare(strategy, tokenizer)

    return prepare_datasets


# Each process of the controller imports this module.
for module in (ppo_trainer, ppo_trainer_async):
    replace(
        module,
        # Evaluations during training report Pass@k for every k.
        compute_eval_metrics=with_every_k(module.compute_eval_metrics),
        # Prompts and labels are read exactly as the file has them.
        prepare_datasets=in_seeded_order(reading_as_written(module.prepare_datasets)),
    )


class GeneratorMixin:
    """Mixin of what generates: our generator in place of OpenRLHF's, and ``--train.max_steps``."""

    samples_generator: Any
    args: Any
    max_steps: int

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.samples_generator = Generator.like(self.samples_generator)
        self.samples_generator.tokenizer = SentOnce(self.samples_generator.tokenizer)  # only passed to rollout actors
        self.max_steps = self._updates(self.max_steps)

    def _updates(self, possible: int) -> int:
        """Optimiser updates of the whole run, over which the learning rate's schedule extends, from OpenRLHF's number,
        which comes from that of the prompts. A guide's second batch, whose size is not known in advance, is left
        out."""
        args = self.args
        own = responses = args.rollout.batch_size * args.rollout.n_samples_per_prompt
        if args.guide.model and "all" in args.guide.when:
            responses += args.rollout.batch_size * args.guide.samples
            responses += -responses % args.whole_updates
        possible = possible * responses // own
        if args.train.max_steps is None:
            return possible
        return min(possible, args.train.max_steps * responses // args.train.batch_size * args.train.max_epochs)


class MetricsMixin:
    """Mixin of what trains: our experience maker in place of OpenRLHF's. It logs the metrics of each batch to every
    logger of OpenRLHF and to metrics.jsonl."""

    first_gap: float | None = None
    watch = Watch()

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        generator = getattr(self, "samples_generator", None)  # an asynchronous run has it in another process
        self.watch = generator.watch if isinstance(generator, Generator) else self.watch
        self.experience_maker = ExperienceMaker.like(self.experience_maker)
        path = Path(self.args.logger.metrics_path)
        self.files = [StepsFile(path.with_name(name)) for name in (path.name, "evaluations.jsonl", "rollouts.jsonl")]
        write_run_record(path.with_name("run.json"), self.args)

    def init_checkpoint_states(self: Any) -> Any:
        """As OpenRLHF's, which calls it once before the first step; the files continue after the checkpoint's step."""
        states = super().init_checkpoint_states()  # type: ignore[misc]
        if states["data_loader_state_dict"].get("_iterator_finished"):
            states["episode"] += 1  # its last prompt was drawn; OpenRLHF would begin the checkpoint's episode again
        for file in self.files:
            file.begin(states["global_step"])
        self.watch.begin(states["global_step"] + 1)
        return states

    def ppo_train(self: Any, global_step: int) -> Any:
        """As OpenRLHF's; what the ranks shuffle and drop out follows from the step, so a resumed run does the same."""
        self.watch.waits_for("the policy's update")
        groups = [group for group in (self.actor_model_group, self.critic_model_group) if group is not None]
        ranks = [rank for group in groups for rank in group._actor_handlers]
        seed = self.args.train.seed
        ray.get([rank.__ray_call__.remote(seed_process, derived(seed, "update", global_step)) for rank in ranks])
        if self.args.train.dynamic_batch_enable and self.args.train.update_order == "shuffle":
            ray.get([rank.__ray_call__.remote(shuffle_share, derived(seed, "order", global_step)) for rank in ranks])
        return super().ppo_train(global_step)  # type: ignore[misc]

    def train_step(self: Any, rollout_samples: RolloutBatch, global_step: int) -> Any:
        """As OpenRLHF's, with our metrics added to the status, so that tensorboard and wandb log them too."""
        rollout_samples.step = global_step + 1
        self.watch.waits_for("the policy's log-probabilities")
        status, step = super().train_step(rollout_samples, global_step)  # type: ignore[misc]
        stats = ray.get([engine.reward_stats.remote() for engine in self.vllm_engines or []])
        totals = {f"reward/{name}_total": float(sum(s[name] for s in stats)) for name in (stats[0] if stats else {})}
        status.update(rollout_samples.metrics | totals)
        return status, step

    def _compute_rollout_stats(self: Any, experiences: list[Experience]) -> Any:
        """As OpenRLHF's, over the responses that our metrics are of; nobody asks for the batch afterwards."""
        stats = super()._compute_rollout_stats(self.experience_maker.counted(experiences))  # type: ignore[misc]
        self.experience_maker.batch.free()
        return stats

    def save_logs_and_checkpoints(self: Any, global_step: int, logs_dict: Any = None, states: Any = None) -> None:
        """As OpenRLHF's; the line in metrics.jsonl is written first, so a step that has a checkpoint always has it."""
        self.files[0].write(global_step, logs_dict or {})
        self.watch.waits_for("its evaluation or checkpoint")
        super().save_logs_and_checkpoints(global_step, logs_dict, states)  # type: ignore[misc]
        self.watch.begin(global_step + 1)
        self.watch.waits_for("the rollouts")
        print(f"{MARK}{progress_line(global_step, logs_dict or {})}", flush=True)
        if (gap := (logs_dict or {}).get(GAP)) is not None:
            self.first_gap = gap if self.first_gap is None else self.first_gap
            if warning := weights_differ(global_step, gap, self.first_gap):
                print(f"{MARK}{warning}", flush=True)

    def save_best_checkpoint(self: Any, eval_metrics: Any, global_step: int, client_states: Any = None) -> None:
        """As OpenRLHF's, which passes every evaluation's metrics here; also writes a line in evaluations.jsonl."""
        if eval_metrics:
            self.files[1].write(global_step, eval_metrics)
        super().save_best_checkpoint(eval_metrics, global_step, client_states)  # type: ignore[misc]


@overrides(*OF_TRAINING)
class Trainer(MetricsMixin, GeneratorMixin, plain_class(ppo_trainer.PPOTrainer)):  # type: ignore[misc]
    """OpenRLHF's controller with our generator and experience maker."""

    def init_checkpoint_states(self) -> Any:
        """As OpenRLHF's, once every actor is up."""
        states = super().init_checkpoint_states()
        self.samples_generator.go_on_after(states)
        if guide := self.samples_generator.guide:
            guide.connect(self.samples_generator.tokenizer)
        return states


@overrides("load_state_dict")
class AsyncGenerator(GeneratorMixin, plain_class(ppo_trainer_async.GenerateSamplesActor)):  # type: ignore[misc]
    """The generating half of OpenRLHF's asynchronous training with our generator."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As OpenRLHF's, with what `AsyncTrainer` added."""
        self.samples_generator.go_on_after(state_dict.pop(CHECKPOINT))
        super().load_state_dict(state_dict)


@overrides(*OF_TRAINING)
class AsyncTrainer(MetricsMixin, plain_class(ppo_trainer_async.TrainingActor)):  # type: ignore[misc]
    """The training half of OpenRLHF's asynchronous training with our experience maker."""

    def init_checkpoint_states(self) -> Any:
        """As OpenRLHF's, which hands on to the other half only the state of its data loader."""
        states = super().init_checkpoint_states()
        counts = {name: states[name] for name in ("global_step", "total_consumed_prompts")}
        return {**states, "data_loader_state_dict": {**states["data_loader_state_dict"], CHECKPOINT: counts}}
