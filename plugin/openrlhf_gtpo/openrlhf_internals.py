"""Every internal of OpenRLHF 0.11 that the plugin uses, in one list that is checked at start-up. A test compares the
list with the plugin's code.

OpenRLHF has no registry for estimators, losses or rollout actors. It has ``@ray.remote`` classes, which the driver
looks up by name, and a parser in its ``__main__`` block. So the plugin subclasses the classes behind ``@ray.remote``,
rebinds their names in the driver and calls the ``train`` of OpenRLHF's script (`openrlhf_gtpo.train`)."""

import argparse
import importlib
import importlib.util
import re
import runpy
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from openrlhf_gtpo.errors import UserError

SUPPORTED = ((0, 11, 2), (0, 12, 0))
"""Supported versions of OpenRLHF: from the first (included) to the second (excluded)."""

CLI = "openrlhf.cli.train_ppo_ray"

# What is subclassed, rebound, overridden or read: module -> attributes.
_INTERNALS = {
    "openrlhf.datasets.prompts_dataset": ["preprocess_data"],
    "openrlhf.datasets.utils": ["load_dataset"],
    "openrlhf.models": ["Actor"],
    "openrlhf.models.actor": ["Actor.model", "Actor.packing_samples"],
    "openrlhf.models.loss": [
        "PolicyLoss.forward",
        "PolicyLoss.clip_eps_low",
        "PolicyLoss.clip_eps_high",
        "PolicyLoss.dual_clip",
    ],
    "openrlhf.trainer.ray": ["create_vllm_engines"],
    "openrlhf.trainer.ppo_trainer": [
        "PPOTrainer.max_steps",
        "PPOTrainer.samples_generator",
        "PPOTrainer.eval_dataloader",
        "PPOTrainer.evaluate",
        "PPOTrainer.fit",
        "PPOTrainer.generate_kwargs",
        "BasePPOTrainer.args",
        "BasePPOTrainer.tokenizer",
        "BasePPOTrainer.vllm_engines",
        "BasePPOTrainer.experience_maker",
        "BasePPOTrainer.actor_model_group",
        "BasePPOTrainer.critic_model_group",
        "BasePPOTrainer.fit",
        "BasePPOTrainer.ppo_train",
        "BasePPOTrainer.train_step",
        "BasePPOTrainer.save_logs_and_checkpoints",
        "BasePPOTrainer.broadcast_to_vllm",
        "BasePPOTrainer.save_best_checkpoint",
        "BasePPOTrainer.init_checkpoint_states",
        "BasePPOTrainer._compute_rollout_stats",
        "compute_eval_metrics",
        "prepare_datasets",
    ],
    "openrlhf.trainer.ppo_trainer_async": [
        "GenerateSamplesActor.args",
        "GenerateSamplesActor.max_steps",
        "GenerateSamplesActor.samples_generator",
        "TrainingActor.fit",
        "compute_eval_metrics",
        "prepare_datasets",
    ],
    "openrlhf.trainer.ppo_utils.experience": ["Experience.concat_experiences", "Experience.is_step_tensor_field"],
    "openrlhf.trainer.ppo_utils.experience_maker": [
        "RemoteExperienceMaker._dispatch_forward",
        "RemoteExperienceMaker.actor_model_group",
        "RemoteExperienceMaker.args",
        "RemoteExperienceMaker.critic_model_group",
        "RemoteExperienceMaker.tokenizer",
        "RemoteExperienceMaker.compute_advantages_and_returns",
        "RemoteExperienceMaker.get_cumulative_returns",
        "RemoteExperienceMaker.make_experience",
        "RemoteExperienceMaker.split_rollout_samples",
        "apply_length_penalties",
        "get_seqlen_balanced_partitions",
    ],
    "openrlhf.trainer.ppo_utils.replay_buffer": ["get_seqlen_balanced_partitions"],
    "openrlhf.trainer.ppo_utils.samples_generator": [
        "SamplesGenerator.args",
        "SamplesGenerator.tokenizer",
        "SamplesGenerator.generate_eval_samples",
        "SamplesGenerator.generate_samples",
        "SamplesGenerator.vllm_engines",
        "SamplesGenerator._dispatch_prompts_to_vllm",
        "SamplesGenerator._generate_vllm",
        "SamplesGenerator._process_response_into_experience",
        "SamplesGenerator._sample_buffer",
    ],
    "openrlhf.trainer.ray.launcher": [
        "Actor",
        "BaseDistributedActor._get_free_port",
        "RayActorGroup._actor_handlers",
        "BaseModelActor.init_model_from_pretrained",
        "ReferenceModelActor.init_model_from_pretrained",
    ],
    "openrlhf.trainer.ray.ppo_actor": [
        "Actor",
        "PolicyModelActor.init_model_from_pretrained",
        "PolicyModelActor.checkpoint_states",
        "PolicyModelActor.forward",
        "PolicyModelActor.save_checkpoint",
        "PolicyModelActor.trainer",
        "ActorPPOTrainer.actor",
        "ActorPPOTrainer.actor_loss_fn",
        "ActorPPOTrainer.args",
        "ActorPPOTrainer.max_epochs",
        "ActorPPOTrainer.replay_buffer",
        "ActorPPOTrainer.strategy",
        "ActorPPOTrainer.broadcast_to_vllm",
        "ActorPPOTrainer.ppo_train",
        "ActorPPOTrainer.training_step",
        "deepspeed",
        "iter_grad_accum_global_norm",
        "offload_deepspeed_states",
        "reload_deepspeed_states",
        "stateless_init_process_group",
    ],
    "openrlhf.trainer.ray.vllm_engine": [
        "RolloutRayActor.executor",
        "RolloutRayActor.generate_responses",
        "RolloutRayActor.llm",
        "batch_vllm_engine_call",
        "create_vllm_engines",
    ],
    "openrlhf.trainer.ray.utils": ["get_bundle_indices"],
    "openrlhf.trainer.ray.vllm_worker_wrap": [
        "WorkerWrap.init_process_group",
        "WorkerWrap.update_weight",
        "WorkerWrap.update_weight_cuda_ipc",
    ],
    "openrlhf.utils.agent": [
        "AgentExecutorBase.execute",
        "SingleTurnAgentExecutor._fetch_rewards_via_func",
        "SingleTurnAgentExecutor.execute",
    ],
    "openrlhf.utils": ["get_strategy"],
    "openrlhf.utils.config": ["hierarchize"],
    "openrlhf.utils.deepspeed.deepspeed": [
        "DeepspeedStrategy.print",
        "get_train_ds_config",
        "get_eval_ds_config",
        "init_device_mesh",
    ],
    "openrlhf.utils.utils": ["convert_to_torch_dtype"],
}


INSTALL_ALL = "install it with all its requirements by `bash launch/setup_gpu.sh` (setup.sh without a GPU)"


class OpenRLHFMismatch(UserError):
    """OpenRLHF is missing, outside the supported range, or differs from the release of its version."""


def check() -> str:
    """Make sure that the plugin fits the installed OpenRLHF.

    Returns:
        The version of OpenRLHF.

    Raises:
        OpenRLHFMismatch: it does not fit. The sentence says the version found, those supported and what to install.
    """
    low, high = (".".join(map(str, bound)) for bound in SUPPORTED)
    install = f'install one with `pip install "openrlhf>={low},<{high}"`.'
    try:
        installed = version("openrlhf")
    except PackageNotFoundError:
        raise OpenRLHFMismatch(
            f"OpenRLHF is not installed; the plugin fits {low} up to {high} (excluded): {install}"
        ) from None
    from packaging.version import Version

    if not SUPPORTED[0] <= Version(installed).release < SUPPORTED[1]:
        raise OpenRLHFMismatch(
            f"Found OpenRLHF {installed}, but the plugin fits {low} up to {high} (excluded): {install}"
        )
    for module, attributes in _INTERNALS.items():
        try:
            target = importlib.import_module(module)
        except ImportError as error:
            raise OpenRLHFMismatch(
                f"OpenRLHF {installed} is installed, but {module} cannot be imported ({error}): {INSTALL_ALL}."
            ) from error
        for attribute in attributes:
            _look_up(target, attribute, installed, install)
    return installed


def _look_up(module: Any, attribute: str, installed: str, install: str) -> None:
    target = module
    for name in attribute.split("."):
        if not hasattr(target, name) and not _is_set_by(target, name):
            raise OpenRLHFMismatch(
                f"OpenRLHF {installed} has no {module.__name__}.{attribute}, which the plugin needs, so this is not "
                f"the released version: {install}"
            )
        target = getattr(target, name, None)
        target = getattr(getattr(target, "__ray_metadata__", None), "modified_class", target)


def _is_set_by(target: Any, name: str) -> bool:
    """Whether the source of a class's module assigns ``self.<name>``."""
    if not isinstance(target, type):
        return False
    source = Path(str(sys.modules[target.__module__].__file__)).read_text(encoding="utf-8")
    return re.search(rf"\bself\.{name}\b[^=\n(]*=(?!=)", source) is not None


def source_of(module: str) -> Path:
    """The file of one of OpenRLHF's modules, found without importing it or its packages, which would take seconds.

    Raises:
        OpenRLHFMismatch: OpenRLHF is not installed.
    """
    spec = importlib.util.find_spec("openrlhf")
    if spec is None or not spec.submodule_search_locations:
        raise OpenRLHFMismatch("OpenRLHF is not installed, and training needs it: the README says how to install it.")
    return Path(spec.submodule_search_locations[0], *module.split(".")[1:]).with_suffix(".py")


def hierarchize(args: argparse.Namespace) -> SimpleNamespace:
    """OpenRLHF's function of this name: turns ``vars(args)["algo.kl.init_coef"]`` into ``args.algo.kl.init_coef``.

    It runs from its source file, since importing its package would import DeepSpeed.
    """
    return runpy.run_path(str(source_of("openrlhf.utils.config")))["hierarchize"](args)


def plain_class(remote_class: Any) -> type:
    """The class behind an ``@ray.remote`` class, which can be subclassed."""
    return remote_class.__ray_metadata__.modified_class


def rebuilt_as(cls: type, instance: Any) -> Any:
    """A copy of an object as an instance of a subclass, with the same attributes."""
    new: Any = object.__new__(cls)
    new.__dict__.update(instance.__dict__)
    return new
