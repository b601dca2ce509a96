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
    import openrlhf.trainer.ppo_trainer as ppo_trainer
    import openrlhf.trainer.ppo_trainer_async as ppo_trainer_async
    import openrlhf.trainer.ray as starts_engines
    import openrlhf.trainer.ray.launcher as launcher
    import openrlhf.trainer.ray.ppo_actor as ppo_actor
    import openrlhf.trainer.ray.vllm_engine as vllm_engine
    import ray

    from openrlhf_gtpo.controller import trainers
    from openrlhf_gtpo.guide.engines import with_guide_engines

    if device == "cpu":
        actors: Any = importlib.import_module("openrlhf_gtpo.cpu.actors")
        engines: Any = importlib.import_module("openrlhf_gtpo.cpu.engines")
        policy, reference, engine = actors.CpuPolicyActor, actors.CpuReferenceActor, engines.CpuRolloutActor
    else:
        from openrlhf_gtpo.policy.actor import PolicyActor as policy
        from openrlhf_gtpo.policy.actor import ReferenceActor as reference
        from openrlhf_gtpo.rollout.actor import RolloutActor as engine
    from openrlhf_gtpo.rollout.actor import ConfiguredRolloutActor

    ppo_trainer.PPOTrainer = ray.remote(trainers.Trainer)
    ppo_trainer_async.GenerateSamplesActor = ray.remote(trainers.AsyncGenerator)
    ppo_trainer_async.TrainingActor = ray.remote(trainers.AsyncTrainer)
    ppo_actor.PolicyModelActor = ray.remote(num_gpus=1)(policy)
    launcher.ReferenceModelActor = ray.remote(num_gpus=1)(reference)
    vllm_engine.RolloutRayActor = ConfiguredRolloutActor(ray.remote(engine), rollout)
    starts_engines.create_vllm_engines = with_guide_engines(starts_engines.create_vllm_engines, guide)
