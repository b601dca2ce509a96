"""Runs in the driver: starts the guide's vLLM engines, by the function with which OpenRLHF starts the policy's."""

import inspect
import itertools
from collections.abc import Callable
from typing import Any

import openrlhf.trainer.ray.vllm_engine as vllm_engine
import ray

from openrlhf_gtpo.settings import GuideSettings

NAME = "openrlhf_gtpo_guide"
SEED_OFFSET = 10_000  # so that the guide samples other tokens than the policy even if both are the same model

_kept: list[Any] = []  # Ray ends an actor when its original handle is gone


def with_guide_engines(create: Callable[..., list[Any]], guide: GuideSettings | None) -> Callable[..., list[Any]]:
    """OpenRLHF's ``create_vllm_engines``, which also starts the guide's engines if there is a guide.

    They have the settings of the policy's engines, except the model and the number of GPUs. With
    ``--train.colocate_all`` they share the policy's placement group. They are named Ray actors, since OpenRLHF passes
    only the policy's engines to the controller, which finds the guide's by name.

    Args:
        create: OpenRLHF's function.
        guide: None without a guide.
    """

    def create_all(*args: Any, **kwargs: Any) -> list[Any]:
        engines = create(*args, **kwargs)
        if guide is None or not guide.model:
            return engines
        bound = inspect.signature(create).bind(*args, **kwargs)
        bound.arguments.update(
            num_engines=guide.engines,
            tensor_parallel_size=guide.tensor_parallel_size,
            pretrain=guide.model,
            seed=bound.arguments["seed"] + SEED_OFFSET,
        )
        policys: Any = vllm_engine.RolloutRayActor
        vllm_engine.RolloutRayActor = policys.named(f"{NAME}_{i}" for i in itertools.count())
        try:
            _kept.extend(create(*bound.args, **bound.kwargs))
        finally:
            vllm_engine.RolloutRayActor = policys
        return engines

    return create_all


def guide_engines(guide: GuideSettings) -> list[Any]:
    """Handles of the guide's engines, in the controller."""
    return [ray.get_actor(f"{NAME}_{i}") for i in range(guide.engines)]
