"""Rules about flags alone: what contradicts itself, what an estimator would read in another way than it is meant, and
what fails only once every actor is up."""

import contextlib
import math
from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import Any

from math_reward.client.settings import speaks_grade, token_of_environment, trusted
from openrlhf_gtpo.checks import Finding
from openrlhf_gtpo.flags import defaults, embedded, openrlhfs_refusal, service_urls, shares, whole_updates
from openrlhf_gtpo.registry import RECORDS, Record
from openrlhf_gtpo.rewards.client import client_settings

Flags = Mapping[str, Any]

WITHOUT_MEANING = {
    "algo.advantage.gamma": 1,
    "algo.advantage.lambd": 1,
    "algo.advantage.no_std_norm": False,
    "reward.normalize_enable": False,
    "reward.clip_range": (-10, 10),
    "critic.model_name_or_path": None,
    "actor.policy_loss_type": "ppo",
    "actor.loss_agg_mode": "token-mean",
}
"""Flags of OpenRLHF that our estimators do not read -> their defaults."""

PAIRS = ("shaping.entropy_clip", "algo.dynamic_filtering_range", "reward.clip_range")
"""Flags that take LOW and HIGH."""

INFINITE = ("ckpt.max_mem", "actor.max_norm", "critic.max_norm")
"""Flags of which infinity is no limit, and nothing is below 0."""

SWITCHES: dict[str, tuple[str, ...]] = {
    "ds.lora.rank": ("ds.lora.alpha", "ds.lora.target_modules", "ds.lora.dropout"),
    "algo.advantage.is_correction_level": tuple(
        f"algo.advantage.is_correction_{one}" for one in ("mode", "gating", "threshold")
    ),
    "algo.dynamic_filtering_enable": ("algo.dynamic_filtering_range", "rollout.over_sampling_batch_size"),
    "algo.kl.init_coef": ("algo.kl.use_loss", "algo.kl.estimator", "algo.kl.target", "algo.kl.horizon"),
    "reward.overlong_buffer_len": ("reward.overlong_penalty_factor",),
    "train.enable_ema": ("train.ema_beta",),
    "train.dynamic_batch_enable": ("train.max_tokens_per_gpu", "rollout.max_tokens_per_gpu"),
    "actor.optim muon": ("actor.muon.lr", "actor.muon.momentum"),
    "train.async_enable": ("train.async_queue_size", "train.partial_rollout_enable"),
}
"""A flag, or a flag and its value -> those that do nothing without it."""

NEEDS_A_GPU = {
    "ds.load_in_4bit": "quantises with bitsandbytes",
    "ds.use_liger_kernel": "uses Triton kernels",
    "ds.adam_offload": "moves the optimiser from a GPU to the CPU",
    "vllm.sync_with_ray": "sends weights by Ray's GPU collectives",
}


def check(flags: Flags) -> Iterator[Finding]:
    """What the flags say that cannot be run, by our rules, else by OpenRLHF's script."""
    rules = [_of_numbers, _of_the_run, _of_the_estimator, _of_the_services, _of_the_batch, _of_the_guide]
    sentences = [sentence for rule in (*rules, _of_the_device) for sentence in rule(flags)]
    if not sentences and (refusal := openrlhfs_refusal(Namespace(**flags))):
        sentences.append(refusal)
    for sentence in sentences:
        yield Finding("flags", "fault", sentence)
    if not sentences:
        yield Finding("flags", "ok", "OpenRLHF and the plugin take all of them.")
    yield from (Finding("flags", "warning", sentence) for sentence in _without_effect(flags))


def in_a_file(estimator: str) -> bool:
    """Whether an estimator is a function of the user's own, ``FILE.py:NAME``."""
    return ".py:" in estimator


def _of_numbers(flags: Flags) -> Iterator[str]:
    """Numbers that OpenRLHF would divide by, or that compare with nothing."""
    for flag in ("eval.steps", "ckpt.save_steps"):
        if flags[flag] < 1 and flags[flag] != -1:
            yield f"--{flag} is {flags[flag]}, but needs to be at least 1, or -1 for never."
    for flag in PAIRS:
        if flags[flag] is not None and not flags[flag][0] < flags[flag][1]:
            yield f"--{flag} is {flags[flag][0]} {flags[flag][1]}, but LOW needs to be below HIGH."
    for flag, value in flags.items():
        if isinstance(value, float) and not math.isfinite(value) and flag not in INFINITE:
            yield f"--{flag} is {value}: give a finite number."
        elif flag in INFINITE and value < 0:
            yield f"--{flag} is {value}: give 0 or more, or inf for no limit."
    low, high = [0.0, *flags["algo.advantage.is_correction_threshold"]][-2:]
    if not 0 <= low < high:
        yield f"--algo.advantage.is_correction_threshold is {low:g} {high:g}: give 0 or more, and LOW below HIGH."
    low, high = flags["algo.dynamic_filtering_range"]
    if flags["algo.dynamic_filtering_enable"] and _by_our_service(flags) and (1 <= low < high or low < high <= 0):
        yield f"--algo.dynamic_filtering_range is {low} {high}, but a group's mean score is from 0 to 1: give 0 1."
    room, most = flags["reward.overlong_buffer_len"], flags["rollout.max_new_tokens"] or flags["data.max_len"]
    if room is not None and not 0 <= room <= most:
        yield f"--reward.overlong_buffer_len is {room:g}, but responses have {most} tokens at most: give at most that."
    if (kept := flags["reward.stop_properly_penalty_coef"]) is not None and kept > 1:
        yield f"--reward.stop_properly_penalty_coef is {kept}, but multiplies rewards: give at most 1."


def _without_effect(flags: Flags) -> Iterator[str]:
    """Evaluation data without an evaluation, and the other way round; flags without that which switches them on."""
    data, every = flags["eval.dataset"], flags["eval.steps"]
    most = math.ceil(flags["data.max_samples"] * flags["train.num_episodes"] / flags["rollout.batch_size"])
    most = min(most, flags["train.max_steps"] or most)
    if data and every == -1:
        yield "--eval.dataset is never used without --eval.steps: say every how many steps, or leave the data out."
    elif data and every > most:
        yield f"--eval.dataset is never used: --eval.steps is {every}, and the run has {most:,} steps at most."
    elif not data and every > 0:
        yield "--eval.steps does nothing without --eval.dataset: name the data, or leave it out."
    if flags["actor.optim"] == "muon" and flags["actor.max_norm"] > 0:
        yield (
            f"--actor.max_norm {flags['actor.max_norm']} scales Muon's updates down, whose norms are in the tens and "
            "hundreds, so that the policy hardly learns: set it to 0."
        )
    if (flags["actor.muon.ns_steps"], flags["actor.muon.nesterov"]) != (5, True):
        yield "--actor.muon.ns_steps and --actor.muon.no_nesterov do nothing, as DeepSpeed has it: leave them out."
    for switch, others in SWITCHES.items():
        given = [f"--{name}" for name in others if _plain(flags[name]) != _plain(defaults()[name])]
        name, _, value = switch.partition(" ")
        if given and (flags[name] != value if value else flags[name] in (None, 0, "off")):
            yield f"{', '.join(given)} does nothing without --{switch}: give it, or leave these out."


def _plain(value: Any) -> Any:
    """OpenRLHF's defaults are tuples where its parser makes lists."""
    return tuple(value) if isinstance(value, list) else value


def _of_the_run(flags: Flags) -> Iterator[str]:
    longest, answer = flags["data.max_len"], flags["rollout.max_new_tokens"]
    if not flags["vllm.num_engines"]:
        yield "--vllm.num_engines is not set, but vLLM engines generate the responses: set it to 1 or more."
    if flags["logger.wandb.key"]:
        yield "--logger.wandb.key would be printed and sent: give --logger.wandb.enable, and the key as WANDB_API_KEY."
    if answer is not None and not 1 <= answer < longest:
        yield f"--rollout.max_new_tokens is {answer}: give at least 1, and less than --data.max_len, {longest}."
    if flags["shaping.grop"] and flags["rollout.n_samples_per_prompt"] < 2:
        yield "--shaping.grop compares the responses of a group: give --rollout.n_samples_per_prompt 2 or more."
    yield from _of_the_template(flags["data.input_template"], flags["data.apply_chat_template"])
    if flags["rollout.top_p"] < 1 and _corrects(flags):
        yield f"--rollout.top_p is {flags['rollout.top_p']}, but is_correction_* needs all tokens: set it to 1."
    name, options = flags["algo.advantage.estimator"], {one for record in RECORDS.values() for one in record.options}
    given = {one for one in options if flags[f"shaping.{one}"] != defaults()[f"shaping.{one}"]}
    if unread := sorted(given.difference(RECORDS.get(name, Record()).options)):
        read = " or ".join(one for one, record in RECORDS.items() if given <= set(record.options))
        yield f"--shaping.{unread[0]} would do nothing with {name}: leave it out, or choose {read}."
    for flag in ("reward.mode", "shaping.until"):
        if flags[flag] not in (None, "end") and not _by_our_service(flags):
            yield f"--{flag} needs this project's reward service, and the rewards come from elsewhere: leave it out."


def _of_the_template(template: str | None, chat: bool) -> Iterator[str]:
    """A template that OpenRLHF would not read, or that does not hold each prompt once."""
    if not template:
        return
    if chat:
        yield "--data.input_template does nothing with --data.apply_chat_template: leave one of the two out."
        return
    held = 0
    with contextlib.suppress(IndexError, KeyError, ValueError, AttributeError):
        held = template.format("\0").count("\0")
    if held != 1:
        needs = f"--data.input_template {template!r} needs to have {{}} once, where the prompt goes"
        yield rf"{needs}: write other braces twice, such as \boxed{{{{}}}}."


def _by_our_service(flags: Flags) -> bool:
    """Whether all rewards are grades of this project's reward service."""
    urls = service_urls(flags)
    return embedded(flags) or (bool(urls) and all(map(speaks_grade, urls)))


def _corrects(flags: Flags) -> bool:
    """Whether importance correction is on, which weights the loss by the ratio of policy to rollout."""
    return flags["algo.advantage.is_correction_level"] != "off"


def _of_the_estimator(flags: Flags) -> Iterator[str]:
    """Options of OpenRLHF that mean nothing with our estimators. They are refused, not ignored."""
    name, samples, share = (
        flags[flag]
        for flag in ("algo.advantage.estimator", "rollout.n_samples_per_prompt", "shaping.top_entropy_share")
    )
    record = RECORDS.get(name, Record())
    if (name not in RECORDS or record.openrlhfs_own) and not in_a_file(name):
        return
    for flag, default in WITHOUT_MEANING.items():
        if _plain(flags[flag]) != default:
            yield f"--{flag} is {flags[flag]}, which {name} does not read: leave it out."
    yield from _kl_in_the_reward(flags, f"the reward that {name} uses")
    if samples < 2:
        yield f"--rollout.n_samples_per_prompt is {samples}, but {name} compares a group's responses: give 2 or more."
    if record.needs_correctness:
        yield from _scores_of_a_model(flags, name)
    if record.per_response and share != 1:
        yield f"--shaping.top_entropy_share is {share}, but {name} has one advantage per response: leave it at 1."
    if record.per_response and _corrects(flags):
        yield f"--algo.advantage.is_correction_* is for tokens, and {name} has one ratio per response: leave it out."


def _kl_in_the_reward(flags: Flags, where: str) -> Iterator[str]:
    """KL has to be in the loss: subtracted from rewards it would change what groups compare."""
    weight = flags["algo.kl.init_coef"]
    if weight > 0 and not flags["algo.kl.use_loss"]:
        yield f"--algo.kl.init_coef is {weight}, which changes {where}: set it to 0, or add --algo.kl.use_loss."


def _scores_of_a_model(flags: Flags, who: str) -> Iterator[str]:
    """Whoever treats correct and wrong responses differently gets no scores of a model."""
    if flags["reward.model_name_or_path"] and not flags["reward.remote_url"]:
        yield f"--reward.model_name_or_path is for scores, but {who} needs verified correctness: leave it out."


def _of_the_services(flags: Flags) -> Iterator[str]:
    """What the client that asks them says of their URLs, a token or a file of certificates."""
    ca_file = flags["reward.ca_file"]
    if ca_file is not None and "https://" not in (flags["reward.remote_url"] or ""):
        yield "--reward.ca_file needs an https:// URL in --reward.remote_url: add one, or leave the file out."
        return
    for where, ask in (
        ("", token_of_environment),
        ("--reward.ca_file: ", lambda: ca_file and trusted(ca_file)),
        ("--reward.remote_url: ", lambda: client_settings(flags)),
    ):
        try:
            ask()
        except ValueError as error:
            yield f"{where}{error}"
            return


def _of_the_batch(flags: Flags) -> Iterator[str]:
    """Sizes that DeepSpeed or OpenRLHF would refuse only once the actors run, or never."""
    ranks = flags["actor.num_nodes"] * flags["actor.num_gpus_per_node"]
    share = flags["ds.ring_attn_size"] * flags["ds.tensor_parallel_size"]
    if ranks % share:
        named = "--ds.ring_attn_size times --ds.tensor_parallel_size"
        yield f"{named} is {share}, which does not divide the policy's {ranks} GPUs: lower them, or take more GPUs."
    else:
        yield from _of_the_updates(flags)
    at_once = flags["rollout.vllm_generate_batch_size"]
    if at_once and at_once < flags["rollout.batch_size"]:
        least = f"at least --rollout.batch_size, {flags['rollout.batch_size']}"
        yield f"--rollout.vllm_generate_batch_size is {at_once}: give {least}, or leave it out."


def _of_the_updates(flags: Flags) -> Iterator[str]:
    """Responses of a step that would be left over, or keep ranks waiting for others."""
    processes, update = shares(flags), flags["train.batch_size"]
    policys, dynamic = processes["actor"], flags["train.dynamic_batch_enable"]
    if dynamic and (odd := [role for role, count in processes.items() if policys % count]):
        yield (
            f"--{odd[0]}.num_gpus_per_node gives {processes[odd[0]]} processes for the policy's {policys} dynamic "
            f"micro-batches: give a number that divides {policys}."
        )
        return
    trainers = math.lcm(policys, processes.get("critic", 1))
    at_once = trainers * (1 if dynamic else flags["train.micro_batch_size"])
    if update % at_once:
        each = "a response" if dynamic else f"--train.micro_batch_size, {flags['train.micro_batch_size']},"
        yield (
            f"--train.batch_size is {update}, but needs to be a multiple of {at_once}: {each} on each of {trainers} "
            "processes."
        )
        return
    prompts, samples, whole = flags["rollout.batch_size"], flags["rollout.n_samples_per_prompt"], whole_updates(flags)
    if prompts * samples % whole == 0 or flags["guide.model"]:  # whose batches are filled
        return

    def fits(name: str, size: int) -> bool:
        changed = {**flags, name: size}
        responses = changed["rollout.batch_size"] * samples
        enough = responses // changed["rollout.micro_batch_size"] >= policys  # or OpenRLHF refuses it
        return enough and responses % whole_updates(changed) == 0

    sizes = {
        "rollout.batch_size": range(1, max(prompts, policys * flags["rollout.micro_batch_size"]) + whole + 1),
        "train.batch_size": range(at_once, prompts * samples + 1, at_once),
        "rollout.micro_batch_size": range(1, prompts * samples + 1),
    }
    found = {name: [size for size in some if fits(name, size)] for name, some in sizes.items()}
    nearest = [
        f"--{name} {min(some, key=lambda size: abs(size - flags[name]))}" for name, some in found.items() if some
    ]
    micro = "" if whole == update else f" and --rollout.micro_batch_size {flags['rollout.micro_batch_size']}"
    on = f" on {math.lcm(*processes.values())} processes" if whole != update or policys > 1 else ""
    yield (
        f"--rollout.batch_size {prompts} with --rollout.n_samples_per_prompt {samples} gives {prompts * samples} "
        f"responses a step, but updates take {whole} at a time (--train.batch_size {update}{micro}{on}): set "
        f"{' or '.join(nearest)}."
    )


def _of_the_guide(flags: Flags) -> Iterator[str]:
    if not flags["guide.model"]:
        changed = [
            f"--{name}" for name, default in defaults().items() if name[:6] == "guide." and flags[name] != default
        ]
        if changed:
            yield f"{', '.join(changed)} would do nothing: name a guide by --guide.model."
        return
    name = flags["algo.advantage.estimator"]
    if name not in RECORDS and not in_a_file(name):
        yield f"--algo.advantage.estimator {name} does not work with a guide: use one of {', '.join(RECORDS)}."
    if name == "group_norm":  # others say it themselves
        yield from _kl_in_the_reward(flags, "the rewards of the guide's responses too")
        yield from _scores_of_a_model(flags, "a guide")
    if flags["train.async_enable"]:
        yield "--train.async_enable would part the policy's responses from the guide's: leave it out with a guide."
    if flags["train.dynamic_batch_enable"]:
        yield "--train.dynamic_batch_enable drops responses beyond --rollout.batch_size, the guide's: leave it out."
    if flags["guide.weight"] != 1 and "zero_reward" not in flags["guide.when"]:
        yield "--guide.weight is for the batch that --guide.when zero_reward makes: add that, or leave the weight out."
    has = flags["actor.num_nodes"] * flags["actor.num_gpus_per_node"]
    needs = flags["guide.engines"] * (flags["guide.tensor_parallel_size"] or flags["vllm.tensor_parallel_size"])
    if flags["train.colocate_all"] and needs > has:
        yield f"--guide.engines needs {needs} GPUs, but --train.colocate_all shares the policy's {has}: use fewer."


def _of_the_device(flags: Flags) -> Iterator[str]:
    """What needs a GPU, or a CPU."""
    if flags["device"] == "gpu":
        if flags["ds.param_dtype"] == "fp32":
            yield "--ds.param_dtype is fp32, which is for CPUs: leave it out, since OpenRLHF trains in bf16 or fp16."
        return
    for name, why in NEEDS_A_GPU.items():
        if flags[name]:
            yield f"--{name} {why}, which a CPU cannot: leave it out on --device cpu."
    if flags["ds.param_dtype"] == "fp16":
        yield "--ds.param_dtype is fp16, but a CPU computes in bf16 or fp32: choose one, or leave it out."
    if flags["algo.advantage.estimator"] == "gae":
        yield "--algo.advantage.estimator gae, OpenRLHF's default, has a critic, which needs a GPU: choose gtpo, say."
    if flags["reward.model_name_or_path"] and not (flags["reward.remote_url"] or flags["train.agent_func_path"]):
        yield "--reward.model_name_or_path needs a GPU: leave it out for the built-in service."
