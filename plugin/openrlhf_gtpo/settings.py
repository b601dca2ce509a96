"""Turns flags into the settings that the processes of a run use: from OpenRLHF's flat flags in the driver, from its
nested ``args`` elsewhere. The flags themselves are in `openrlhf_gtpo.driver.flags`."""

import argparse
import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from math_reward.client import Settings
from openrlhf_gtpo.algorithms.table import Estimator, Flag

__all__ = [
    "MOST_AT_ONCE",
    "RolloutSettings",
    "estimator_options",
    "loss_options",
    "metrics_path",
    "metrics_path_of_flags",
    "responses_at_once",
    "reward_client_settings",
    "rewards_are_embedded",
    "rollout_settings",
    "service_urls",
]

MOST_AT_ONCE = 1024
"""The default of ``--vllm.max_num_seqs`` is never higher: vLLM's own limit for batches on large GPUs."""


@dataclass(frozen=True)
class RolloutSettings:
    """Settings of a rollout actor that OpenRLHF does not pass to it.

    ``reward`` is None when rewards come from a Python function, from an agent or from a reward model.
    """

    reward: Settings | None
    worker_extension_cls: str
    dtype: str | None = None
    """The engine's precision by vLLM's name. None leaves it to OpenRLHF, whose engines compute in bfloat16."""
    max_num_seqs: int | None = None
    """Responses that an engine generates at once. None is vLLM's default, 128 in an engine like OpenRLHF's."""


def estimator_options(args: Any, estimator: Estimator) -> dict[str, Any]:
    """The values of the flags of an estimator's function by name, from OpenRLHF's nested ``args``."""
    return _options(args, estimator.flags)


def loss_options(args: Any, estimator: Estimator) -> dict[str, Any]:
    """The values of the flags of an estimator's loss by name, from OpenRLHF's nested ``args``."""
    return _options(args, estimator.loss_flags)


def _options(args: Any, flags: Iterable[Flag]) -> dict[str, Any]:
    return {flag.option: functools.reduce(getattr, flag.name.split("."), args) for flag in flags}


def rewards_are_embedded(flags: dict[str, Any]) -> bool:
    """Whether the flags name no other source of rewards, so that the trainer starts the built-in service."""
    return not (flags["reward.remote_url"] or flags["train.agent_func_path"] or flags["reward.model_name_or_path"])


def rollout_settings(args: argparse.Namespace, worker_extension_cls: str, token: str | None = None) -> RolloutSettings:
    """Settings of the rollout actors, from OpenRLHF's flat namespace.

    Args:
        args: as parsed; ``reward.remote_url`` is OpenRLHF's comma-separated list of URLs, or a ``.py`` file.
        worker_extension_cls: dotted name of the class that vLLM adds to its workers.
        token: bearer token of the reward service; by default the environment's.
    """
    flags = vars(args)
    return RolloutSettings(
        reward=reward_client_settings(flags, token),
        worker_extension_cls=worker_extension_cls,
        dtype="float32" if flags["ds.param_dtype"] == "fp32" else None,
        max_num_seqs=responses_at_once(flags),
    )


def service_urls(flags: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The reward services that a command line names; None where rewards come from elsewhere."""
    remote = flags["reward.remote_url"]
    if not remote or flags["train.agent_func_path"] or remote.endswith(".py"):
        return None
    return tuple(url.strip() for url in remote.split(",") if url.strip())


def reward_client_settings(flags: Mapping[str, Any], token: str | None = None) -> Settings | None:
    """How the rollout actors call the reward services; None where rewards come from elsewhere.

    Args:
        flags: OpenRLHF's flat flags.
        token: bearer token of the services; by default the environment's.
    """
    urls = service_urls(flags)
    if urls is None:
        return None
    return Settings(
        urls=urls,
        token=token,
        verify=flags["reward.ca_file"],
        timeout=flags["reward.timeout"],
        deadline=0.0 if flags["reward.on_failure"] == "drop_group" else flags["reward.deadline"],
        batch_size=flags["reward.batch_size"],
        max_in_flight=flags["reward.max_in_flight"],
        reward_models=True,
    )


def responses_at_once(flags: Mapping[str, Any]) -> int:
    """Responses that an engine generates at once, from OpenRLHF's flat flags; by default its share of a batch."""
    if flags["vllm.max_num_seqs"] is not None:
        return flags["vllm.max_num_seqs"]
    prompts = flags["rollout.vllm_generate_batch_size"] or flags["rollout.batch_size"]
    share = math.ceil(prompts * flags["rollout.n_samples_per_prompt"] / (flags["vllm.num_engines"] or 1))
    return min(share, MOST_AT_ONCE)


def metrics_path_of_flags(flags: dict[str, Any]) -> Path:
    """Where metrics.jsonl goes, from OpenRLHF's flat flags."""
    return Path(flags["logger.metrics_path"] or Path(flags["ckpt.output_dir"]) / "metrics.jsonl")


def metrics_path(args: Any) -> Path:
    """Where metrics.jsonl goes, from OpenRLHF's nested ``args``."""
    return metrics_path_of_flags(
        {"logger.metrics_path": args.logger.metrics_path, "ckpt.output_dir": args.ckpt.output_dir}
    )
