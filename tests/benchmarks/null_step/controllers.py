"""Controllers, ours and OpenRLHF's, that write down the phases of each step."""

from typing import Any

import openrlhf.trainer.ppo_trainer as ppo_trainer
import openrlhf.trainer.ppo_utils.samples_generator as samples_generator
import ray
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker
from openrlhf.trainer.ray.launcher import RayActorGroup

from null_step import trace
from openrlhf_gtpo.openrlhf_internals import plain_class


class _Ray:
    """Ray as OpenRLHF's generator uses it, whose `wait` is the phase in which responses are generated."""

    def __getattr__(self, name: str) -> Any:
        return getattr(ray, name)

    def wait(self, *args: Any, **kwargs: Any) -> Any:
        with trace.phase("generate", store=False):
            return ray.wait(*args, **kwargs)


def _trace_openrlhf() -> None:
    samples_generator.ray = _Ray()
    generator = samples_generator.SamplesGenerator
    trace.traced(generator, "generate_samples", "collect")
    trace.traced(generator, "_dispatch_prompts_to_vllm", "dispatch")
    trace.traced(RemoteExperienceMaker, "split_rollout_samples", "put together")
    trace.traced(RemoteExperienceMaker, "make_experience", "forward")
    trace.traced(RemoteExperienceMaker, "compute_advantages_and_returns", "advantages")
    trace.traced(ppo_trainer, "balance_experiences", "balance")
    send = RayActorGroup.async_run_method_batch

    def sent(self: Any, method_name: str, **kwargs: Any) -> Any:
        if method_name != "append":
            return send(self, method_name, **kwargs)
        with trace.phase("to the policy"):
            references = send(self, method_name, **kwargs)
            ray.get(references)  # as OpenRLHF does at once
        return references

    RayActorGroup.async_run_method_batch = sent


class Traced:
    """Mixin of a controller."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        trace.begin("controller")
        _trace_openrlhf()
        super().__init__(*args, **kwargs)  # type: ignore[misc]

    def ppo_train(self, *args: Any, **kwargs: Any) -> Any:
        with trace.phase("train"):
            return super().ppo_train(*args, **kwargs)  # type: ignore[misc]

    def broadcast_to_vllm(self, *args: Any, **kwargs: Any) -> Any:
        with trace.phase("weights"):
            return super().broadcast_to_vllm(*args, **kwargs)  # type: ignore[misc]

    def save_logs_and_checkpoints(self, *args: Any, **kwargs: Any) -> Any:
        with trace.phase("logs"):
            return super().save_logs_and_checkpoints(*args, **kwargs)  # type: ignore[misc]


class PlainTrainer(Traced, plain_class(ppo_trainer.PPOTrainer)):  # type: ignore[misc]
    """OpenRLHF's controller."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if trace.SETTINGS["tokenizer"] == "once":
            from openrlhf_gtpo.sent_once import SentOnce

            self.samples_generator.tokenizer = SentOnce(self.tokenizer)
