"""The driver of a run without a model: the product's own, with other actors.

NULL_STEP=SETTINGS.json python -m null_step.train <flags of openrlhf_gtpo.train>
"""

import sys
from typing import Any

from null_step import trace
from openrlhf_gtpo import train
from openrlhf_gtpo.driver import bindings


def _bind_actors(device: str) -> None:
    import openrlhf.trainer.ppo_trainer as ppo_trainer
    import openrlhf.trainer.ray.ppo_actor as ppo_actor
    import ray

    from null_step.policies import OurPolicyActor, PlainPolicyActor

    if trace.SETTINGS["ours"]:
        from null_step.our_controller import OurTrainer as Trainer
    else:  # without our modules of the controller, which change OpenRLHF's
        from null_step.controllers import PlainTrainer as Trainer
    policy = OurPolicyActor if trace.SETTINGS["ours"] else PlainPolicyActor
    ppo_actor.PolicyModelActor = ray.remote(num_gpus=1)(policy)
    ppo_trainer.PPOTrainer = ray.remote(Trainer)


def _bind_rollout(device: str, settings: Any) -> None:
    import openrlhf.trainer.ray.vllm_engine as vllm_engine
    import ray

    from null_step import engines

    if trace.SETTINGS["ours"]:
        from openrlhf_gtpo.rollout.actor import ConfiguredRolloutActor

        vllm_engine.RolloutRayActor = ConfiguredRolloutActor(ray.remote(engines.OurRolloutActor), settings)
    else:
        vllm_engine.RolloutRayActor = ray.remote(engines.PlainRolloutActor)


if __name__ == "__main__":
    trace.write(role="driver")
    bindings.bind_actors, bindings.bind_rollout = _bind_actors, _bind_rollout
    sys.exit(train.main())
