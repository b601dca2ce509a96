"""A command line's flags, ours and OpenRLHF's, as the plugin reads them.

The driver makes one `Settings`. OpenRLHF's nested ``args``, which reach every process, carry it as ``args.plugin``.
The flags themselves are in `openrlhf_gtpo.driver.flags` and `openrlhf_gtpo.algorithms.table`."""

import copy
import math
import os
from argparse import Namespace
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from math_reward.client import Settings as ClientSettings
from openrlhf_gtpo.algorithms.table import Flag, in_a_file
from openrlhf_gtpo.openrlhf_internals import hierarchize

WANDB_KEY = "(of the environment)"
"""What OpenRLHF gets for the key of wandb, which it then takes from the environment or a login itself: it logs to
wandb where there is a key among its flags, and sends the flags to wandb."""
MOST_AT_ONCE = 1024
"""The default of ``--vllm.max_num_seqs`` is never higher: vLLM's own limit for batches on large GPUs."""


@dataclass(frozen=True)
class GuideSettings:
    """Settings of a guide, from the flags ``--guide.*``."""

    model: str | None
    solutions: str | None
    samples: int
    mixes: bool
    """Every group gets guide responses (M1)."""
    rescues: bool
    """Groups without a correct response form a second batch with guide responses (M2)."""
    weight: float
    engines: int
    tensor_parallel_size: int
    ratio_shaping: float
    supervised: bool = False
    """The second batch's loss is the cross-entropy of the guide's correct responses."""


@dataclass(frozen=True)
class RolloutSettings:
    """Settings of a rollout actor that OpenRLHF does not pass to it.

    ``reward`` is None when rewards come from a Python function, from an agent or from a reward model.
    """

    reward: ClientSettings | None
    worker_extension_cls: str
    """Dotted name of the class that vLLM adds to its workers."""
    dtype: str | None = None
    """The engine's precision by vLLM's name. None leaves it to OpenRLHF, whose engines compute in bfloat16."""
    max_num_seqs: int | None = None
    """Responses that an engine generates at once. None is vLLM's default, 128 in an engine like OpenRLHF's."""
    kept_columns: int = 0
    """Tokens that the engine returns of those that each token was sampled from; 0 in runs that need none."""


@dataclass(frozen=True)
class Settings:
    """What a command line says."""

    flags: Mapping[str, Any]
    """OpenRLHF's flat flags and ours: ``{"algo.kl.init_coef": 0.0, "shaping.grop": True, ...}``."""

    def changed(self, changes: Mapping[str, Any]) -> "Settings":
        """The same with other values of some flags."""
        return Settings({**self.flags, **changes})

    def nested(self) -> SimpleNamespace:
        """OpenRLHF's ``args`` of a copy of these flags, with this object as ``args.plugin``."""
        return hierarchize(Namespace(**copy.deepcopy(dict(self.flags)), plugin=self))

    @property
    def preset(self) -> str | None:
        return self.flags["preset"]

    @property
    def device(self) -> str:
        """``cpu`` or ``gpu``."""
        return self.flags["device"]

    @property
    def estimator(self) -> str:
        """The name of the estimator, ours or OpenRLHF's."""
        return self.flags["algo.advantage.estimator"]

    def options(self, flags: Iterable[Flag]) -> dict[str, Any]:
        """The values of an estimator's flags, by the names of its function's or its loss's arguments."""
        return {flag.option: self.flags[flag.name] for flag in flags}

    @property
    def punishes_length(self) -> bool:
        return self.flags["shaping.grop"]

    @property
    def top_entropy_share(self) -> float:
        return self.flags["shaping.top_entropy_share"]

    @property
    def groups_saved(self) -> int:
        """Groups that every step writes to rollouts.jsonl."""
        return self.flags["shaping.save_rollouts"]

    @property
    def max_steps(self) -> int | None:
        return self.flags["train.max_steps"]

    @property
    def updates_from(self) -> str | None:
        """The metrics.jsonl of a run that made as many optimiser updates in each step; None for ``--train.max_epochs``
        passes."""
        return self.flags["train.updates_from"]

    @property
    def corrects(self) -> bool:
        """Whether importance correction is on, which weights the loss by the ratio of policy to rollout."""
        return self.flags["algo.advantage.is_correction_level"] != "off"

    @property
    def top_k(self) -> int | None:
        """Of rollouts, and of evaluations during training, as top-p; None for none."""
        return self.flags["rollout.top_k"]

    @property
    def kept_columns(self) -> int:
        """Tokens that an engine returns of those that each token was sampled from. Tokens as likely as the k-th are
        kept beside it, and logits in bfloat16 are often equal, so there is room for more."""
        return self.top_k + max(16, self.top_k) if self.top_k and self.corrects else 0

    @property
    def entropy_bonus(self) -> dict[str, float] | None:
        """Arguments of `algorithms.entropy_bonus.EntropyController`; None without a controller."""
        flags = self.flags
        if flags["actor.entropy_target"] is None:
            return None
        return {
            "target": flags["actor.entropy_target"],
            "coefficient": flags["actor.entropy_coef"] or 0.0,
            "delta": flags["actor.entropy_coef_delta"],
            "least": flags["actor.entropy_coef_min"],
            "most": flags["actor.entropy_coef_max"],
        }

    @property
    def guide(self) -> GuideSettings | None:
        """None without a guide, or with one of 0 samples."""
        flags = self.flags
        model, solutions, samples = (flags[f"guide.{name}"] for name in ("model", "solutions", "samples"))
        if samples == 0 or not (model or solutions):
            return None
        return GuideSettings(
            model=model,
            solutions=solutions,
            samples=samples,
            mixes="all" in flags["guide.when"],
            rescues="zero_reward" in flags["guide.when"],
            weight=flags["guide.weight"],
            engines=flags["guide.engines"] if model else 0,
            tensor_parallel_size=flags["guide.tensor_parallel_size"] or flags["vllm.tensor_parallel_size"],
            ratio_shaping=flags["guide.ratio_shaping"],
            supervised=flags["guide.objective"] == "supervised",
        )

    @property
    def whole_updates(self) -> int:
        """The number of responses that has to divide a batch, so that it fills optimiser updates of
        ``--train.batch_size`` and gives every rank the same number of micro-batches."""
        flags = self.flags
        ranks = flags["actor.num_nodes"] * flags["actor.num_gpus_per_node"]
        ranks //= flags["ds.ring_attn_size"] * flags["ds.tensor_parallel_size"]
        return math.lcm(flags["train.batch_size"], flags["rollout.micro_batch_size"] * ranks)

    @property
    def responses_a_step(self) -> int:
        """Responses that a step trains on, without a guide's second batch, whose size is not known in advance."""
        guide, prompts = self.guide, self.flags["rollout.batch_size"]
        responses = prompts * self.flags["rollout.n_samples_per_prompt"]
        if guide is None or not guide.mixes:
            return responses
        responses += prompts * guide.samples
        return responses + -responses % self.whole_updates

    @property
    def metrics_path(self) -> Path:
        """Where metrics.jsonl goes."""
        return Path(self.flags["logger.metrics_path"] or Path(self.flags["ckpt.output_dir"]) / "metrics.jsonl")

    @property
    def stops_without_reward(self) -> bool:
        """Whether a reward that nobody gives ends the run."""
        return self.flags["reward.on_failure"] == "stop"

    @property
    def rewards_are_embedded(self) -> bool:
        """Whether no other source of rewards is named, so that the trainer starts the built-in service."""
        return not any(
            self.flags[name] for name in ("reward.remote_url", "train.agent_func_path", "reward.model_name_or_path")
        )

    @property
    def service_urls(self) -> tuple[str, ...] | None:
        """The reward services; None where rewards come from elsewhere."""
        remote = self.flags["reward.remote_url"]
        if not remote or self.flags["train.agent_func_path"] or remote.endswith(".py"):
            return None
        return tuple(url.strip() for url in remote.split(",") if url.strip())

    def reward_client(self, token: str | None = None) -> ClientSettings | None:
        """How the rollout actors call the reward services; None where rewards come from elsewhere.

        Args:
            token: bearer token of the services; by default the environment's.
        """
        flags = self.flags
        if self.service_urls is None:
            return None
        return ClientSettings(
            urls=self.service_urls,
            token=token,
            verify=flags["reward.ca_file"],
            timeout=flags["reward.timeout"],
            deadline=0.0 if flags["reward.on_failure"] == "drop_group" else flags["reward.deadline"],
            batch_size=flags["reward.batch_size"],
            max_in_flight=flags["reward.max_in_flight"],
            reward_models=True,
        )

    @property
    def responses_at_once(self) -> int:
        """Responses that an engine generates at once; by default its share of a batch."""
        flags = self.flags
        if flags["vllm.max_num_seqs"] is not None:
            return flags["vllm.max_num_seqs"]
        prompts = flags["rollout.vllm_generate_batch_size"] or flags["rollout.batch_size"]
        share = math.ceil(prompts * flags["rollout.n_samples_per_prompt"] / (flags["vllm.num_engines"] or 1))
        return min(share, MOST_AT_ONCE)

    def rollout(self, worker_extension_cls: str, token: str | None = None) -> RolloutSettings:
        """Settings of the rollout actors.

        Args:
            worker_extension_cls: dotted name of the class that vLLM adds to its workers.
            token: as `reward_client`'s.
        """
        return RolloutSettings(
            reward=self.reward_client(token),
            worker_extension_cls=worker_extension_cls,
            dtype="float32" if self.flags["ds.param_dtype"] == "fp32" else None,
            max_num_seqs=self.responses_at_once,
            kept_columns=self.kept_columns,
        )

    def for_every_process(self) -> "Settings":
        """With absolute paths, since Ray's workers have another working directory than the driver, and with wandb
        switched on in OpenRLHF's way."""
        names = ["ckpt.output_dir", "ckpt.path", "logger.metrics_path", "logger.tensorboard_dir", "guide.solutions"]
        names.append("train.updates_from")
        if os.path.isdir(str(self.flags["guide.model"])):  # not a hub id
            names.append("guide.model")
        changes = {name: os.path.abspath(self.flags[name]) for name in names if self.flags[name]}
        if self.flags["logger.wandb.enable"]:
            changes["logger.wandb.key"] = WANDB_KEY
        if in_a_file(self.estimator):
            path, colon, name = self.estimator.rpartition(":")
            changes["algo.advantage.estimator"] = f"{os.path.abspath(path)}{colon}{name}"
        return self.changed(changes)
