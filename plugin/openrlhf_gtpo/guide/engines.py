"""Lives in the driver: starts the guide's vLLM engines where OpenRLHF starts the policy's, by the same function."""

import inspect
import itertools
from collections.abc import Callable
from typing import Any

import openrlhf.trainer.ray.vllm_engine as vllm_engine
import ray

from openrlhf_gtpo.guide.settings import GuideSettings

__all__ = ["guide_engines", "with_guide_engines"]

NAME = "openrlhf_gtpo_guide"
SEED_OFFSET = 10_000  # the guide samples other tokens than the policy where both are the same model

_kept: list[Any] = []  # an actor lives as long as somebody holds the handle that made it


def with_guide_engines(create: Callable[..., list[Any]], guide: GuideSettings | None) -> Callable[..., list[Any]]:
    """OpenRLHF's ``create_vllm_engines`` that starts the guide's engines too, where there is a guide.

    They take every setting of the policy's but the model and the number of GPUs; where OpenRLHF hands over the
    placement group that the policy is trained on (``--train.colocate_all``), they share it. They are Ray actors
    with names, by which the controller finds them: it is given the policy's engines alone.
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
