"""Runs in the controller: puts our generator and experience maker into OpenRLHF's loop, and writes the files of a run:
metrics.jsonl, evaluations.jsonl and run.json."""

import functools
from collections.abc import Callable
from typing import Any

import openrlhf.trainer.ppo_trainer as ppo_trainer
import openrlhf.trainer.ppo_trainer_async as ppo_trainer_async
import openrlhf.trainer.ppo_utils.experience_maker as experience_maker
import ray
import torch
from openrlhf.trainer.ppo_utils.experience import Experience

from openrlhf_gtpo.algorithms.partition import balanced_partition
from openrlhf_gtpo.controller.during_training import with_every_k
from openrlhf_gtpo.controller.experience import ExperienceMaker
from openrlhf_gtpo.controller.generator import Generator
from openrlhf_gtpo.controller.metrics import MetricsFile, progress_line
from openrlhf_gtpo.controller.rollouts_file import rollouts_path
from openrlhf_gtpo.controller.run_record import write_run_record
from openrlhf_gtpo.controller.schedule import updates
from openrlhf_gtpo.controller.updates_file import read_updates
from openrlhf_gtpo.data.as_written import reading_as_written
from openrlhf_gtpo.openrlhf_internals import plain_class
from openrlhf_gtpo.seeds import derived, seed_process
from openrlhf_gtpo.sent_once import SentOnce


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
    # Evaluations during training report Pass@k for every k.
    module.compute_eval_metrics = with_every_k(module.compute_eval_metrics)
    # Prompts and labels are read exactly as the file has them.
    module.prepare_datasets = in_seeded_order(reading_as_written(module.prepare_datasets))
# Micro-batches of --train.dynamic_batch_enable, in milliseconds instead of seconds.
experience_maker.get_seqlen_balanced_partitions = balanced_partition


class GeneratorMixin:
    """Mixin of what generates: our generator in place of OpenRLHF's, and ``--train.max_steps``."""

    samples_generator: Any
    args: Any
    max_steps: int

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.samples_generator = Generator.like(self.samples_generator)
        self.samples_generator.tokenizer = SentOnce(self.samples_generator.tokenizer)  # only passed to rollout actors
        self.max_steps = int(updates(self.args, self.max_steps))


CLIENT_STATES = ("episode", "global_step", "total_consumed_prompts", "data_loader_state_dict")
"""What OpenRLHF's loop puts into a checkpoint; DeepSpeed adds its own."""


class MetricsMixin:
    """Mixin of what trains: our experience maker in place of OpenRLHF's. It logs the metrics of each batch to every
    logger of OpenRLHF and to metrics.jsonl."""

    planned: list[int] | None
    """Optimiser updates of each step, from the first, where ``--train.updates_from`` gives them."""
    resumed: dict[str, Any]
    """The `CLIENT_STATES` of the checkpoint, until the engines have its weights."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.experience_maker = ExperienceMaker.like(self.experience_maker)
        settings = self.args.plugin
        self.planned = read_updates(settings.updates_from, settings.max_steps) if settings.updates_from else None
        path = settings.metrics_path
        self.metrics_file = MetricsFile(path)
        self.evaluations_file = MetricsFile(path.with_name("evaluations.jsonl"))
        loader = getattr(self, "prompts_dataloader", None)  # in asynchronous training the generating actor has it
        self.hashing = write_run_record(path.with_name("run.json"), self.args, loader)

    def fit(self: Any, *args: Any, **kwargs: Any) -> None:
        """As OpenRLHF's; then run.json is whole but for the final weights, which are saved after it."""
        super().fit(*args, **kwargs)  # type: ignore[misc]
        self.hashing.join()

    def init_checkpoint_states(self: Any) -> Any:
        """As OpenRLHF's, which calls it once before the first step; the files continue after the checkpoint's step."""
        states = super().init_checkpoint_states()  # type: ignore[misc]
        self.resumed = {name: states[name] for name in CLIENT_STATES}
        if states["data_loader_state_dict"].get("_iterator_finished"):
            states["episode"] += 1  # its last prompt was drawn; OpenRLHF would begin the checkpoint's episode anew
        for file in (self.metrics_file, self.evaluations_file, MetricsFile(rollouts_path(self.args.plugin))):
            file.begin(states["global_step"])
        return states

    def ppo_train(self: Any, global_step: int) -> Any:
        """As OpenRLHF's; what the ranks shuffle and drop out, and the number of updates of ``--train.updates_from``,
        follow from the step, so a resumed run does the same."""
        groups = [group for group in (self.actor_model_group, self.critic_model_group) if group is not None]
        seed = derived(self.args.train.seed, "update", global_step)
        ray.get([rank.__ray_call__.remote(seed_process, seed) for group in groups for rank in group._actor_handlers])
        if self.planned is not None:
            number = self.planned[global_step]
            ray.get([rank.plan_updates.remote(number) for rank in self.actor_model_group._actor_handlers])
        return super().ppo_train(global_step)  # type: ignore[misc]

    def train_step(self: Any, rollout_samples: list[Experience], global_step: int) -> Any:
        """As OpenRLHF's, with our metrics added to the status, so that tensorboard and wandb log them too."""
        self.experience_maker.step = global_step + 1
        status, step = super().train_step(rollout_samples, global_step)  # type: ignore[misc]
        status.update(self.experience_maker.metrics)
        status.update(self._reward_metrics())
        return status, step

    def _compute_rollout_stats(self: Any, experiences: list[Experience]) -> Any:
        """As OpenRLHF's, over the responses that our metrics are of."""
        return super()._compute_rollout_stats(self.experience_maker.counted(experiences))  # type: ignore[misc]

    def _reward_metrics(self: Any) -> dict[str, float]:
        stats = ray.get([engine.reward_stats.remote() for engine in self.vllm_engines or []])
        return {f"reward/{name}_total": float(sum(s[name] for s in stats)) for name in (stats[0] if stats else {})}

    def save_logs_and_checkpoints(
        self: Any, global_step: int, logs_dict: Any = None, client_states: Any = None
    ) -> None:
        """As OpenRLHF's, with a line in metrics.jsonl and a line of progress.

        The line in metrics.jsonl is written first, so a step that has a checkpoint always has its line, even if the
        run is killed.
        """
        self.metrics_file.write(global_step, logs_dict or {})
        super().save_logs_and_checkpoints(global_step, logs_dict, client_states)  # type: ignore[misc]
        print(progress_line(global_step, logs_dict or {}), flush=True)

    def save_best_checkpoint(self: Any, eval_metrics: Any, global_step: int, client_states: Any = None) -> None:
        """As OpenRLHF's, which passes every evaluation's metrics here; also writes a line in evaluations.jsonl."""
        if eval_metrics:
            self.evaluations_file.write(global_step, eval_metrics)
        super().save_best_checkpoint(eval_metrics, global_step, client_states)  # type: ignore[misc]


class Trainer(MetricsMixin, GeneratorMixin, plain_class(ppo_trainer.PPOTrainer)):  # type: ignore[misc]
    """OpenRLHF's controller with our generator and experience maker."""

    def init_checkpoint_states(self) -> Any:
        """As OpenRLHF's, once every actor is up. The steps before a checkpoint count for ``--train.max_steps``."""
        states = super().init_checkpoint_states()
        generator = self.samples_generator
        generator.steps, generator.prompts_consumed = states["global_step"], states["total_consumed_prompts"]
        for transformation in generator.transformations:
            transformation.connect(generator.tokenizer, self.vllm_engines)
        return states

    def broadcast_to_vllm(self) -> None:
        """As OpenRLHF's, which begins a resumed run with it. If the run was stopped after a checkpoint and before the
        evaluation of the same step, that evaluation is done now."""
        super().broadcast_to_vllm()
        states, self.resumed = self.resumed, {}
        step = states.get("global_step", 0)
        due = step and self.eval_dataloader and step % self.args.eval.steps == 0
        if due and step not in self.evaluations_file.steps():
            settings = {
                **self.generate_kwargs,
                "temperature": self.args.eval.temperature,
                "n_samples_per_prompt": self.args.eval.n_samples_per_prompt,
            }
            self.save_best_checkpoint(self.evaluate(step, **settings), step, states)

    def _reward_metrics(self) -> dict[str, float]:
        return {**super()._reward_metrics(), **self.samples_generator.metrics()}


class AsyncGenerator(GeneratorMixin, plain_class(ppo_trainer_async.GenerateSamplesActor)):  # type: ignore[misc]
    """The generating half of OpenRLHF's asynchronous training with our generator."""


class AsyncTrainer(MetricsMixin, plain_class(ppo_trainer_async.TrainingActor)):  # type: ignore[misc]
    """The training half of OpenRLHF's asynchronous training with our experience maker."""
