"""Our flags, each declared once: name, type, default, help, and the bounds of its value.

They are added to OpenRLHF's parser: ``--help`` shows them in groups of their own. The flags of estimators are in
`openrlhf_gtpo.algorithms.table`. `openrlhf_gtpo.settings.Settings` reads them."""

import argparse
import math

from openrlhf_gtpo.algorithms.table import (
    A_SHARE,
    A_WEIGHT,
    AT_LEAST_ONE,
    ESTIMATORS,
    Bounds,
    Flag,
    estimator_flags,
    flag,
    ours,
)
from openrlhf_gtpo.driver import presets
from openrlhf_gtpo.settings import MOST_AT_ONCE


def _at_least(least: float, rule: str) -> Bounds:
    return lambda value: least <= value < math.inf, rule


def _above(least: float, rule: str) -> Bounds:
    return lambda value: least < value < math.inf, rule


DRIVER = (
    flag(
        "device",
        "where OpenRLHF's loop runs; auto takes the CPU platform where neither this machine nor the Ray cluster "
        "of RAY_ADDRESS has a GPU",
        choices=["auto", "cpu", "gpu"],
        default="auto",
    ),
    flag(
        "preset",
        f"the flags of an algorithm: {', '.join(presets.names())}. Your own flags override it, --no-FLAG "
        "removes a switch of it, --show prints it",
        metavar="NAME",
    ),
    flag(
        "dry-run",
        "check the command line, print the plan of the run, and start nothing",
        dest="dry_run",
        action="store_true",
    ),
    flag(
        "price",
        "with --dry-run: what an hour of a GPU costs, in any currency, for the plan's estimate of the run's",
        _above(0, "needs to be above 0"),
        type=float,
        metavar="PER_GPU_HOUR",
    ),
)

OF_THE_BONUS = (  # defaults as TRL's
    flag(
        "actor.entropy_coef_delta",
        "with --actor.entropy_target: step of the bonus's coefficient",
        _above(0, "needs to be above 0"),
        type=float,
        default=0.005,
    ),
    flag("actor.entropy_coef_min", "with --actor.entropy_target: lowest coefficient", type=float, default=0.0),
    flag("actor.entropy_coef_max", "with --actor.entropy_target: highest coefficient", type=float, default=1.0),
)
"""Flags of the entropy bonus's controller."""

TRAINING = (
    flag(
        "shaping.grop",
        "Group Relative Overlong Punishment (Appendix D): subtract up to 1/2 from the reward of responses that "
        "are long compared with their group; with any estimator",
        action="store_true",
    ),
    flag(
        "shaping.top_entropy_share",
        "forking tokens (Wang et al., arXiv 2506.01939, which uses 0.2): train on this share of a rollout batch's"
        " tokens, those of the highest entropy; with any estimator but grpo_s (default: 1.0, all)",
        A_SHARE,
        type=float,
        default=1.0,
        metavar="SHARE",
    ),
    flag(
        "shaping.save_rollouts",
        "at every step write N groups of responses with each token's entropy, shaped reward and advantage to "
        "rollouts.jsonl beside the metrics, which above 1 GB keeps fewer steps",
        _at_least(0, "a number of groups is 0 or more"),
        type=int,
        default=0,
        metavar="N",
    ),
    flag(
        "actor.entropy_target",
        "an entropy bonus that a controller holds (huggingface/trl#6140): after an update whose mean entropy is "
        "at most this, --actor.entropy_coef goes up by --actor.entropy_coef_delta and is applied; else it goes "
        "down and is not applied (default: off; TRL's is 0.2)",
        _above(0, "needs to be above 0, in nats"),
        type=float,
        metavar="NATS",
    ),
    *OF_THE_BONUS,
    flag(
        "rollout.top_k",
        "sample each token from the N likeliest, before --rollout.top_p, also in evaluations during training "
        "(default: from all). With importance correction ratios are over the tokens that both keep",
        AT_LEAST_ONE,
        type=int,
        metavar="N",
    ),
    flag(
        "train.max_steps",
        "stop after N steps (rollout batches), however many prompts dynamic filtering needs; the learning rate's "
        "schedule ends there too (default: when the prompts of all episodes are used up)",
        _at_least(1, "training takes at least 1 step"),
        type=int,
        metavar="N",
    ),
    flag(
        "train.updates_from",
        "make as many optimiser updates in every step as another run did, by its metrics.jsonl: whole passes over the "
        "step's responses, then the part of a pass that is missing (a control for methods that make more updates; "
        "default: --train.max_epochs passes)",
        metavar="METRICS.jsonl",
    ),
    flag(
        "vllm.max_num_seqs",
        "responses that an engine generates at once; the rest of a batch waits (default: an engine's "
        f"whole share of a batch, at most {MOST_AT_ONCE:,})",
        AT_LEAST_ONE,
        type=int,
        metavar="N",
    ),
    flag(
        "reward.on_failure",
        "if a request for a reward fails: retry until --reward.deadline, then drop the whole group and draw "
        "another prompt; drop_group at the first failure; or retry and stop the run at the deadline",
        choices=["retry", "drop_group", "stop"],
        default="retry",
    ),
    flag(
        "reward.deadline",
        "seconds of retries for one reward (default: 300)",
        _above(0, "needs a number of seconds above 0"),
        type=float,
        default=300.0,
    ),
    flag(
        "reward.timeout",
        "seconds for one request to the reward service (default: 60)",
        _above(0, "needs a number of seconds above 0"),
        type=float,
        default=60.0,
    ),
    flag(
        "reward.ca_file",
        "a PEM file with the certificates that an https reward service may have its own from; every node needs it"
        " (default: the system's)",
        metavar="FILE",
    ),
    flag("reward.batch_size", "most responses in one request", AT_LEAST_ONE, type=int, default=64),
    flag(
        "reward.max_in_flight",
        "most requests that a rollout engine has open at once",
        AT_LEAST_ONE,
        type=int,
        default=8,
    ),
    flag(
        "logger.wandb.enable",
        "log to wandb too, with the key that WANDB_API_KEY has, or `wandb login` left on the machine",
        action="store_true",
    ),
    flag(
        "logger.metrics_path",
        "file for the metrics, one JSON object per step (default: metrics.jsonl in --ckpt.output_dir)",
        type=str,
    ),
)

GUIDE = (
    flag(
        "guide.model",
        "a frozen model with the policy's tokenizer that answers prompts too, on its own vLLM engines; on its "
        "tokens the loss uses the ratio of the policy's probability to the guide's",
        metavar="DIR_OR_ID",
    ),
    flag(
        "guide.solutions",
        "worked solutions instead of a model: rows with the prompt under --data.input_key and the text, or a list"
        " of texts, under 'solution'; the ratio is the policy's own probability, as in LUFFY (arXiv 2504.14945)",
        metavar="FILE.jsonl",
    ),
    flag(
        "guide.samples",
        "guide responses for each prompt that gets any; 0 runs without a guide",
        _at_least(0, "a number of responses is 0 or more"),
        type=int,
        default=1,
        metavar="G'",
    ),
    flag(
        "guide.when",
        "all: every group in training gets guide responses (M1); zero_reward: groups whose responses are all "
        "wrong get them, and form a second batch instead of being dropped (M2); give one or both",
        nargs="+",
        choices=["all", "zero_reward"],
        default=["all"],
    ),
    flag(
        "guide.weight",
        "weight of the second batch, whose loss is a mean over its own tokens",
        A_WEIGHT,
        type=float,
        default=1.0,
        metavar="LAMBDA",
    ),
    flag("guide.engines", "vLLM engines of the guide", AT_LEAST_ONE, type=int, default=1),
    flag(
        "guide.tensor_parallel_size",
        "GPUs of each engine of the guide (default: as --vllm.tensor_parallel_size)",
        AT_LEAST_ONE,
        type=int,
    ),
    flag(
        "guide.ratio_shaping",
        "replace the ratio r of guide tokens by r / (r + GAMMA), so that tokens unlikely under the policy are "
        "learned too (LUFFY's policy shaping, which uses 0.1; default: 0, off)",
        _at_least(0, "needs to be a number from 0 up"),
        type=float,
        default=0.0,
        metavar="GAMMA",
    ),
    flag(
        "guide.objective",
        "what the second batch learns; ratio: all its responses, by their advantages and clipped ratios; supervised: "
        "the guide's correct responses alone, by cross-entropy, in as many updates (a control, default: ratio)",
        choices=["ratio", "supervised"],
        default="ratio",
    ),
)
"""A frozen guide beside the policy, and how training uses its responses."""

COUNTS = (
    "actor.num_nodes",
    "actor.num_gpus_per_node",
    "vllm.tensor_parallel_size",
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
)
OPENRLHFS = (
    *(Flag(name, {}, *AT_LEAST_ONE) for name in COUNTS),
    Flag("ds.zero_stage", {}, lambda stage: 0 <= stage <= 3, "DeepSpeed has the stages 0 to 3"),
)
"""Bounds of OpenRLHF's flags, which its parser adds itself."""


def all_flags() -> list[Flag]:
    """Ours but for the guide's. A function, since a program may add estimators to the table."""
    return [*DRIVER, *estimator_flags(), *TRAINING]


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add our flags to OpenRLHF's parser and our estimators to its choices."""
    for action in parser._actions:
        if action.dest == "algo.advantage.estimator":
            action.choices = [*(action.choices or []), *ours()]
            action.help = f"{action.help}, " + "; ".join(f"{name}: {ESTIMATORS[name].sentence}" for name in ours())
            action.help += "; FILE.py:NAME: one of your own"
        if action.dest == "ds.param_dtype":
            action.choices, action.default = ["auto", *(action.choices or []), "fp32"], "auto"
            action.help = "precision of the weights; auto is bf16, but fp32 on a CPU without bf16 (default: auto)"
        if action.dest == "vllm.num_engines":
            action.help = "vLLM engines that generate, at least 1 (required; default on a CPU: 1)"
        if action.dest == "logger.wandb.key":
            action.help = "refused: --logger.wandb.enable takes the key from the environment"
        if action.dest.endswith(".num_gpus_per_node"):
            action.help = f"{action.help} (default: {action.default}; on a CPU 1 logical GPU)"
    group = parser.add_argument_group(
        "openrlhf-gtpo", "Group Token Policy Optimization (Tan et al., arXiv 2508.04349)"
    )
    for one in all_flags():
        group.add_argument(f"--{one.name}", **one.options)
    group = parser.add_argument_group(
        "openrlhf-gtpo guide",
        "Mixed-policy DAPO (Tan & Li, arXiv 2507.12931). It is a reconstruction: the paper's printed objectives could "
        "not be obtained.",
    )
    for one in GUIDE:
        group.add_argument(f"--{one.name}", **one.options)
