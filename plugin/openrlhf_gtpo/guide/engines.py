"""The guide's vLLM engines: the driver starts them, by the function with which OpenRLHF starts the policy's, and the
controller finds them by their names."""

import inspect
import itertools
from collections.abc import Callable
from typing import Any

import openrlhf.trainer.ray.vllm_engine as vllm_engine
import ray

from openrlhf_gtpo.data.tokenizer import difference, load
from openrlhf_gtpo.errors import UserError
from openrlhf_gtpo.host import replace
from openrlhf_gtpo.vllm_entropy import check_hook

NAME = "openrlhf_gtpo_guide"
SEED_OFFSET = 10_000  # so that the guide samples other tokens than the policy even if both are the same model

_started: list[Any] = []  # Ray ends an actor when its original handle is gone


def with_guide_engines(create: Callable[..., list[Any]], guide: Any) -> Callable[..., list[Any]]:
    """OpenRLHF's ``create_vllm_engines``, which also starts the guide's engines if there is a guide.

    They have the settings of the policy's engines, except the model and the number of GPUs. With
    ``--train.colocate_all`` they share the policy's placement group. They are named Ray actors, since OpenRLHF passes
    only the policy's engines to the controller, which finds the guide's by name.

    Args:
        create: OpenRLHF's function.
        guide: ``args.guide``, whose model is None without a guide.
    """

    def create_all(*args: Any, **kwargs: Any) -> list[Any]:
        engines = create(*args, **kwargs)
        if not guide.model:
            return engines
        bound = inspect.signature(create).bind(*args, **kwargs)
        bound.arguments.update(
            num_engines=guide.engines,
            tensor_parallel_size=guide.tensor_parallel_size or bound.arguments["tensor_parallel_size"],
            pretrain=guide.model,
            seed=bound.arguments["seed"] + SEED_OFFSET,
        )
        of_policy: Any = vllm_engine.RolloutRayActor
        with replace(vllm_engine, RolloutRayActor=of_policy.named(f"{NAME}_{i}" for i in itertools.count())):
            _started.extend(create(*bound.args, **bound.kwargs))
        return engines

    return create_all


def find_engines(args: Any, tokenizer: Any) -> list[Any]:
    """Ray's handles of the guide's engines, once they are up.

    Args:
        args: OpenRLHF's nested ``args``.
        tokenizer: the policy's tokenizer or, of a vision model, processor.

    Raises:
        UserError: the guide's tokens are not the policy's, or an engine has no entropy hook.
    """
    policy, guide = args.actor.model_name_or_path, args.guide.model
    if fault := difference(policy, getattr(tokenizer, "tokenizer", tokenizer), guide, load(guide)):
        raise UserError(fault)
    engines = [ray.get_actor(f"{NAME}_{i}") for i in range(args.guide.engines)]
    for reports in ray.get([engine.entropy_hook_report.remote() for engine in engines]):
        check_hook(reports)
    return engines
