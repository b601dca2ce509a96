"""Our command-line flags: names, defaults and help.

They are added to OpenRLHF's parser: ``--help`` shows them in a group of their own, and ``--shaping.alpha1`` is
``args.shaping.alpha1`` in every process. `openrlhf_gtpo.driver.refusals` checks them before anything starts."""

import argparse
import os

from openrlhf_gtpo.algorithms.table import ESTIMATORS, estimator_flags, ours
from openrlhf_gtpo.driver import presets
from openrlhf_gtpo.guide.settings import add_guide_flags
from openrlhf_gtpo.settings import MOST_AT_ONCE

__all__ = ["add_flags", "make_paths_absolute", "openrlhfs_precision"]

ENTROPY_BONUS = {"actor.entropy_coef_delta": 0.005, "actor.entropy_coef_min": 0.0, "actor.entropy_coef_max": 1.0}
"""Defaults of the entropy bonus's controller, which are TRL's."""

ON_FAILURE = ("retry", "drop_group", "stop")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add our flags to OpenRLHF's parser and our estimators to its choices."""
    for action in parser._actions:
        if action.dest == "algo.advantage.estimator":
            action.choices = [*(action.choices or []), *ours()]
            action.help = f"{action.help}, " + "; ".join(f"{name}: {ESTIMATORS[name].sentence}" for name in ours())
        if action.dest == "ds.param_dtype":
            action.choices, action.default = ["auto", *(action.choices or []), "fp32"], "auto"
            action.help = "precision of the weights; auto is bf16, but fp32 on a CPU without bf16 (default: auto)"
        if action.dest == "vllm.num_engines":
            action.help = "vLLM engines that generate, at least 1 (required; default on a CPU: 1)"
        if action.dest.endswith(".num_gpus_per_node"):
            action.help = f"{action.help} (default: {action.default}; on a CPU 1 logical GPU)"
    group = parser.add_argument_group(
        "openrlhf-gtpo", "Group Token Policy Optimization (Tan et al., arXiv 2508.04349)"
    )
    group.add_argument(
        "--device",
        choices=["auto", "cpu", "gpu"],
        default="auto",
        help="where OpenRLHF's loop runs; auto takes the CPU platform where neither this machine nor the Ray cluster "
        "of RAY_ADDRESS has a GPU (default: auto)",
    )
    group.add_argument(
        "--preset",
        metavar="NAME",
        default=None,
        help=f"the flags of an algorithm: {', '.join(presets.names())}. Your own flags override it, --no-FLAG removes "
        "a switch of it, --show prints it (default: none)",
    )
    group.add_argument(
        "--dry-run",
        dest="dry_run",
        action="store_true",
        help="check the command line, print the plan of the run, and start nothing",
    )
    for flag in estimator_flags():
        group.add_argument(f"--{flag.name}", **flag.options)
    group.add_argument(
        "--shaping.grop",
        action="store_true",
        help="Group Relative Overlong Punishment (Appendix D): subtract up to 1/2 from the reward of responses that "
        "are long compared with their group; with any estimator (default: off)",
    )
    group.add_argument(
        "--shaping.top_entropy_share",
        type=float,
        default=1.0,
        metavar="SHARE",
        help="forking tokens (Wang et al., arXiv 2506.01939, which uses 0.2): train on this share of a rollout "
        "batch's tokens, those of the highest entropy; with any estimator but grpo_s (default: 1.0, all)",
    )
    group.add_argument(
        "--shaping.save_rollouts",
        type=int,
        default=0,
        metavar="N",
        help="at every step write N groups of responses with each token's entropy, shaped reward and advantage to "
        "rollouts.jsonl beside the metrics, which above 1 GB keeps fewer steps (default: 0)",
    )
    group.add_argument(
        "--actor.entropy_target",
        type=float,
        default=None,
        metavar="NATS",
        help="an entropy bonus that a controller holds (huggingface/trl#6140): after an update whose mean entropy is "
        "at most this, --actor.entropy_coef goes up by --actor.entropy_coef_delta and is applied; else it goes down "
        "and is not applied (default: off; TRL's is 0.2)",
    )
    texts = ("step of the bonus's coefficient", "lowest coefficient", "highest coefficient")
    for (name, default), text in zip(ENTROPY_BONUS.items(), texts, strict=True):
        group.add_argument(
            f"--{name}",
            type=float,
            default=default,
            help=f"with --actor.entropy_target: {text} (default: {default})",
        )
    group.add_argument(
        "--train.max_steps",
        type=int,
        default=None,
        metavar="N",
        help="stop after N steps (rollout batches), however many prompts dynamic filtering needs; the learning rate's "
        "schedule ends there too (default: when the prompts of all episodes are used up)",
    )
    group.add_argument(
        "--vllm.max_num_seqs",
        type=int,
        default=None,
        metavar="N",
        help="responses that an engine generates at once; the rest of a batch waits (default: an engine's whole share "
        f"of a batch, at most {MOST_AT_ONCE:,})",
    )
    group.add_argument(
        "--reward.on_failure",
        choices=ON_FAILURE,
        default="retry",
        help="if a request for a reward fails: retry until --reward.deadline, then drop the whole group and draw "
        "another prompt; drop_group at the first failure; or retry and stop the run at the deadline (default: retry)",
    )
    group.add_argument(
        "--reward.deadline", type=float, default=300.0, help="seconds of retries for one reward (default: 300)"
    )
    group.add_argument(
        "--reward.timeout",
        type=float,
        default=60.0,
        help="seconds for one request to the reward service (default: 60)",
    )
    group.add_argument(
        "--reward.ca_file",
        type=str,
        default=None,
        metavar="FILE",
        help="a PEM file with the certificates that an https reward service may have its own from; every node needs "
        "it (default: the system's)",
    )
    group.add_argument("--reward.batch_size", type=int, default=64, help="most responses in one request (default: 64)")
    group.add_argument(
        "--reward.max_in_flight",
        type=int,
        default=8,
        help="most requests that a rollout engine has open at once (default: 8)",
    )
    group.add_argument(
        "--logger.metrics_path",
        type=str,
        default=None,
        help="file for the metrics, one JSON object per step (default: metrics.jsonl in --ckpt.output_dir)",
    )
    add_guide_flags(parser)


def openrlhfs_precision(args: argparse.Namespace) -> str:
    """Replace ``--ds.param_dtype auto`` by OpenRLHF's default on GPUs, bf16.

    Args:
        args: OpenRLHF's flat namespace, changed in place.

    Returns:
        The precision.
    """
    flags = vars(args)
    if flags["ds.param_dtype"] == "auto":
        flags["ds.param_dtype"] = "bf16"
    return flags["ds.param_dtype"]


def make_paths_absolute(args: argparse.Namespace) -> None:
    """Make the paths that a run writes to absolute: Ray's workers have another working directory than the driver.

    Args:
        args: OpenRLHF's flat namespace, changed in place.
    """
    flags = vars(args)
    names = ["ckpt.output_dir", "ckpt.path", "logger.metrics_path", "logger.tensorboard_dir", "guide.solutions"]
    if os.path.isdir(str(flags["guide.model"])):  # not a hub id
        names.append("guide.model")
    for name in names:
        if flags[name]:
            flags[name] = os.path.abspath(flags[name])
    if flags["shaping.function"]:
        path, colon, name = flags["shaping.function"].rpartition(":")
        flags["shaping.function"] = f"{os.path.abspath(path)}{colon}{name}"
