"""How the plugin gets into OpenRLHF 0.11, which has no registry for estimators, losses or rollout actors: its
subclasses take the names of OpenRLHF's classes before OpenRLHF's script runs. Ray pickles a class by its import path,
so a subclass in one of our modules reaches every worker."""

import importlib
from typing import Any


def worker_extension(device: str) -> str:
    """Dotted name of the class that vLLM adds to its workers."""
    if device == "cpu":
        return "openrlhf_gtpo.cpu.vllm_worker.CpuWorkerExtension"
    return "openrlhf_gtpo.engine.openrlhf_worker.OpenRLHFWorkerExtension"


def bind(device: str, rollout: Any, guide: Any) -> None:
    """Put our classes in the places of OpenRLHF's in this process, which is to start them.

    Args:
        device: ``cpu`` or ``gpu``.
        rollout: `openrlhf_gtpo.rollout.actor.RolloutSettings`, what rollout actors cannot know.
        guide: ``args.guide``, whose engines are started too.
    """
    import openrlhf.trainer.ray as starts_engines
    import ray
    from openrlhf.trainer import ppo_trainer, ppo_trainer_async
    from openrlhf.trainer.ray import launcher, ppo_actor, vllm_engine

    from openrlhf_gtpo.controller import trainers
    from openrlhf_gtpo.guide.engines import with_guide_engines
    from openrlhf_gtpo.host import replace
    from openrlhf_gtpo.policy.actor import PolicyActor, ReferenceActor
    from openrlhf_gtpo.rollout.actor import ConfiguredRolloutActor, RolloutActor

    policy, reference, engine = PolicyActor, ReferenceActor, RolloutActor
    if device == "cpu":
        actors: Any = importlib.import_module("openrlhf_gtpo.cpu.actors")
        engines: Any = importlib.import_module("openrlhf_gtpo.cpu.engines")
        policy, reference, engine = actors.CpuPolicyActor, actors.CpuReferenceActor, engines.CpuRolloutActor
    replace(ppo_trainer, PPOTrainer=ray.remote(trainers.Trainer))
    replace(ppo_trainer_async, GenerateSamplesActor=ray.remote(trainers.AsyncGenerator))
    replace(ppo_trainer_async, TrainingActor=ray.remote(trainers.AsyncTrainer))
    replace(ppo_actor, PolicyModelActor=ray.remote(num_gpus=1)(policy))
    replace(launcher, ReferenceModelActor=ray.remote(num_gpus=1)(reference))
    replace(vllm_engine, RolloutRayActor=ConfiguredRolloutActor(ray.remote(engine), rollout))
    replace(starts_engines, create_vllm_engines=with_guide_engines(starts_engines.create_vllm_engines, guide))
