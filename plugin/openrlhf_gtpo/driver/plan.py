"""The plan of a run that ``--dry-run`` prints."""

from collections.abc import Sequence

from openrlhf_gtpo.algorithms.table import is_ours, line_of
from openrlhf_gtpo.controller.rollouts_file import expected
from openrlhf_gtpo.controller.schedule import schedule
from openrlhf_gtpo.driver import hours, memory
from openrlhf_gtpo.driver.disk import CHECKPOINT_BYTES, checkpoint_bytes
from openrlhf_gtpo.driver.model_size import model_named
from openrlhf_gtpo.settings import Settings
from openrlhf_gtpo.tables import aligned

NOT_FOR_A_CPU = "not estimated for a CPU: --device gpu plans the run on GPUs, GPU_GB=80 says how large they are"


def plan(settings: Settings, *, precision: str, overridden: Sequence[str]) -> str:
    """The plan as a table of two columns.

    Args:
        settings: of the command line, as checked.
        precision: of the weights, as a text for people.
        overridden: flags of the preset that the command line sets itself.
    """
    flags = settings.flags
    excepted = f", except {', '.join(overridden)}" if overridden else ""
    rows = [
        ("preset", f"{settings.preset or 'none'}{excepted}"),
        *_algorithm(settings),
        *_batch(settings),
        *_machines(settings, precision),
        *(_memory(settings) if settings.device == "gpu" else [("memory", NOT_FOR_A_CPU)]),
        ("policy", str(flags["actor.model_name_or_path"])),
        ("data", str(flags["data.prompt_dataset"])),
        *_rewards(settings),
        ("output", str(flags["ckpt.output_dir"])),
        *_disk(settings),
    ]
    return aligned(rows)


def _algorithm(settings: Settings) -> list[tuple[str, str]]:
    flags = settings.flags
    low, high = flags["actor.eps_clip_low_high"] or (flags["actor.eps_clip"],) * 2
    kl = "none"
    if flags["algo.kl.init_coef"] > 0:
        kl = f"{flags['algo.kl.init_coef']:g}, {'in the loss' if flags['algo.kl.use_loss'] else 'in the reward'}"
    extras = []
    if flags["algo.dynamic_filtering_enable"]:
        extras.append("dynamic filtering")
    if flags["reward.overlong_buffer_len"]:
        extras.append(f"overlong penalty over the last {flags['reward.overlong_buffer_len']:g} tokens")
    if settings.punishes_length:
        extras.append("group relative overlong punishment")
    if settings.top_entropy_share < 1:
        extras.append(f"gradient of the top {settings.top_entropy_share:.0%} of tokens by entropy")
    estimator = settings.estimator
    if (line := line_of(estimator)) and is_ours(estimator):
        own = [(flag.option, flags[flag.name]) for flag in line.all_flags]
        estimator += "".join(f", {option} {value}" for option, value in own if value is not None)
    return [
        ("estimator", estimator),
        ("clip", f"{low:g} below, {high:g} above"),
        ("KL", kl),
        ("besides", "; ".join(extras) or "nothing"),
    ]


def _batch(settings: Settings) -> list[tuple[str, str]]:
    flags = settings.flags
    prompts, samples = flags["rollout.batch_size"], flags["rollout.n_samples_per_prompt"]
    updates = prompts * samples / flags["train.batch_size"] * flags["train.max_epochs"]
    number = (
        f"{updates:g} a step" if settings.updates_from is None else f"as many a step as in {settings.updates_from}"
    )
    longest = "as many" if flags["rollout.max_new_tokens"] is None else f"{flags['rollout.max_new_tokens']:,}"
    return [
        ("rollout", f"{prompts:,} prompts x {samples} responses = {prompts * samples:,} a step"),
        *_guide(settings),
        ("updates", f"{number}, of {flags['train.batch_size']:,} responses"),
        *_learning(settings),
        ("lengths", f"up to {flags['data.max_len']:,} tokens in all, {longest} of them a response's"),
    ]


def _guide(settings: Settings) -> list[tuple[str, str]]:
    guide = settings.guide
    if guide is None:
        return []
    whom = ["every group"] if guide.mixes else []
    if guide.rescues:
        learned = ", learned by cross-entropy" if guide.supervised else ""
        whom.append(f"groups that are all wrong, as a second batch of weight {guide.weight:g}{learned}")
    who = f"{guide.model} on {guide.engines} engine(s)" if guide.model else str(guide.solutions)
    return [("guide", f"{who}: {guide.samples} response(s) more to {' and to '.join(whom)}")]


def _learning(settings: Settings) -> list[tuple[str, str]]:
    """The number of steps and updates, and the learning rate along them."""
    flags = settings.flags
    most, highest = settings.max_steps, f"{flags['actor.adam.lr']:g}"
    learning = schedule(settings.nested())
    if learning is None:
        share = f"{flags['actor.lr_warmup_ratio']:.0%} of all updates"
        steps = "until the prompts are used up" if most is None else f"{most:,} at most"
        return [("steps", steps), ("learning rate", f"{highest}, {flags['actor.lr_scheduler']}, warm-up {share}")]
    rates = ", ".join(f"{rate:.3g} in step {step:,}" for step, rate in learning.rates.items())
    return [
        ("steps", f"{most:,} at most, in which {learning.updates:,} updates"),
        ("warm-up", f"{learning.warmup:,} updates"),
        ("learning rate", f"{highest}, {flags['actor.lr_scheduler']}: {rates}"),
    ]


def _machines(settings: Settings, precision: str) -> list[tuple[str, str]]:
    flags = settings.flags
    ranks = flags["actor.num_nodes"] * flags["actor.num_gpus_per_node"]
    tensor_parallel = flags["vllm.tensor_parallel_size"]
    engines = flags["vllm.num_engines"] or 0
    kind = "GPU" if settings.device == "gpu" else "process"
    return [
        ("device", settings.device),
        ("precision", precision),
        ("training", f"{ranks} {kind}(s), ZeRO stage {flags['ds.zero_stage']}"),
        ("generation", f"{engines} engine(s) of {tensor_parallel} {kind}(s)"),
        ("at once", f"{settings.responses_at_once:,} responses in each engine"),
        ("prefill", _prefill(settings)),
    ]


def _prefill(settings: Settings) -> str:
    """How often each prompt's keys and values are computed. OpenRLHF sends a prompt's responses to one engine."""
    flags = settings.flags
    if flags["vllm.enable_prefix_caching"]:
        return "each prompt once, since its responses share its cache"
    times, most = flags["rollout.n_samples_per_prompt"], flags["rollout.max_new_tokens"]
    told = f"each prompt {times} times, once with --vllm.enable_prefix_caching"
    if most is None:
        return told
    tokens = flags["rollout.batch_size"] * times * (flags["data.max_len"] - most)
    return f"{told}: at most {tokens:,} prompt tokens a step in place of {tokens // times:,}"


def _memory(settings: Settings) -> list[tuple[str, str]]:
    """The memory that the run needs on this machine's GPUs, else on GPUs of GPU_GB, else of 80 GiB; and the hours."""
    flags = settings.flags
    model = model_named(str(flags["actor.model_name_or_path"]))
    if model is None:
        return [("memory", "not known: this machine has no config.json of the model, or the model is of another kind")]
    needed = memory.need(model, settings, memory.gpu_bytes())
    told = memory.rows(needed, settings) + [("warning", said) for said in memory.warnings(needed, settings)]
    return told + hours.rows(model, settings)


def _disk(settings: Settings) -> list[tuple[str, str]]:
    """What the run writes that is large: checkpoints and saved groups."""
    flags = settings.flags
    told = []
    model = model_named(str(flags["actor.model_name_or_path"]))
    if model is not None and (room := checkpoint_bytes(model.parameters, settings)):
        each, most = CHECKPOINT_BYTES * model.parameters, flags["ckpt.max_num"]
        told.append(f"{room / 1e9:,.0f} GB in {flags['ckpt.path']}: {most} checkpoint(s) of {each / 1e9:,.1f} GB")
    if groups := expected(settings):
        told.append(f"rollouts.jsonl: {groups}")
    return [("disk" if place == 0 else "", sentence) for place, sentence in enumerate(told)]


def _rewards(settings: Settings) -> list[tuple[str, str]]:
    flags = settings.flags
    if given := flags["reward.remote_url"]:
        if not given.endswith(".py"):
            return [("rewards", given), ("", "a dry run does not ask it: openrlhf-gtpo doctor does")]
        estimator = line_of(settings.estimator)
        needs = "; its scores have to be 0 or 1" if estimator and estimator.needs_correctness else ""
        return [("rewards", given), ("", f"a dry run does not call it{needs}")]
    if flags["train.agent_func_path"]:
        return [("rewards", f"agent {flags['train.agent_func_path']}")]
    if flags["reward.model_name_or_path"]:
        return [("rewards", f"reward model {flags['reward.model_name_or_path']}")]
    return [("rewards", "the built-in reward service")]
