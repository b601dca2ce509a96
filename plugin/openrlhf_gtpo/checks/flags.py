"""Checks that look at flags alone: values out of bounds, flags that contradict each other or do nothing."""

import math
from collections.abc import Callable, Iterator

from math_reward.client.settings import check_url, token_of_environment, trusted
from openrlhf_gtpo.algorithms.table import ESTIMATORS, estimator_flags, is_ours, line_of
from openrlhf_gtpo.checks.findings import Finding, fault, warning
from openrlhf_gtpo.driver.command_line import openrlhfs_refusal
from openrlhf_gtpo.driver.cuda import architecture_fault
from openrlhf_gtpo.driver.flags import GUIDE, OF_THE_BONUS, OPENRLHFS, all_flags
from openrlhf_gtpo.settings import Settings

NAME = "flags"


def check_flags(settings: Settings, of_the_platform: Callable[[Settings], list[str]]) -> list[Finding]:
    """What the flags say that cannot be run, by our rules, else by OpenRLHF's script; and what is doubtful.

    Args:
        settings: of the command line.
        of_the_platform: faults on the run's platform, CPU or GPU.
    """
    sentences = faults(settings) + of_the_platform(settings)
    try:
        token_of_environment()
    except ValueError as error:
        sentences.append(str(error))
    if not sentences and (refusal := openrlhfs_refusal(settings)):
        sentences.append(refusal)
    return [*(fault(NAME, sentence) for sentence in sentences), *(warning(NAME, said) for said in warnings(settings))]


def faults(settings: Settings) -> list[str]:
    """One sentence for each fault of the flags, with the flag and the fix; empty if there is none."""
    rules = [_out_of_bounds, _contradictions, _of_the_kept_tokens, _of_the_entropy_bonus, _of_the_services]
    rules += [_of_the_batch, _of_the_placement, _without_effect, _of_the_guide]
    if is_ours(settings.estimator):
        rules.append(_meaningless)
    return [sentence for rule in rules for sentence in rule(settings)]


def gpu_faults(settings: Settings) -> list[str]:
    """Settings that only the CPU platform has, and an environment in which DeepSpeed cannot start: one sentence
    each."""
    sentences = list(filter(None, [architecture_fault()]))
    if settings.flags["ds.param_dtype"] == "fp32":
        sentences.append(
            "--ds.param_dtype is fp32, which is for CPUs: OpenRLHF trains on GPUs in bf16 or fp16, so leave it out."
        )
    return sentences


def _out_of_bounds(settings: Settings) -> Iterator[str]:
    flags = settings.flags
    for flag in (*all_flags(), *GUIDE, *OPENRLHFS):
        if flag.rule and (sentence := flag.fault(flags[flag.name])):
            yield sentence
    engines = flags["vllm.num_engines"] or 0  # none is OpenRLHF's default
    if engines < 1:
        yield f"--vllm.num_engines is {engines}, but vLLM engines generate the responses: set it to 1 or more."


def _contradictions(settings: Settings) -> Iterator[str]:
    """Flags that contradict each other, with any estimator."""
    flags = settings.flags
    weights, longest, answer = flags["shaping.weights"], flags["data.max_len"], flags["rollout.max_new_tokens"]
    if flags["shaping.entropy_clip"] is not None and weights in ("uniform", "surprisal"):
        yield (
            f"--shaping.entropy_clip clamps entropies, but --shaping.weights {weights} uses none: leave one of them "
            "out."
        )
    if flags["train.max_steps"] is not None and flags["train.async_enable"] and flags["ckpt.load_enable"]:
        out = "take the preset's back by --no-train.max_steps" if settings.preset else "leave it out"
        yield f"--train.max_steps cannot count the earlier steps of an asynchronous run that is resumed: {out}."
    if settings.updates_from is not None:
        yield from _of_the_planned_updates(settings)
    if flags["logger.wandb.key"]:
        yield (
            "--logger.wandb.key would be printed, and sent to wandb among the settings: put the key into "
            "WANDB_API_KEY, or run `wandb login` once, and give --logger.wandb.enable in its place."
        )
    if answer is not None and not 1 <= answer < longest:
        both = f": --preset {settings.preset} has its paper's lengths, set both" if settings.preset else ""
        yield (
            f"--rollout.max_new_tokens is {answer}, but needs to be at least 1 and less than --data.max_len, "
            f"{longest}, which has to hold the prompt too{both}."
        )
    if settings.punishes_length and flags["rollout.n_samples_per_prompt"] < 2:
        yield (
            f"--rollout.n_samples_per_prompt is {flags['rollout.n_samples_per_prompt']}, but --shaping.grop compares "
            "the lengths of a group's responses: use 2 or more, or leave --shaping.grop out."
        )
    if settings.rewards_are_embedded and flags["data.label_key"] is None:
        yield (
            "No --data.label_key: the built-in reward service compares each response with a reference answer, so name "
            "the column that holds it (or give your own rewards by --reward.remote_url)."
        )


def _of_the_planned_updates(settings: Settings) -> Iterator[str]:
    flags = settings.flags
    if settings.max_steps is None:
        yield (
            "--train.updates_from has another run's steps, and this run ends when its prompts are used up: add "
            "--train.max_steps, at most that run's."
        )
    if flags["train.max_epochs"] != 1:
        yield (
            f"--train.max_epochs is {flags['train.max_epochs']}, but --train.updates_from decides how often a step "
            "passes over its responses: leave one of them out."
        )
    if flags["train.dynamic_batch_enable"]:
        yield (
            "--train.dynamic_batch_enable fills updates by tokens, and --train.updates_from counts responses: leave "
            "one of them out."
        )


def _without_effect(settings: Settings) -> Iterator[str]:
    """Flags of estimators that the chosen one does not read: a control, say, that would train without it."""
    name = settings.estimator
    line = line_of(name)
    read = line.all_flags if line else ()
    for flag in estimator_flags():
        value = settings.flags[flag.name]
        if flag not in read and value != flag.default:
            readers = [other for other, estimator in ESTIMATORS.items() if flag in estimator.all_flags]
            yield (
                f"{flag.told(value)}, but --algo.advantage.estimator {name} does not read it: leave it out, or choose "
                f"{' or '.join(readers)}."
            )


def _of_the_kept_tokens(settings: Settings) -> Iterator[str]:
    """Ratios of importance correction over the tokens that top-k and top-p keep, and what they do not go with."""
    flags = settings.flags
    if flags["rollout.top_p"] < 1 and settings.corrects and not settings.top_k:
        yield (
            f"--rollout.top_p is {flags['rollout.top_p']} with --algo.advantage.is_correction_*, whose ratios are "
            "over the tokens that top-p keeps, and nothing limits how many of them vLLM has to return: add "
            "--rollout.top_k 64, set --rollout.top_p 1.0, or leave the correction out."
        )
    if not settings.kept_columns:
        return
    why = "so with --algo.advantage.is_correction_* leave one of them out."
    if settings.guide is not None:
        yield f"--guide.* has responses that were not sampled from the tokens that --rollout.top_k keeps, {why}"
    if flags["algo.kl.init_coef"] > 0:
        yield (
            "--algo.kl.init_coef compares the policy with the reference over all tokens, and --rollout.top_k "
            f"restricts the policy to those that were kept, {why}"
        )
    for name in ("ds.ring_attn_size", "ds.tensor_parallel_size"):
        if flags[name] > 1:
            yield f"--{name} is {flags[name]}, which splits the logits that --rollout.top_k restricts, {why}"


def _of_the_entropy_bonus(settings: Settings) -> Iterator[str]:
    flags = settings.flags
    if settings.entropy_bonus is None:
        for flag in OF_THE_BONUS:
            if flags[flag.name] != flag.default:
                yield f"{flag.told(flags[flag.name])}, but --actor.entropy_target, which it is for, is not set."
        return
    first, least, most = (settings.entropy_bonus[name] for name in ("coefficient", "least", "most"))
    if not least < most:
        yield f"--actor.entropy_coef_min is {least}, but needs to be below --actor.entropy_coef_max, {most}."
    elif not least <= first <= most:
        yield (
            f"--actor.entropy_coef is {first}, where the controller begins, but needs to be from "
            f"--actor.entropy_coef_min, {least}, to --actor.entropy_coef_max, {most}."
        )


def _of_the_services(settings: Settings) -> Iterator[str]:
    """URLs that are none, and a file of certificates that cannot be used."""
    for url in settings.service_urls or ():
        try:
            check_url(url)
        except ValueError as error:
            hint = f"--reward.remote_url is {url}, which is no URL: write http://{url}, or name a .py file."
            yield f"--reward.remote_url: {error}" if "://" in url else hint
    ca_file = settings.flags["reward.ca_file"]
    if ca_file is not None and "https://" not in (settings.flags["reward.remote_url"] or ""):
        yield "--reward.ca_file needs an https:// URL in --reward.remote_url: add one, or leave the file out."
    elif ca_file is not None:
        try:
            trusted(ca_file)
        except ValueError as error:
            yield f"--reward.ca_file: {error}"


def _of_the_batch(settings: Settings) -> Iterator[str]:
    """A --train.batch_size that the ranks cannot share evenly; DeepSpeed would report it only once the actors run."""
    flags = settings.flags
    ranks = flags["actor.num_nodes"] * flags["actor.num_gpus_per_node"]
    shards = ranks // max(1, flags["ds.ring_attn_size"] * flags["ds.tensor_parallel_size"])
    at_once = flags["train.micro_batch_size"] * shards
    if at_once >= 1 and flags["train.batch_size"] % at_once and not flags["train.dynamic_batch_enable"]:
        yield (
            f"--train.batch_size is {flags['train.batch_size']}, but needs to be a multiple of {at_once}: "
            f"--train.micro_batch_size, {flags['train.micro_batch_size']}, on each of {shards} processes."
        )


def _of_the_placement(settings: Settings) -> Iterator[str]:
    """Models that share GPUs but have different numbers of them; OpenRLHF would report it only once Ray is up."""
    flags = settings.flags
    actor, ref, critic, reward = (
        (flags[f"{role}.num_nodes"], flags[f"{role}.num_gpus_per_node"])
        for role in ("actor", "ref", "critic", "reward")
    )
    everything = flags["train.colocate_all"]
    trainers, engines = math.prod(actor), (flags["vllm.num_engines"] or 0) * flags["vllm.tensor_parallel_size"]
    with_reference = (everything or flags["train.colocate_actor_ref"]) and flags["algo.kl.init_coef"] > 0
    if with_reference and actor != ref:
        flag = "--train.colocate_all" if everything else "--train.colocate_actor_ref"
        yield (
            f"{flag} puts policy and reference on the same GPUs, but the policy has {_nodes(actor)} and the reference "
            f"{_nodes(ref)}: make --ref.num_nodes and --ref.num_gpus_per_node the policy's."
        )
    if everything and not flags["train.async_enable"] and engines > 0 and trainers != engines:
        yield (
            f"--train.colocate_all puts engines and policy on the same GPUs, but the policy has {trainers} and the "
            f"engines have {engines}: let --vllm.num_engines times --vllm.tensor_parallel_size be {trainers}."
        )
    if flags["train.colocate_critic_reward"] and settings.estimator == "gae" and critic != reward:
        yield (
            "--train.colocate_critic_reward puts critic and reward model on the same GPUs, but the critic has "
            f"{_nodes(critic)} and the reward model {_nodes(reward)}: make --reward.num_nodes and "
            "--reward.num_gpus_per_node the critic's."
        )


def _nodes(size: tuple[int, int]) -> str:
    return f"{size[0]} node(s) of {size[1]}"


MEANINGLESS = {
    "algo.advantage.gamma": (1, "is {value}, but {title} does not discount: leave it at 1."),
    "algo.advantage.lambd": (1, "is {value}, but {title} has no GAE: leave it at 1."),
    "algo.advantage.no_std_norm": (
        False,
        "is not read with {title}, which has a normalisation of its own: leave it out.",
    ),
    "reward.normalize_enable": (
        False,
        "is not read with {title}, which has a normalisation of its own: leave it out.",
    ),
    "reward.clip_range": ((-10, 10), "is for OpenRLHF's own estimators, not for {title}: leave it out."),
    "critic.model_name_or_path": (None, "names a critic, but {title} has none: leave it out."),
    "actor.policy_loss_type": ("ppo", "{value} is another method's objective, and {title} has its own: leave it out."),
    "actor.loss_agg_mode": ("token-mean", "{value} contradicts the objective of {title}: leave it out."),
}
"""Flags of OpenRLHF that mean nothing with our estimators -> their default, and what is said of another value."""


def _meaningless(settings: Settings) -> Iterator[str]:
    """Options of OpenRLHF that mean nothing with our estimators. They are refused, not ignored."""
    flags, name = settings.flags, settings.estimator
    estimator = line_of(name)
    assert estimator is not None
    title, share, samples = estimator.title, flags["shaping.top_entropy_share"], flags["rollout.n_samples_per_prompt"]
    for flag, (default, said) in MEANINGLESS.items():
        if (tuple(flags[flag]) if isinstance(default, tuple) else flags[flag]) != default:
            yield f"--{flag} {said.format(value=flags[flag], title=title)}"
    yield from _kl_in_the_reward(settings, f"the reward that {title} uses")
    if samples < 2:
        yield (
            f"--rollout.n_samples_per_prompt is {samples}, but {title} compares the responses of a group: use 2 or "
            "more (GTPO's paper uses 16)."
        )
    if estimator.needs_correctness:
        yield from _scores_of_a_model(settings, title)
    if estimator.per_response and share != 1:
        yield (
            f"--shaping.top_entropy_share is {share}, but {title} has one ratio and one advantage per response, so it "
            "cannot leave out single tokens: leave it at 1."
        )
    if estimator.per_response and settings.corrects:
        yield (
            f"--algo.advantage.is_correction_* weights single tokens, but {title} has one ratio per response: leave "
            "it out."
        )
    if estimator.loss is None or estimator.per_response:
        return
    if share != 1:
        yield f"--shaping.top_entropy_share is {share}, but {title} itself decides which tokens learn: leave it at 1."
    if settings.guide is not None:
        yield (
            f"--guide.* adds responses of another policy, whose log-probabilities {title} would compare with the "
            "policy's own: leave the guide out."
        )


def _kl_in_the_reward(settings: Settings, where: str) -> Iterator[str]:
    """KL has to be in the loss: subtracted from rewards it would change what groups compare."""
    weight = settings.flags["algo.kl.init_coef"]
    if weight > 0 and not settings.flags["algo.kl.use_loss"]:
        yield (
            f"--algo.kl.init_coef is {weight} without --algo.kl.use_loss, which would subtract KL from {where}: set "
            "--algo.kl.init_coef 0, as the papers do, or add --algo.kl.use_loss."
        )


def _scores_of_a_model(settings: Settings, who: str) -> Iterator[str]:
    """Whoever treats correct and wrong responses differently gets no scores of a model."""
    if settings.flags["reward.model_name_or_path"] and not settings.flags["reward.remote_url"]:
        yield (
            f"--reward.model_name_or_path gives a model's scores, but {who} needs verified correctness: use "
            "--reward.remote_url, or leave both out for the built-in reward service."
        )


OF_A_MODEL = ("guide.engines", "guide.tensor_parallel_size")


def _of_the_guide(settings: Settings) -> Iterator[str]:
    flags, guide, estimator = settings.flags, settings.guide, settings.estimator
    changed = [flag.name for flag in GUIDE if flags[flag.name] != flag.default]
    if changed and not (flags["guide.model"] or flags["guide.solutions"]):
        idle = ", ".join(f"--{name}" for name in changed)
        yield f"{idle} would do nothing: name a guide by --guide.model or --guide.solutions."
    if guide is None:
        return
    bundles = flags["actor.num_nodes"] * flags["actor.num_gpus_per_node"]
    gpus = guide.engines * guide.tensor_parallel_size
    if guide.model and guide.solutions:
        yield "--guide.model and --guide.solutions are two guides: give one."
    if line_of(estimator) is None:
        yield (
            f"--algo.advantage.estimator {estimator} cannot compute advantages over the policy's and the guide's "
            f"responses together: use one of {', '.join(ESTIMATORS)} with a guide."
        )
    yield from _kl_in_the_reward(settings, "the rewards of the guide's responses too")
    yield from _scores_of_a_model(settings, "a guide")
    if flags["train.async_enable"]:
        yield (
            "--train.async_enable does not work with a guide: the policy's and the guide's responses would reach "
            "training in different steps. Leave it out."
        )
    if flags["train.dynamic_batch_enable"]:
        yield (
            "--train.dynamic_batch_enable drops responses beyond --rollout.batch_size, such as the guide's: leave it "
            "out."
        )
    if guide.solutions and flags["train.agent_func_path"]:
        yield (
            "--guide.solutions are answers in a single turn, but --train.agent_func_path may take several: use "
            "--guide.model."
        )
    if guide.solutions and flags["data.max_images_per_prompt"] > 0:
        yield (
            "--guide.solutions are texts, which cannot follow a prompt with images: leave out "
            "--data.max_images_per_prompt, or use --guide.model."
        )
    if guide.ratio_shaping > 0 and flags["actor.policy_loss_type"] == "gspo":
        yield (
            "--guide.ratio_shaping shapes the ratios of single tokens, but --actor.policy_loss_type gspo has one "
            "ratio per response: leave it out."
        )
    if guide.supervised and guide.ratio_shaping > 0:
        yield (
            "--guide.ratio_shaping shapes a ratio, and --guide.objective supervised has none: leave one of them out."
        )
    if guide.supervised and (guide.mixes or not guide.rescues):
        yield (
            "--guide.objective supervised is for guide responses in a second batch, and --guide.when all puts them "
            "beside the policy's too: give --guide.when zero_reward."
        )
    if guide.weight != 1 and not guide.rescues:
        yield (
            "--guide.weight weights the second batch, which only --guide.when zero_reward makes: add zero_reward or "
            "leave the weight out."
        )
    if guide.solutions and not set(OF_A_MODEL).isdisjoint(changed):
        yield (
            f"--{' and --'.join(OF_A_MODEL)} belong to --guide.model, and --guide.solutions need no engines: leave "
            "them out."
        )
    if flags["train.colocate_all"] and gpus > bundles:
        yield (
            f"--guide.engines needs {gpus} GPUs, but --train.colocate_all shares the {bundles} of the policy: use "
            "fewer engines."
        )


def warnings(settings: Settings) -> list[str]:
    """One sentence for each doubtful choice."""
    flags, guide = settings.flags, settings.guide
    sentences = list(_signs_of_a_large_dose(settings))
    if flags["algo.kl.use_loss"] and flags["algo.kl.init_coef"] == 0:
        sentences.append(
            "--algo.kl.use_loss does nothing while --algo.kl.init_coef is 0: leave it out, or give a weight."
        )
    if flags["algo.kl.unbiased_gradient"] and not (flags["algo.kl.use_loss"] and flags["algo.kl.init_coef"] > 0):
        sentences.append(
            "--algo.kl.unbiased_gradient is the gradient of a KL loss, which this run has not: leave it out, or add "
            "--algo.kl.use_loss and a weight, --algo.kl.init_coef."
        )
    updates = settings.responses_a_step / flags["train.batch_size"] * flags["train.max_epochs"]
    if settings.estimator == "kl_cov" and updates <= 1:
        sentences.append(
            f"--train.batch_size is {flags['train.batch_size']} and a step has {settings.responses_a_step} responses, "
            "so each step is one update, of a policy that has not moved: KL-Cov's penalty is always 0, and this run "
            "is GRPO's. Lower --train.batch_size, as the paper does, for several updates a step."
        )
    others = []
    if guide is not None and guide.rescues:
        others.append("The second batch of --guide.when zero_reward adds updates whose number is not known in advance")
    if settings.updates_from is not None:
        others.append("--train.updates_from decides the number of updates, and the schedule does not follow it")
    if flags["actor.min_lr_ratio"] < 1:
        sentences += [
            f"{other}, so the learning rate, which falls with every update, may reach its end before the run does: "
            "--actor.min_lr_ratio 1 keeps it flat."
            for other in others
        ]
    return sentences


SMALL_SHARES = {"gtpo": ("token", "little", 0.0), "grpo_s": ("response", "half of the mean", 0.5)}
"""Estimator -> its unit, and a share of the class's reward, relative to the mean, that is small and yet usual. A token
that does not follow from what stands before gets next to nothing of a punishment where others do. The mean entropy of
a response is a mean over its tokens, so we take half of the mean for it."""
ONE_SIDED = 0.75
"""Share of a group in one class above which we call the group an exception."""


def _signs_of_a_large_dose(settings: Settings) -> Iterator[str]:
    """A dose of entropy with which usual groups have advantages of the other class's sign: the condition in the
    docstring of `shaping.gtpo`, for responses of equal length."""
    flags, estimator = settings.flags, settings.estimator
    alpha1, alpha2, size = (
        flags[name] for name in ("shaping.alpha1", "shaping.alpha2", "rollout.n_samples_per_prompt")
    )
    if estimator not in SMALL_SHARES or alpha2 == 0:
        return
    if flags["shaping.over"] == "class" or flags["shaping.weights"] == "uniform":
        return  # the one has a warning of its own, with the other all shares are equal
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
        return
    most = alpha1 * (1 - ONE_SIDED) / (ONE_SIDED - share)
    yield (
        f"--shaping.alpha2 is {alpha2:g} beside --shaping.alpha1 {alpha1:g}: in {where}, a {unit} that gets {little} "
        "of that class's reward has an advantage of the other class's sign (advantage/wrong_positive_share and "
        f"advantage/correct_negative_share count its tokens); with an alpha2 up to {most:.3g} that takes more than "
        "three quarters in one class."
    )
