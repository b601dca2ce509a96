"""Every check between the command line and Ray's start, in the order in which they run.

Add a new one to `of_flags` if it looks only at flags and names, to `of_content` if it reads files, and to
`of_services` if it calls a service."""

import argparse
import math
import os
from collections.abc import Callable
from typing import Any

from math_reward.client.settings import token_of_environment
from math_reward.nearest import did_you_mean
from openrlhf_gtpo.data.named_files import data_faults, is_offline, model_fault, python_fault
from openrlhf_gtpo.driver.command_line import openrlhfs_refusal
from openrlhf_gtpo.driver.device import choose_device
from openrlhf_gtpo.driver.model_size import positions_of, too_few_positions
from openrlhf_gtpo.driver.refusals import refusals
from openrlhf_gtpo.driver.training_data import check_training_data, guide_faults
from openrlhf_gtpo.guide.settings import GuideSettings, guide_warnings
from openrlhf_gtpo.settings import reward_client_settings

__all__ = ["of_content", "of_flags", "of_services"]


def of_flags(args: argparse.Namespace, platform_refusals: Callable[[argparse.Namespace], list[str]]) -> list[str]:
    """Faults in the flags themselves, and files they name that do not exist. Takes less than a second; a dry run does
    it too.

    Args:
        args: OpenRLHF's flat namespace.
        platform_refusals: what the platform of the run, CPU or GPU, says of the same namespace.

    Returns:
        One sentence for each fault, naming the flag and the fix.
    """
    found = refusals(args) + platform_refusals(args)
    try:
        token_of_environment()
    except ValueError as error:
        found.append(str(error))
    found += _missing_files(vars(args))
    refusal = None if found else openrlhfs_refusal(args)
    return found if refusal is None else [refusal]


def of_content(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Faults in the content of the files that the command line names and this machine has; a dry run does it too.

    Args:
        args: OpenRLHF's flat namespace, without faults of `of_flags`.

    Returns:
        Sentences for which the run is refused, and warnings.
    """
    faults, warnings = check_training_data(vars(args))
    faults += _unknown_schedulers(vars(args)) + _unusable_function(vars(args)) + _too_few_positions(vars(args))
    if vars(args)["algo.kl.use_loss"] and vars(args)["algo.kl.init_coef"] == 0:
        warnings.append(
            "--algo.kl.use_loss does nothing while --algo.kl.init_coef is 0: leave it out, or give a weight."
        )
    warnings += _signs_of_a_large_dose(vars(args))
    return faults + guide_faults(vars(args)), warnings + guide_warnings(vars(args))


def of_services(args: argparse.Namespace) -> list[str]:
    """Ask the reward services to grade two known answers. A dry run skips this, since it may run without a network.

    Args:
        args: OpenRLHF's flat namespace.

    Returns:
        One warning for each service that does not answer or does not grade mathematics.

    Raises:
        ServiceUnusable: no service answers.
    """
    from openrlhf_gtpo.rewards.probe import doubtful_services

    settings = reward_client_settings(vars(args))
    return doubtful_services(settings) if settings else []


SMALL_SHARES = {"gtpo": ("token", "little", 0.0), "grpo_s": ("response", "half of the mean", 0.5)}
"""Estimator -> its unit, and a share of the class's reward, relative to the mean, that is small and yet usual. A token
that does not follow from what stands before gets next to nothing of a punishment where others do. The mean entropy of
a response is a mean over its tokens, so we take half of the mean for it."""
ONE_SIDED = 0.75
"""Share of a group in one class above which we call the group an exception."""


def _signs_of_a_large_dose(flags: dict[str, Any]) -> list[str]:
    """A dose of entropy with which usual groups have advantages of the other class's sign: the condition in the
    docstring of `shaping.gtpo`, for responses of equal length."""
    alpha1, alpha2, size = (
        flags[name] for name in ("shaping.alpha1", "shaping.alpha2", "rollout.n_samples_per_prompt")
    )
    estimator = flags["algo.advantage.estimator"]
    if estimator not in SMALL_SHARES or alpha2 == 0:
        return []
    if flags["shaping.over"] == "class" or flags["shaping.weights"] == "uniform":
        return []  # the one has a warning of its own, with the other all shares are equal
    unit, little, share = SMALL_SHARES[estimator]
    enough = (alpha1 + alpha2 * share) / (alpha1 + alpha2)  # more of the scope than this in one class
    many = math.floor(round(enough * size, 9)) + 1
    if flags["shaping.scope"] == "batch":
        where = f"a batch with more than {enough:.0%} of its {unit}s in one class"
        is_exception = enough >= ONE_SIDED
    else:
        where = f"a group of {size} with {many} or more responses of one class"
        is_exception = many > ONE_SIDED * size
    if is_exception:
        return []
    most = alpha1 * (1 - ONE_SIDED) / (ONE_SIDED - share)
    return [
        f"--shaping.alpha2 is {alpha2:g} beside --shaping.alpha1 {alpha1:g}: in {where}, a {unit} that gets {little} "
        "of that class's reward has an advantage of the other class's sign (advantage/wrong_positive_share and "
        f"advantage/correct_negative_share count its tokens); with an alpha2 up to {most:.3g} that takes more than "
        "three quarters in one class."
    ]


def _unusable_function(flags: dict[str, Any]) -> list[str]:
    """A --shaping.function that does not work on a small batch. Imports torch and runs the user's file only if there
    is one."""
    if flags["algo.advantage.estimator"] != "function":
        return []
    from openrlhf_gtpo.algorithms.user_function import FunctionUnusable, try_out

    try:
        try_out(flags["shaping.function"], flags["rollout.n_samples_per_prompt"])
    except FunctionUnusable as error:
        return [f"--shaping.function: {error}."]
    return []


def _too_few_positions(flags: dict[str, Any]) -> list[str]:
    """Models with fewer positions than --data.max_len: vLLM would refuse them when its engines start."""
    if os.environ.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN") == "1":
        return []
    guide = GuideSettings.of_flags(flags)
    named = [flags["actor.model_name_or_path"], *([guide.model] if guide and guide.model else [])]
    return [
        f"--data.max_len is {flags['data.max_len']:,}, but {too_few_positions(name, most)}."
        for name in named
        if (most := positions_of(name)) is not None and most < flags["data.max_len"]
    ]


def _unknown_schedulers(flags: dict[str, Any]) -> list[str]:
    """Learning rate schedules that transformers does not have. Imports transformers, which takes seconds, only for a
    name other than the default."""
    named = {f"--{role}.lr_scheduler": flags[f"{role}.lr_scheduler"] for role in ("actor", "critic")}
    others = {flag: name for flag, name in named.items() if name != "cosine_with_min_lr"}
    if not others:
        return []
    from transformers import SchedulerType

    known = [str(member.value) for member in SchedulerType]
    listed = f"it has {', '.join(known)}"
    return [
        f"{flag} is {name}, which transformers does not have{did_you_mean(name, known, listed)}"
        for flag, name in others.items()
        if name not in known
    ]


def _missing_files(flags: dict[str, Any]) -> list[str]:
    """Models, data and Python files that this run would use and that do not exist."""
    offline = is_offline() and not flags["use_ms"]  # ModelScope has a cache of its own
    models = {"actor": flags["actor.model_name_or_path"]}
    if flags["algo.advantage.estimator"] == "gae":
        models["critic"] = flags["critic.model_name_or_path"]
    if not (flags["reward.remote_url"] or flags["train.agent_func_path"]):
        models["reward"] = flags["reward.model_name_or_path"]
    named = {f"--{role}.model_name_or_path": name for role, name in models.items() if name}
    guide = GuideSettings.of_flags(flags)
    if guide and guide.model:
        named["--guide.model"] = guide.model
    # The platform for CPUs switches the hub off; a plan for GPUs does not need it.
    plans_for_cpu = flags["dry_run"] and choose_device(flags["device"]) == "cpu"
    otherwise = "; --device gpu plans a run on GPUs without it" if plans_for_cpu else ""
    faults = (model_fault(flag, name, offline=offline, otherwise=otherwise) for flag, name in named.items())
    found = [fault for fault in faults if fault]
    if not models["actor"]:
        found.append("No --actor.model_name_or_path: name the policy, a folder or a hub id.")
    if flags["data.prompt_dataset"]:
        probabilities = flags["data.prompt_probs"]
        found += data_faults(
            "--data.prompt_dataset", flags["data.prompt_dataset"], offline=offline, probabilities=probabilities
        )
    else:
        found.append("No --data.prompt_dataset: name the prompts, such as a .jsonl file.")
    if flags["eval.dataset"]:
        found += data_faults("--eval.dataset", flags["eval.dataset"], offline=offline)
    programs = {"--train.agent_func_path": flags["train.agent_func_path"]}
    first = (flags["reward.remote_url"] or "").split(",")[0]  # OpenRLHF looks at the first only
    if first.endswith(".py"):
        programs["--reward.remote_url"] = first
    return found + [fault for flag, name in programs.items() if name and (fault := python_fault(flag, name))]
