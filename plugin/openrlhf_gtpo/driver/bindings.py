"""The names in OpenRLHF that the driver rebinds before it runs OpenRLHF's script, each with its reason.

Ray pickles a class behind ``@ray.remote`` by its import path, so a subclass in one of our modules reaches every
worker. Workers rebind more in their own processes, beside its use: vLLM's samplers (`openrlhf_gtpo.engine.hook`),
OpenRLHF's reader of data sets (`openrlhf_gtpo.data.as_written`), and on a CPU ``torch.cuda`` and the process group of
the weights (`openrlhf_gtpo.cpu`)."""

import importlib
from dataclasses import dataclass
from typing import Any

from openrlhf_gtpo.settings import GuideSettings, RolloutSettings


@dataclass(frozen=True)
class Binding:
    """A name that stands for ours while OpenRLHF's script runs."""

    module: str
    name: str
    ours: str
    """``module:name`` of what it stands for on a GPU."""
    reason: str
    on_a_cpu: str | None = None
    """The same on the CPU platform, where that is something else."""

    def load(self, device: str) -> Any:
        """What it stands for on a device, ``cpu`` or ``gpu``."""
        module, _, name = (self.on_a_cpu if device == "cpu" and self.on_a_cpu else self.ours).partition(":")
        return getattr(importlib.import_module(f"openrlhf_gtpo.{module}"), name)

    def set(self, value: Any) -> None:
        setattr(importlib.import_module(self.module), self.name, value)

    def get(self) -> Any:
        """What stands there now."""
        return getattr(importlib.import_module(self.module), self.name)


CONTROLLERS = (
    Binding(
        "openrlhf.trainer.ppo_trainer",
        "PPOTrainer",
        "controller.trainers:Trainer",
        "whole groups become advantages; metrics, records and evaluations are written",
    ),
    Binding(
        "openrlhf.trainer.ppo_trainer_async",
        "GenerateSamplesActor",
        "controller.trainers:AsyncGenerator",
        "the same for asynchronous training, the half that generates",
    ),
    Binding(
        "openrlhf.trainer.ppo_trainer_async",
        "TrainingActor",
        "controller.trainers:AsyncTrainer",
        "the same for asynchronous training, the half that trains",
    ),
)
RANKS = (
    Binding(
        "openrlhf.trainer.ray.ppo_actor",
        "PolicyModelActor",
        "policy.actor:PolicyActor",
        "GRPO-S's loss, merged LoRA weights for vLLM, and a check of the engines' hook",
        on_a_cpu="cpu.actors:CpuPolicyActor",
    ),
    Binding(
        "openrlhf.trainer.ray.launcher",
        "ReferenceModelActor",
        "policy.actor:ReferenceActor",
        "rotary frequencies in float32 under ZeRO-3",
        on_a_cpu="cpu.actors:CpuReferenceActor",
    ),
)
STRATEGY = Binding(
    "openrlhf.utils",
    "get_strategy",
    "policy.strategy:with_few_words",
    "the dump of all flags and of every model's layers stays out of the log",
)
ENGINES = Binding(
    "openrlhf.trainer.ray",
    "create_vllm_engines",
    "guide.engines:with_guide_engines",
    "a guide's engines are started beside the policy's",
)
ROLLOUT = Binding(
    "openrlhf.trainer.ray.vllm_engine",
    "RolloutRayActor",
    "rollout.actor:RolloutActor",
    "entropies are asked of vLLM, rewards of our client",
    on_a_cpu="cpu.engines:CpuRolloutActor",
)
BINDINGS = (*CONTROLLERS, *RANKS, STRATEGY, ENGINES, ROLLOUT)
"""All of them."""


def bind_actors(device: str) -> None:
    """Rebind the actors of the controller and of DeepSpeed's ranks.

    Args:
        device: ``cpu`` or ``gpu``.
    """
    import ray

    for binding in CONTROLLERS:
        binding.set(ray.remote(binding.load(device)))
    for binding in RANKS:
        binding.set(ray.remote(num_gpus=1)(binding.load(device)))


def bind_strategy() -> None:
    """Rebind what makes OpenRLHF's strategy."""
    STRATEGY.set(STRATEGY.load("gpu")(STRATEGY.get()))


def bind_engines(guide: GuideSettings | None) -> None:
    """Rebind what starts engines.

    Args:
        guide: whose engines are to be started too.
    """
    ENGINES.set(ENGINES.load("gpu")(ENGINES.get(), guide))


def worker_extension(device: str) -> str:
    """Dotted name of the class that vLLM adds to its workers."""
    if device == "cpu":
        return "openrlhf_gtpo.cpu.vllm_worker.CpuWorkerExtension"
    return "openrlhf_gtpo.engine.openrlhf_worker.OpenRLHFWorkerExtension"


def bind_rollout(device: str, settings: RolloutSettings) -> None:
    """Rebind the rollout actor, which carries what the other processes cannot know.

    Args:
        device: ``cpu`` or ``gpu``.
        settings: for each of its processes.
    """
    import ray

    from openrlhf_gtpo.rollout.actor import ConfiguredRolloutActor

    ROLLOUT.set(ConfiguredRolloutActor(ray.remote(ROLLOUT.load(device)), settings))
