"""Values of flags and combinations that are refused before anything starts: one sentence each, with the fix."""

import argparse
import math
from typing import Any

from math_reward.client.settings import check_url, trusted
from openrlhf_gtpo.algorithms.table import ESTIMATORS, estimator_flags, ours
from openrlhf_gtpo.driver.cuda_architectures import architecture_faults
from openrlhf_gtpo.driver.flags import ENTROPY_BONUS
from openrlhf_gtpo.guide.settings import GuideSettings, guide_refusals
from openrlhf_gtpo.settings import rewards_are_embedded, service_urls

__all__ = ["gpu_refusals", "refusals"]

AT_LEAST_ONE = (
    "actor.num_nodes",
    "actor.num_gpus_per_node",
    "vllm.tensor_parallel_size",
    "vllm.max_num_seqs",
    "ds.ring_attn_size",
    "ds.tensor_parallel_size",
    "rollout.batch_size",
    "rollout.micro_batch_size",
    "rollout.n_samples_per_prompt",
    "train.batch_size",
    "train.micro_batch_size",
    "train.max_epochs",
    "train.num_episodes",
    "data.max_len",
    "data.max_samples",
    "reward.batch_size",
    "reward.max_in_flight",
)
"""Flags that have to be at least 1."""


def refusals(args: argparse.Namespace) -> list[str]:
    """What is wrong with a parsed command line.

    Args:
        args: OpenRLHF's flat namespace, before it is nested: ``vars(args)["algo.kl.init_coef"]``.

    Returns:
        One sentence for each fault, with the flag and the fix; empty if there is none.
    """
    flags = vars(args)
    found = _own_faults(flags) + _without_effect(flags) + guide_refusals(flags)
    if flags["algo.advantage.estimator"] in ours():
        found += _meaningless(flags)
    return found


def gpu_refusals(args: argparse.Namespace) -> list[str]:
    """Settings that only the CPU platform has, and an environment in which DeepSpeed cannot start: one sentence each.

    Args:
        args: OpenRLHF's flat namespace.
    """
    found = architecture_faults()
    if vars(args)["ds.param_dtype"] == "fp32":
        found.append(
            "--ds.param_dtype is fp32, which is for CPUs: OpenRLHF trains on GPUs in bf16 or fp16, so leave it out."
        )
    return found


def _own_faults(flags: dict[str, Any]) -> list[str]:
    found = []
    engines = flags["vllm.num_engines"] or 0  # none is OpenRLHF's default
    if engines < 1:
        found.append(f"--vllm.num_engines is {engines}, but vLLM engines generate the responses: set it to 1 or more.")
    if flags["preset"] is not None:  # The full --preset never reaches the parser: `presets.expand` removes it.
        found.append(f"--preset {flags['preset']} was abbreviated, and would do nothing: write --preset in full.")
    for flag in estimator_flags():
        value = flags[flag.name]
        if not flag.allows(value):
            found.append(f"--{flag.name} is {_written(value)}, but {flag.rule}.")
    if flags["shaping.entropy_clip"] is not None and flags["shaping.weights"] in ("uniform", "surprisal"):
        found.append(
            f"--shaping.entropy_clip clamps entropies, but --shaping.weights {flags['shaping.weights']} uses none: "
            "leave one of them out."
        )
    if not 0 < flags["shaping.top_entropy_share"] <= 1:
        found.append(
            f"--shaping.top_entropy_share is {flags['shaping.top_entropy_share']}, but a share is above 0 and at "
            "most 1."
        )
    if flags["shaping.save_rollouts"] < 0:
        found.append(
            f"--shaping.save_rollouts is {flags['shaping.save_rollouts']}, but a number of groups is 0 or more."
        )
    found += _entropy_bonus_faults(flags)
    steps = flags["train.max_steps"]
    if steps is not None and steps < 1:
        found.append(f"--train.max_steps is {steps}, but training takes at least 1 step.")
    if steps is not None and flags["train.async_enable"] and flags["ckpt.load_enable"]:
        found.append(
            "--train.max_steps cannot count the earlier steps of an asynchronous run that is resumed: leave it out."
        )
    for name in ("reward.timeout", "reward.deadline"):
        if not (math.isfinite(flags[name]) and flags[name] > 0):
            found.append(f"--{name} is {flags[name]}, but needs a number of seconds above 0.")
    found += _url_faults(flags) + _ca_file_faults(flags)
    for name in AT_LEAST_ONE:
        if flags[name] is not None and flags[name] < 1:
            found.append(f"--{name} is {flags[name]}, but needs to be at least 1.")
    if not 0 <= flags["ds.zero_stage"] <= 3:
        found.append(f"--ds.zero_stage is {flags['ds.zero_stage']}, but DeepSpeed has the stages 0 to 3.")
    longest, answer = flags["data.max_len"], flags["rollout.max_new_tokens"]
    if answer is not None and not 1 <= answer < longest:
        found.append(
            f"--rollout.max_new_tokens is {answer}, but needs to be at least 1 and less than --data.max_len, "
            f"{longest}, which has to hold the prompt too."
        )
    found += _batch_faults(flags) + _placement_faults(flags)
    if flags["rollout.top_p"] < 1 and _corrects(flags):
        found.append(
            f"--rollout.top_p is {flags['rollout.top_p']} with --algo.advantage.is_correction_*: vLLM's probabilities "
            "are over the top-p tokens and the policy's over all, so every ratio would be too small. Set "
            "--rollout.top_p 1.0 or leave the correction out."
        )
    if rewards_are_embedded(flags) and flags.get("data.label_key") is None:
        found.append(
            "No --data.label_key: the built-in reward service compares each response with a reference answer, so name "
            "the column that holds it (or give your own rewards by --reward.remote_url)."
        )
    return found


def _without_effect(flags: dict[str, Any]) -> list[str]:
    """Flags of estimators that the chosen one does not read: a control, say, that would train without it."""
    name = flags["algo.advantage.estimator"]
    read = {flag.name for flag in ESTIMATORS[name].all_flags} if name in ESTIMATORS else set()
    found = []
    for flag in estimator_flags():
        if flag.name not in read and flags[flag.name] != flag.options["default"]:
            readers = [other for other, estimator in ESTIMATORS.items() if flag in estimator.all_flags]
            found.append(
                f"--{flag.name} is {_written(flags[flag.name])}, but --algo.advantage.estimator {name} does not read "
                f"it: leave it out, or choose {' or '.join(readers)}."
            )
    return found


def _entropy_bonus_faults(flags: dict[str, Any]) -> list[str]:
    """Settings of the entropy bonus's controller that contradict each other."""
    target = flags["actor.entropy_target"]
    delta, least, most = (flags[f"actor.entropy_coef_{name}"] for name in ("delta", "min", "max"))
    if target is None:
        given = [name for name, default in ENTROPY_BONUS.items() if flags[name] != default]
        return [
            f"--{name} is {flags[name]}, but --actor.entropy_target, which it is for, is not set." for name in given
        ]
    found = []
    if not (math.isfinite(target) and target > 0):
        found.append(f"--actor.entropy_target is {target}, but needs to be above 0, in nats.")
    if not (math.isfinite(delta) and delta > 0):
        found.append(f"--actor.entropy_coef_delta is {delta}, but needs to be above 0.")
    if not least < most:
        found.append(f"--actor.entropy_coef_min is {least}, but needs to be below --actor.entropy_coef_max, {most}.")
    elif not least <= (flags["actor.entropy_coef"] or 0.0) <= most:
        found.append(
            f"--actor.entropy_coef is {flags['actor.entropy_coef'] or 0.0}, where the controller begins, but needs to "
            f"be from --actor.entropy_coef_min, {least}, to --actor.entropy_coef_max, {most}."
        )
    return found


def _written(value: Any) -> str:
    """A flag's value as one writes it on the command line."""
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _url_faults(flags: dict[str, Any]) -> list[str]:
    faults = []
    for url in service_urls(flags) or ():
        try:
            check_url(url)
        except ValueError as error:
            hint = f"--reward.remote_url is {url}, which is no URL: write http://{url}, or name a .py file."
            faults.append(f"--reward.remote_url: {error}" if "://" in url else hint)
    return faults


def _ca_file_faults(flags: dict[str, Any]) -> list[str]:
    ca_file = flags["reward.ca_file"]
    if ca_file is None:
        return []
    if "https://" not in (flags["reward.remote_url"] or ""):
        return ["--reward.ca_file needs an https:// URL in --reward.remote_url: add one, or leave the file out."]
    try:
        trusted(ca_file)
    except ValueError as error:
        return [f"--reward.ca_file: {error}"]
    return []


def _batch_faults(flags: dict[str, Any]) -> list[str]:
    """A --train.batch_size that the ranks cannot share evenly; DeepSpeed would report it only once the actors run."""
    ranks = flags["actor.num_nodes"] * flags["actor.num_gpus_per_node"]
    shards = ranks // max(1, flags["ds.ring_attn_size"] * flags["ds.tensor_parallel_size"])
    at_once = flags["train.micro_batch_size"] * shards
    if flags["train.dynamic_batch_enable"] or at_once < 1 or flags["train.batch_size"] % at_once == 0:
        return []
    return [
        f"--train.batch_size is {flags['train.batch_size']}, but needs to be a multiple of {at_once}: "
        f"--train.micro_batch_size, {flags['train.micro_batch_size']}, on each of {shards} processes."
    ]


def _placement_faults(flags: dict[str, Any]) -> list[str]:
    """Models that share GPUs but have different numbers of them; OpenRLHF would report it only once Ray is up."""

    def size(role: str) -> tuple[int, int]:
        return flags[f"{role}.num_nodes"], flags[f"{role}.num_gpus_per_node"]

    actor, ref, critic, reward = (size(role) for role in ("actor", "ref", "critic", "reward"))
    everything = flags["train.colocate_all"]
    flag = "--train.colocate_all" if everything else "--train.colocate_actor_ref"
    with_reference = (everything or flags["train.colocate_actor_ref"]) and flags["algo.kl.init_coef"] > 0
    with_engines = everything and not flags["train.async_enable"]
    with_critic = flags["train.colocate_critic_reward"] and flags["algo.advantage.estimator"] == "gae"
    trainers, engines = math.prod(actor), (flags["vllm.num_engines"] or 0) * flags["vllm.tensor_parallel_size"]
    rules = [
        (
            with_reference and actor != ref,
            f"{flag} puts policy and reference on the same GPUs, but the policy has {_nodes(actor)} and the reference "
            f"{_nodes(ref)}: make --ref.num_nodes and --ref.num_gpus_per_node the policy's.",
        ),
        (
            with_engines and engines > 0 and trainers != engines,
            f"--train.colocate_all puts engines and policy on the same GPUs, but the policy has {trainers} and the "
            f"engines have {engines}: let --vllm.num_engines times --vllm.tensor_parallel_size be {trainers}.",
        ),
        (
            with_critic and critic != reward,
            "--train.colocate_critic_reward puts critic and reward model on the same GPUs, but the critic has "
            f"{_nodes(critic)} and the reward model {_nodes(reward)}: make --reward.num_nodes and "
            "--reward.num_gpus_per_node the critic's.",
        ),
    ]
    return [sentence for broken, sentence in rules if broken]


def _nodes(size: tuple[int, int]) -> str:
    return f"{size[0]} node(s) of {size[1]}"


def _corrects(flags: dict[str, Any]) -> bool:
    """Whether importance correction is on, which weights the loss by the ratio of policy to rollout. Up to OpenRLHF
    0.11.1 its flag had another name."""
    level = flags.get("algo.advantage.is_correction_level", "off")
    return level != "off" or bool(flags.get("algo.advantage.is_correction_enable", False))


def _meaningless(flags: dict[str, Any]) -> list[str]:
    """Options of OpenRLHF that mean nothing with our estimators. They are refused, not ignored."""
    name = flags["algo.advantage.estimator"]
    estimator = ESTIMATORS[name]
    title = estimator.title
    correction = _corrects(flags)
    rules = [
        (
            name == "function" and not flags["shaping.function"],
            "--algo.advantage.estimator function needs --shaping.function FILE.py:NAME, which is not given.",
        ),
        (
            flags["algo.advantage.gamma"] != 1,
            f"--algo.advantage.gamma is {flags['algo.advantage.gamma']}, but {title} does not discount: leave it "
            "at 1.",
        ),
        (
            flags["algo.advantage.lambd"] != 1,
            f"--algo.advantage.lambd is {flags['algo.advantage.lambd']}, but {title} has no GAE: leave it at 1.",
        ),
        (
            flags["algo.kl.init_coef"] > 0 and not flags["algo.kl.use_loss"],
            f"--algo.kl.init_coef is {flags['algo.kl.init_coef']} without --algo.kl.use_loss, which would subtract KL "
            f"from the reward that {title} uses: set --algo.kl.init_coef 0, as the papers do, or add "
            "--algo.kl.use_loss.",
        ),
        (
            flags["reward.normalize_enable"],
            f"--reward.normalize_enable is not read with {title}, which has a normalisation of its own: leave it out.",
        ),
        (
            tuple(flags["reward.clip_range"]) != (-10, 10),
            f"--reward.clip_range is for OpenRLHF's own estimators, not for {title}: leave it out.",
        ),
        (
            flags["rollout.n_samples_per_prompt"] < 2,
            f"--rollout.n_samples_per_prompt is {flags['rollout.n_samples_per_prompt']}, but {title} compares the "
            "responses of a group: use 2 or more (GTPO's paper uses 16).",
        ),
        (
            flags["critic.model_name_or_path"] is not None,
            f"--critic.model_name_or_path names a critic, but {title} has none: leave it out.",
        ),
        (
            flags["algo.advantage.no_std_norm"],
            f"--algo.advantage.no_std_norm is not read with {title}, which has a normalisation of its own: leave it "
            "out.",
        ),
        (
            flags["actor.policy_loss_type"] != "ppo",
            f"--actor.policy_loss_type {flags['actor.policy_loss_type']} is another method's objective, and {title} "
            "has its own: leave it out.",
        ),
        (
            flags.get("actor.loss_agg_mode", "token-mean") != "token-mean",
            f"--actor.loss_agg_mode {flags.get('actor.loss_agg_mode')} contradicts the objective of {title}: leave it "
            "out.",
        ),
        (
            estimator.needs_correctness
            and flags["reward.model_name_or_path"] is not None
            and not flags["reward.remote_url"],
            f"--reward.model_name_or_path gives a model's scores, but {title} needs verified correctness: use "
            "--reward.remote_url, or leave both out for the built-in reward service.",
        ),
        (
            estimator.per_response and flags["shaping.top_entropy_share"] != 1,
            f"--shaping.top_entropy_share is {flags['shaping.top_entropy_share']}, but {title} has one ratio and one "
            "advantage per response, so it cannot leave out single tokens: leave it at 1.",
        ),
        (
            estimator.loss is not None and not estimator.per_response and flags["shaping.top_entropy_share"] != 1,
            f"--shaping.top_entropy_share is {flags['shaping.top_entropy_share']}, but {title} itself decides which "
            "tokens learn: leave it at 1.",
        ),
        (
            estimator.loss is not None and not estimator.per_response and GuideSettings.of_flags(flags) is not None,
            f"--guide.* adds responses of another policy, whose log-probabilities {title} would compare with the "
            "policy's own: leave the guide out.",
        ),
        (
            estimator.per_response and correction,
            f"--algo.advantage.is_correction_* weights single tokens, but {title} has one ratio per response: leave "
            "it out.",
        ),
    ]
    return [sentence for broken, sentence in rules if broken]
