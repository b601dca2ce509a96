"""The command line of training: OpenRLHF's flags and ours, read without OpenRLHF's imports, which take a quarter of a
minute. Ours are dotted like OpenRLHF's, so ``--shaping.alpha1`` is ``args.shaping.alpha1`` in every process."""

import argparse
import contextlib
import copy
import functools
import io
import math
import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, NoReturn

from math_reward import nearest
from math_reward.nearest import did_you_mean
from openrlhf_gtpo.device import choose_device
from openrlhf_gtpo.errors import SettingsError, reason
from openrlhf_gtpo.openrlhf_script import Script
from openrlhf_gtpo.registry import OTHER_NAMES, OURS

PROGRAM = "openrlhf-gtpo train"
MOST_AT_ONCE = 1024
"""The default of ``--vllm.max_num_seqs`` is never higher: vLLM's own limit for batches on large GPUs."""
SUPPORTED = ("0.11.2", "0.12")
"""Versions of OpenRLHF: from the first (included) to the second (excluded)."""
SIZES = (*(f"{role}.num_gpus_per_node" for role in ("actor", "ref", "critic", "reward")), "vllm.num_engines")
"""Flags whose defaults depend on the device."""
COUNTS = [*SIZES, *(f"{role}.num_nodes" for role in ("actor", "ref", "critic", "reward"))]
COUNTS += ["vllm.tensor_parallel_size", "ds.ring_attn_size", "ds.ring_attn_head_stride", "ds.tensor_parallel_size"]
COUNTS += ["rollout.batch_size", "rollout.micro_batch_size", "rollout.n_samples_per_prompt", "train.batch_size"]
COUNTS += ["train.micro_batch_size", "train.max_epochs", "train.num_episodes", "data.max_len", "data.max_samples"]
COUNTS += ["eval.n_samples_per_prompt", "logger.logging_steps", "ckpt.max_num", "train.async_queue_size"]
COUNTS += ["train.max_tokens_per_gpu", "rollout.max_tokens_per_gpu", "algo.kl.horizon", "ds.lora.alpha", "ds.zpg"]
"""Flags of OpenRLHF that are at least 1."""
PRESETS: Any = files("openrlhf_gtpo") / "presets"  # Python versions have its type in different modules
HIDDEN = "(hidden)@"
"""What stands in a run's record for the user and the password of a URL."""


RENAMED = {
    **{f"{role}_pretrain": f"{role}.model_name_or_path" for role in ("critic", "reward")},
    **{f"{role}_learning_rate": f"{role}.adam.lr" for role in ("actor", "critic")},
    "pretrain": "actor.model_name_or_path",
    "generate_max_len": "rollout.max_new_tokens",
    "prompt_max_len": "data.max_len",
    "save_path": "ckpt.output_dir",
    "load_checkpoint": "ckpt.load_enable",
    "bf16": "ds.param_dtype",
    "flash_attn": "ds.attn_implementation",
    "l2": "actor.adam.weight_decay",
    "use_wandb": "logger.wandb.enable",
    "enable_vllm_is_correction": "algo.advantage.is_correction_level",
    "vllm_is_truncated_threshold": "algo.advantage.is_correction_threshold",
    **dict.fromkeys(["ptx_coef", "actor_init_on_gpu", "perf"]),
}
"""Flags of OpenRLHF before 0.11 whose new names, None if there is none, are not like them."""


class FlagError(SettingsError):
    """A flag that does not exist, or a value that its flag does not take."""


class Parser(nearest.Parser):
    """A command's, which raises a FlagError where argparse's would exit."""

    renamed: ClassVar = {
        f"--{old}": f": since OpenRLHF 0.11 it is --{new}." if new else ": OpenRLHF 0.11 has it no more: leave it out."
        for old, new in RENAMED.items()
    }

    def error(self, message: str) -> NoReturn:
        raise FlagError(message if message[-1] in ".?" else f"{message}.")


class Formatter(argparse.HelpFormatter):
    """Shows the default of each flag that has one."""

    def _get_help_string(self, action: argparse.Action) -> str:
        text = action.help or ""
        if action.default in (None, False, argparse.SUPPRESS) or "default" in text:
            return text
        return f"{text} (default: %(default)s)"


class Help(argparse.Action):
    """``--help`` prints our flags, ``--help-all`` OpenRLHF's too."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        if self.option_strings != ["--help-all"]:
            parser._action_groups = [group for group in parser._action_groups if group.title in GROUPS]
            parser.epilog = (
                "OpenRLHF's own flags are taken too (--help-all lists them), such as --algo.advantage.estimator: "
                f"{', '.join(OURS)}, any of OpenRLHF's, or a function of your own, FILE.py:NAME."
            )
        parser.print_help()
        parser.exit()


def number(least: float, kind: type = float, most: float = math.inf, *, above: bool = False) -> Callable[[str], Any]:
    """A type for argparse: a number from ``least``, or above it, to ``most``."""

    def parse(text: str) -> Any:
        value = kind(text)
        if not (least < value if above else least <= value) or not value <= most or math.isinf(value):
            up_to = "" if math.isinf(most) else f" and at most {most}"
            raise argparse.ArgumentTypeError(f"{text} needs to be {'above' if above else 'at least'} {least}{up_to}")
        return value

    parse.__name__ = kind.__name__  # for argparse's messages
    return parse


MODES = ["lenient", "strict"]
MODE_HELP = (
    "where the reward service looks for the answer: strict in a box only, lenient in prose too (as the service is set)"
)
WEIGHT, COUNT, SECONDS = number(0), number(1, int), number(0, above=True)
SHARES = [f"{role}.{share}" for role in ("actor", "critic") for share in ("lr_warmup_ratio", "min_lr_ratio")]
RANGES = {
    **dict.fromkeys(COUNTS, COUNT),
    **dict.fromkeys([*SHARES, "train.ema_beta", "algo.advantage.gamma", "algo.advantage.lambd"], number(0, float, 1)),
    **dict.fromkeys(["actor.eps_clip", "actor.eps_clip_low_high", "critic.value_clip", "algo.kl.init_coef"], WEIGHT),
    **dict.fromkeys(["algo.kl.target", "reward.overlong_penalty_factor"], WEIGHT),
    "ds.zero_stage": number(0, int, 3),
    "ds.lora.rank": number(0, int),
    "vllm.gpu_memory_utilization": number(0, float, 1, above=True),
}
"""Flags of OpenRLHF -> their types, where a library would refuse other numbers late, or take them without sense."""
GROUPS = {
    "openrlhf-gtpo": "Group Token Policy Optimization (Tan et al., arXiv 2508.04349)",
    "openrlhf-gtpo guide": "Mixed-policy DAPO (Tan & Li, arXiv 2507.12931), a reconstruction from its abstract",
}
"""Our groups of flags -> what each is about."""
Add = Callable[..., Any]
"""`argparse.ArgumentParser.add_argument` of a group."""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add our flags to OpenRLHF's parser, and our estimators and precisions to its choices."""
    for action in parser._actions:
        _change(action)
    ours, guide = (parser.add_argument_group(*group).add_argument for group in GROUPS.items())
    for add_some in (_command, shaping_flags, _sizes, _rewards, _logs):
        add_some(ours)
    _guide(guide)


def _change(action: argparse.Action) -> None:
    """Change a flag of OpenRLHF's, if we do."""
    action.type = RANGES.get(action.dest, action.type)
    if action.dest in SIZES:
        action.help = f"{action.help or ''} (on a GPU {action.default}, on a CPU what is needed)".lstrip()
    if action.dest == "algo.advantage.estimator":
        action.type, action.choices = _estimator([*(action.choices or []), *OURS]), None
        action.help = f"{action.help}, {', '.join(OURS)}, or a function of your own: FILE.py:NAME"
    if action.dest == "ds.param_dtype":
        action.choices, action.default = ["auto", *(action.choices or []), "fp32"], "auto"
        action.help = "precision of the weights; auto is bf16, but fp32 on a CPU without bf16"
    if action.dest == "logger.wandb.key":
        action.help = "refused: --logger.wandb.enable takes the key from the environment"


# A table: each flag, and its help below.
# fmt: off
def _command(add: Add) -> None:
    add("-h", "--help", action=Help, nargs=0, default=argparse.SUPPRESS, help="print these flags")
    add("--help-all", action=Help, nargs=0, default=argparse.SUPPRESS, help="print all flags, OpenRLHF's too")
    add("--device", choices=["auto", "cpu", "gpu"], default="auto",
        help="where OpenRLHF's loop runs; auto takes the CPU where neither this machine nor the Ray cluster of "
        "RAY_ADDRESS has a GPU")
    add("--preset", metavar="NAME",
        help=f"the flags of an algorithm: {', '.join(presets())}; your own override it, --no-FLAG takes one back")
    add("--config", metavar="FILE.yaml",
        help="flags by name, as in the run.json of a run; the command line's override it")
    add("--dry-run", dest="dry_run", action="store_true", help="check the command line, print the plan, start nothing")


def shaping_flags(add: Add) -> None:
    add("--shaping.alpha1", type=WEIGHT, metavar="X", default=1.0, help="weight of correctness, beta1 for grpo_s")
    add("--shaping.alpha2", type=WEIGHT, metavar="X", default=0.1, help="weight of entropy, beta2 for grpo_s")
    add("--shaping.over", choices=["group", "class"], default="group",
        help="mean and std that normalise the shaped rewards (Eq. 6): of the whole scope, with 0 for the other class, "
        "or of each class by itself, which removes the difference between correct and wrong")
    add("--shaping.scope", choices=["group", "batch"], default="group",
        help="mean and std per group or over the batch")
    add("--shaping.until", choices=["end", "answer"], default="end",
        help="answer: tokens after the answer that was graded share their reward equally, and entropy distributes "
        "among those up to it; for gtpo, beyond the paper")
    add("--shaping.entropy_clip", type=WEIGHT, nargs=2, metavar=("LOW", "HIGH"),
        help="clamp entropies to [LOW, HIGH] nats before shaping")
    add("--shaping.grop", action="store_true",
        help="Group Relative Overlong Punishment (Appendix D): subtract up to 1/2 from the reward of responses that "
        "are long compared with their group; with any estimator")
    add("--shaping.top_entropy_share", type=number(0, float, 1, above=True), default=1.0, metavar="SHARE",
        help="forking tokens (Wang et al., arXiv 2506.01939, which uses 0.2): train on this share of a rollout "
        "batch's tokens, those of the highest entropy; with any estimator but grpo_s")
    add("--shaping.save_rollouts", type=number(0, int), default=0, metavar="N",
        help="write N groups of each step, token by token, to rollouts.jsonl beside the metrics")


def _sizes(add: Add) -> None:
    add("--train.max_steps", type=COUNT, metavar="N",
        help="stop after N steps (rollout batches), however many prompts dynamic filtering needs; the learning rate's "
        "schedule ends there too")
    add("--train.update_order", choices=["shuffle", "length"], default="shuffle",
        help="which responses of a step make an update with dynamic micro-batches: drawn ones, or as OpenRLHF has it "
        "by length, the longest and the shortest first")
    add("--rollout.over_sampling_batch_size", type=COUNT, metavar="N",
        help="prompts drawn at once for a step with dynamic filtering; those behind the first groups that are enough "
        "are cancelled and dropped (a step's prompts, and one more for each group that is filtered)")
    add("--vllm.max_num_seqs", type=COUNT, metavar="N",
        help=f"responses that an engine generates at once (its share of a batch, at most {MOST_AT_ONCE})")


def _rewards(add: Add) -> None:
    add("--reward.on_failure", choices=["retry", "drop_group", "stop"], default="retry",
        help="if a request for a reward fails: retry until --reward.deadline, then drop the whole group and draw "
        "another prompt; drop_group at the first failure; or retry and stop the run at the deadline")
    add("--reward.mode", choices=MODES, help=MODE_HELP)
    add("--reward.deadline", type=SECONDS, metavar="S", default=300.0,
        help="seconds of retries for one reward; a function of your own may take as long for one response")
    add("--reward.timeout", type=SECONDS, metavar="S", default=60.0,
        help="seconds for one request to the reward service")
    add("--reward.ca_file", metavar="FILE", help="a PEM file with the certificates of an https reward service")
    add("--reward.batch_size", type=COUNT, metavar="N", default=64,
        help="most responses in one request to a reward service; a reward model gets one in each")
    add("--reward.max_in_flight", type=COUNT, metavar="N", default=8,
        help="most requests that a rollout engine has open at once")


def _logs(add: Add) -> None:
    add("--logger.wandb.enable", action="store_true",
        help="log to wandb too, with the key of WANDB_API_KEY, or that `wandb login` left on the machine")
    add("--logger.metrics_path", metavar="FILE", help="file for the metrics (metrics.jsonl in --ckpt.output_dir)")


def _guide(add: Add) -> None:
    add("--guide.model", metavar="DIR_OR_ID", help="a frozen model with the policy's tokenizer, on its own engines")
    add("--guide.samples", type=COUNT, default=1, metavar="G'", help="guide responses for each prompt that gets any")
    add("--guide.when", nargs="+", choices=["all", "zero_reward"], default=["all"],
        help="all: every group in training gets guide responses (M1); zero_reward: groups whose responses are all "
        "wrong get them, and form a second batch instead of being dropped (M2); give one or both")
    add("--guide.weight", type=WEIGHT, default=1.0, metavar="LAMBDA", help="weight of the second batch")
    add("--guide.engines", type=COUNT, metavar="N", default=1, help="vLLM engines of the guide")
    add("--guide.tensor_parallel_size", type=COUNT, metavar="N", help="GPUs of each (as --vllm.tensor_parallel_size)")
# fmt: on


def _estimator(known: list[str]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        text = OTHER_NAMES.get(text, text)
        if text not in known and ".py:" not in text:
            near = did_you_mean(text, known, f"it is {', '.join(known)} or FILE.py:NAME").rstrip(".")
            raise argparse.ArgumentTypeError(f"there is no {text!r}{near}")
        return text

    return parse


def presets() -> list[str]:
    names = (entry.name for entry in PRESETS.iterdir())
    return sorted(name.removesuffix(".flags") for name in names if name.endswith(".flags") and name[0] != "_")


def preset_flags(name: str) -> list[list[str]]:
    """The flags of a preset and those of the paper's run, which all presets share: ``[["--shaping.grop"], ...]``.

    Raises:
        SettingsError: there is no such preset.
    """
    if name not in presets():
        raise SettingsError(f"--preset {name} does not exist{did_you_mean(name, presets(), ', '.join(presets()))}")
    texts = [(PRESETS / f"{part}.flags").read_text(encoding="utf-8") for part in ("_run", name)]
    return [words for line in "\n".join(texts).splitlines() if (words := shlex.split(line, comments=True))]


def expanded(words: Sequence[str], defaults: Mapping[str, Any]) -> list[str]:
    """A command line with the flags of its preset and its file before its own, which override them.

    Args:
        words: the command line.
        defaults: of all flags; a file's values that equal them are left out, since OpenRLHF has some that no words
            give, such as a text where a flag takes a list.

    Raises:
        SettingsError: the preset or the file cannot be used, or ``--no-FLAG`` takes back what no preset sets.
    """
    finder = Parser(add_help=False, allow_abbrev=False)
    finder.add_argument("--preset")
    finder.add_argument("--config")
    if path := finder.parse_known_args(words)[0].config:
        words = [*_flags_of_file(Path(path), defaults), *words]
    name = finder.parse_known_args(words)[0].preset
    taken_back = {f"--{word.removeprefix('--no-')}" for word in words if word.startswith("--no-")}
    lines = preset_flags(name) if name else []
    if unset := sorted(taken_back - {line[0] for line in lines}):
        raise SettingsError(f"--no-{unset[0][2:]} takes back {unset[0]}, which no --preset sets: leave it out.")
    kept = [word for line in lines if line[0] not in taken_back for word in line]
    return [*kept, *(word for word in words if not word.startswith("--no-"))]


def _flags_of_file(path: Path, defaults: Mapping[str, Any]) -> list[str]:
    """The words of a file of flags: YAML, flat or nested; a run.json's are under ``settings``."""
    import yaml  # type: ignore[import-untyped]

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingsError(f"--config {path} cannot be read: {reason(error)}{nearest.beside(path)}.") from None
    if not isinstance(content, dict):
        raise SettingsError(f"--config {path} holds no flags: write one a line, such as `shaping.alpha2: 0.1`.")
    if "settings" in content:  # a run's record, which has every flag
        content = {**content["settings"], "preset": None}
    words: list[str] = []
    for name, value in _flat(content).items():
        if value in (None, defaults.get(name)) or value is False:
            continue
        if isinstance(value, list):
            words += [f"--{name}", *map(str, value)]
        else:
            words.append(f"--{name}" if value is True else f"--{name}={value}")
    return words


def _flat(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in nested.items():
        values |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return values


def parser() -> Parser:
    """OpenRLHF's parser with our flags.

    Raises:
        SettingsError: OpenRLHF is not installed, or its script has no parser where 0.11 has it.
    """
    made: Any = Script().parser()
    made.__class__, made.allow_abbrev = Parser, False
    made.conflict_handler = "resolve"  # our --help in place of theirs
    add_flags(made)
    made.prog, made.formatter_class = PROGRAM, Formatter
    made.usage = (
        "%(prog)s --actor.model_name_or_path DIR_OR_ID --data.prompt_dataset FILE --data.label_key COLUMN "
        "[--preset NAME] [flags]"
    )
    return made


@functools.cache
def defaults() -> dict[str, Any]:
    """Of each flag."""
    return vars(parser().parse_args([]))


def check_version() -> None:
    """Make sure that OpenRLHF is one that the plugin was written for, and that no folder hides it.

    Raises:
        SettingsError: it is another, missing or hidden. The sentence says what to install, or where not to start.
    """
    from packaging.specifiers import SpecifierSet

    here = os.getcwd()
    for name in ("openrlhf", "vllm", "ray", "torch", "transformers", "deepspeed"):
        others = [folder for folder in sys.path if os.path.abspath(folder) != here]
        used, hidden = PathFinder.find_spec(name), PathFinder.find_spec(name, others)
        if used and hidden and used.origin != hidden.origin:
            raise SettingsError(
                f"The folder {name} in {here} hides the installed package {name}: start from another folder."
            )

    low, high = SUPPORTED
    try:
        installed = version("openrlhf")
    except PackageNotFoundError:
        installed = "none"
    if installed == "none" or installed not in SpecifierSet(f">={low},<{high}"):
        raise SettingsError(
            f'The plugin fits OpenRLHF {low}, but found {installed}: pip install "openrlhf>={low},<{high}".'
        )


def parse(words: Sequence[str], also: Sequence[str] = ()) -> Namespace:
    """OpenRLHF's flat flags and ours: ``vars(args)["algo.kl.init_coef"]``. The device is chosen; on a CPU the `SIZES`
    that were not given are None.

    Raises:
        SettingsError: one sentence for each fault.
        SystemExit: after ``--help``.
    """
    check_version()
    made = parser()
    made.also = also
    sizes = {name: made.get_default(name) for name in SIZES}
    made.set_defaults(**dict.fromkeys(SIZES))
    args = made.parse_args(expanded(words, {action.dest: action.default for action in made._actions}))
    for name, value in vars(args).items():
        if HIDDEN in str(value):
            raise SettingsError(
                f"--{name} is {value}, of a run's record, which hides a user and a password: give the flag on the "
                "command line with both."
            )
        if isinstance(value, str) and value.startswith("~"):  # which a shell leaves alone behind a =
            setattr(args, name, os.path.expanduser(value))
        if value == ["all-linear"]:  # which peft takes as a text alone
            setattr(args, name, "all-linear")
    args.device = choose_device(args.device)
    if args.device == "gpu":
        vars(args).update({name: size for name, size in sizes.items() if vars(args)[name] is None})
    return args


def completed(args: Namespace) -> SimpleNamespace:
    """OpenRLHF's nested ``args`` as its script gives them to ``train``: checked and completed by its own statements.

    Args:
        args: flat; not changed.

    Raises:
        AssertionError: the script refuses them.
    """
    return Script().completed(copy.deepcopy(args))


def openrlhfs_refusal(args: Namespace) -> str | None:
    """The sentence with which OpenRLHF's script would refuse this command line; None where it would train."""
    changes: dict[str, Any] = {"use_ms": False}  # else the script would import ModelScope and patch the hub's client
    if embedded(vars(args)):
        changes["reward.remote_url"] = "http://127.0.0.1"  # set when the service starts
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            completed(Namespace(**vars(args) | changes))
        except AssertionError as error:
            return f"OpenRLHF refuses this command line: {reason(error)}."
    return None


def embedded(flags: Mapping[str, Any]) -> bool:
    """Whether no source of rewards is named, so that the trainer starts the built-in service."""
    return not any(flags[name] for name in ("reward.remote_url", "train.agent_func_path", "reward.model_name_or_path"))


def missing(flags: Mapping[str, Any]) -> dict[str, str]:
    """Each flag that no run is without and that is not given -> what it names."""
    needed = {"actor.model_name_or_path": "the policy, a folder or a hub id", "data.prompt_dataset": "the prompts"}
    if embedded(flags):
        needed["data.label_key"] = "the column of reference answers, unless --reward.remote_url gives your own rewards"
    return {name: what for name, what in needed.items() if not flags[name]}


def service_urls(flags: Mapping[str, Any]) -> tuple[str, ...]:
    """The reward services that are named; empty where rewards come from elsewhere."""
    remote = flags["reward.remote_url"]
    if not remote or flags["train.agent_func_path"] or remote.endswith(".py"):
        return ()
    return tuple(url.strip() for url in remote.split(",") if url.strip())


def shares(flags: Mapping[str, Any]) -> dict[str, int]:
    """Each model that looks at a batch -> the number of processes that share it out."""
    elsewhere = flags["reward.remote_url"] or flags["train.agent_func_path"]
    roles = {
        "actor": True,
        "critic": flags["algo.advantage.estimator"] == "gae",
        "ref": flags["algo.kl.init_coef"] > 0,
        "reward": flags["reward.model_name_or_path"] and not elsewhere,
    }
    together = flags["ds.ring_attn_size"] * flags["ds.tensor_parallel_size"]
    used = (role for role, is_used in roles.items() if is_used)
    return {r: max(1, flags[f"{r}.num_nodes"] * flags[f"{r}.num_gpus_per_node"] // together) for r in used}


def whole_updates(flags: Mapping[str, Any]) -> int:
    """The number of responses that has to divide a batch.

    Then every update is a whole one of ``--train.batch_size``. And every rank gets the same number of responses, in
    micro-batches that are full or made by tokens: else ranks would wait for each other for ever.
    """
    processes = math.lcm(*shares(flags).values())
    each = 1 if processes == 1 or flags["train.dynamic_batch_enable"] else flags["rollout.micro_batch_size"]
    return math.lcm(flags["train.batch_size"], processes * each)


def responses_at_once(flags: Mapping[str, Any]) -> int:
    """Responses that an engine generates at once; by default its share of a batch."""
    prompts = flags["rollout.vllm_generate_batch_size"] or flags["rollout.batch_size"]
    if flags["algo.dynamic_filtering_enable"]:
        prompts = max(prompts, flags["rollout.over_sampling_batch_size"] or 0)
    share = math.ceil(prompts * flags["rollout.n_samples_per_prompt"] / flags["vllm.num_engines"])
    return flags["vllm.max_num_seqs"] or min(share, MOST_AT_ONCE)
