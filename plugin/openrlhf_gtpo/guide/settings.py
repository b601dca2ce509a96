"""The flags ``--guide.*``: a frozen guide beside the policy, and how training uses its responses."""

import argparse
import math
from dataclasses import dataclass
from typing import Any

from openrlhf_gtpo.algorithms.table import ESTIMATORS

__all__ = ["GuideSettings", "add_guide_flags", "guide_refusals", "guide_warnings"]

WHEN = ("all", "zero_reward")
DEFAULTS: dict[str, Any] = {
    "guide.samples": 1,
    "guide.when": ["all"],
    "guide.weight": 1.0,
    "guide.engines": 1,
    "guide.tensor_parallel_size": None,
    "guide.ratio_shaping": 0.0,
}
OF_A_MODEL = ("guide.engines", "guide.tensor_parallel_size")


@dataclass(frozen=True)
class GuideSettings:
    """Settings of a guide; `add_guide_flags` describes each."""

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

    @classmethod
    def of_flags(cls, flags: dict[str, Any]) -> "GuideSettings | None":
        """From OpenRLHF's flat flags; None without a guide, or with one of 0 samples."""
        model, solutions, samples = (flags[f"guide.{name}"] for name in ("model", "solutions", "samples"))
        if samples == 0 or not (model or solutions):
            return None
        return cls(
            model=model,
            solutions=solutions,
            samples=samples,
            mixes="all" in flags["guide.when"],
            rescues="zero_reward" in flags["guide.when"],
            weight=flags["guide.weight"],
            engines=flags["guide.engines"] if model else 0,
            tensor_parallel_size=flags["guide.tensor_parallel_size"] or flags["vllm.tensor_parallel_size"],
            ratio_shaping=flags["guide.ratio_shaping"],
        )

    @classmethod
    def of(cls, args: Any) -> "GuideSettings | None":
        """From OpenRLHF's nested ``args``."""
        flags = {f"guide.{name}": value for name, value in vars(args.guide).items()}
        return cls.of_flags({**flags, "vllm.tensor_parallel_size": args.vllm.tensor_parallel_size})


def add_guide_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags to OpenRLHF's parser."""
    group = parser.add_argument_group(
        "openrlhf-gtpo guide",
        "Mixed-policy DAPO (Tan & Li, arXiv 2507.12931). It is a reconstruction: the paper's printed objectives could "
        "not be obtained.",
    )
    group.add_argument(
        "--guide.model",
        type=str,
        default=None,
        metavar="DIR_OR_ID",
        help="a frozen model with the policy's tokenizer that answers prompts too, on its own vLLM engines; on its "
        "tokens the loss uses the ratio of the policy's probability to the guide's (default: none)",
    )
    group.add_argument(
        "--guide.solutions",
        type=str,
        default=None,
        metavar="FILE.jsonl",
        help="worked solutions instead of a model: rows with the prompt under --data.input_key and the text, or a "
        "list of texts, under 'solution'; the ratio is the policy's own probability, as in LUFFY (arXiv 2504.14945) "
        "(default: none)",
    )
    group.add_argument(
        "--guide.samples",
        type=int,
        default=DEFAULTS["guide.samples"],
        metavar="G'",
        help="guide responses for each prompt that gets any; 0 runs without a guide (default: 1)",
    )
    group.add_argument(
        "--guide.when",
        nargs="+",
        choices=WHEN,
        default=DEFAULTS["guide.when"],
        help="all: every group in training gets guide responses (M1); zero_reward: groups whose responses are all "
        "wrong get them, and form a second batch instead of being dropped (M2); give one or both (default: all)",
    )
    group.add_argument(
        "--guide.weight",
        type=float,
        default=DEFAULTS["guide.weight"],
        metavar="LAMBDA",
        help="weight of the second batch, whose loss is a mean over its own tokens (default: 1.0)",
    )
    group.add_argument(
        "--guide.engines", type=int, default=DEFAULTS["guide.engines"], help="vLLM engines of the guide (default: 1)"
    )
    group.add_argument(
        "--guide.tensor_parallel_size",
        type=int,
        default=DEFAULTS["guide.tensor_parallel_size"],
        help="GPUs of each engine of the guide (default: as --vllm.tensor_parallel_size)",
    )
    group.add_argument(
        "--guide.ratio_shaping",
        type=float,
        default=DEFAULTS["guide.ratio_shaping"],
        metavar="GAMMA",
        help="replace the ratio r of guide tokens by r / (r + GAMMA), so that tokens unlikely under the policy are "
        "learned too (LUFFY's policy shaping, which uses 0.1; default: 0, off)",
    )


def guide_refusals(flags: dict[str, Any]) -> list[str]:
    """Faults of the guide's flags, one sentence each, from OpenRLHF's flat namespace."""
    found = _bounds(flags)
    if not (flags["guide.model"] or flags["guide.solutions"]):
        idle = [f"--{name}" for name, default in DEFAULTS.items() if flags[name] != default]
        if idle:
            found.append(f"{', '.join(idle)} would do nothing: name a guide by --guide.model or --guide.solutions.")
        return found
    if flags["guide.model"] and flags["guide.solutions"]:
        found.append("--guide.model and --guide.solutions are two guides: give one.")
    if flags["guide.samples"] == 0:
        return found
    estimator = flags["algo.advantage.estimator"]
    colocated = flags["train.colocate_all"]
    bundles = flags["actor.num_nodes"] * flags["actor.num_gpus_per_node"]
    gpus = flags["guide.engines"] * (flags["guide.tensor_parallel_size"] or flags["vllm.tensor_parallel_size"])
    rules = [
        (
            estimator not in ESTIMATORS,
            f"--algo.advantage.estimator {estimator} cannot compute advantages over the policy's and the guide's "
            f"responses together: use one of {', '.join(ESTIMATORS)} with a guide.",
        ),
        (
            flags["algo.kl.init_coef"] > 0 and not flags["algo.kl.use_loss"],
            f"--algo.kl.init_coef is {flags['algo.kl.init_coef']} without --algo.kl.use_loss, which would subtract KL "
            "from the rewards of the guide's responses too: set --algo.kl.init_coef 0 or add --algo.kl.use_loss.",
        ),
        (
            flags["train.async_enable"],
            "--train.async_enable does not work with a guide: the policy's and the guide's responses would reach "
            "training in different steps. Leave it out.",
        ),
        (
            flags["train.dynamic_batch_enable"],
            "--train.dynamic_batch_enable drops responses beyond --rollout.batch_size, such as the guide's: leave it "
            "out.",
        ),
        (
            flags["reward.model_name_or_path"] is not None and not flags["reward.remote_url"],
            "--reward.model_name_or_path gives a model's scores, but a guide needs verified correctness: use "
            "--reward.remote_url, or leave both out for the built-in reward service.",
        ),
        (
            bool(flags["guide.solutions"] and flags["train.agent_func_path"]),
            "--guide.solutions are answers in a single turn, but --train.agent_func_path may take several: use "
            "--guide.model.",
        ),
        (
            bool(flags["guide.solutions"]) and flags.get("data.max_images_per_prompt", 0) > 0,
            "--guide.solutions are texts, which cannot follow a prompt with images: leave out "
            "--data.max_images_per_prompt, or use --guide.model.",
        ),
        (
            flags["guide.ratio_shaping"] > 0 and flags["actor.policy_loss_type"] == "gspo",
            "--guide.ratio_shaping shapes the ratios of single tokens, but --actor.policy_loss_type gspo has one "
            "ratio per response: leave it out.",
        ),
        (
            flags["guide.weight"] != DEFAULTS["guide.weight"] and "zero_reward" not in flags["guide.when"],
            "--guide.weight weights the second batch, which only --guide.when zero_reward makes: add zero_reward or "
            "leave the weight out.",
        ),
        (
            bool(flags["guide.solutions"]) and any(flags[name] != DEFAULTS[name] for name in OF_A_MODEL),
            f"--{' and --'.join(OF_A_MODEL)} belong to --guide.model, and --guide.solutions need no engines: leave "
            "them out.",
        ),
        (
            bool(flags["guide.model"]) and colocated and gpus > bundles,
            f"--guide.engines needs {gpus} GPUs, but --train.colocate_all shares the {bundles} of the policy: use "
            "fewer engines.",
        ),
    ]
    return found + [sentence for broken, sentence in rules if broken]


def whole_updates(args: Any) -> int:
    """The number of responses that has to divide a batch, so that it fills optimiser updates of ``--train.batch_size``
    and gives every rank the same number of micro-batches.

    Args:
        args: OpenRLHF's nested ``args``.
    """
    ranks = args.actor.num_nodes * args.actor.num_gpus_per_node
    ranks //= args.ds.ring_attn_size * args.ds.tensor_parallel_size
    return math.lcm(args.train.batch_size, args.rollout.micro_batch_size * ranks)


def guide_warnings(flags: dict[str, Any]) -> list[str]:
    """Warnings about these flags, one sentence each."""
    guide = GuideSettings.of_flags(flags)
    if guide is None or not guide.rescues or flags["actor.min_lr_ratio"] >= 1:
        return []
    return [
        "The second batch of --guide.when zero_reward adds updates whose number is not known in advance, so the "
        "learning rate, which falls with every update, reaches its end before the run does: --actor.min_lr_ratio 1 "
        "keeps it flat."
    ]


def _bounds(flags: dict[str, Any]) -> list[str]:
    found = []
    if flags["guide.samples"] < 0:
        found.append(f"--guide.samples is {flags['guide.samples']}, but a number of responses is 0 or more.")
    for name in ("guide.weight", "guide.ratio_shaping"):
        if not (math.isfinite(flags[name]) and flags[name] >= 0):
            found.append(f"--{name} is {flags[name]}, but needs to be a number from 0 up.")
    for name in ("guide.engines", "guide.tensor_parallel_size"):
        if flags[name] is not None and flags[name] < 1:
            found.append(f"--{name} is {flags[name]}, but needs to be at least 1.")
    return found
