"""``openrlhf-gtpo doctor -- FLAGS``: finds what to fix before training with these flags, one sentence each.

FLAGS are those of the training command, as it is. The doctor checks versions, GPUs, the entropy hook, Ray, the flags,
the files, the reward service, the disk, the chat template and the data set. Without FLAGS it checks the machine alone.
Exit status: 0 if nothing has to be fixed, 1 if something has to, 2 for a command line that is refused."""

import argparse
import contextlib
import importlib.util
import logging
import os
import shutil
import sys
from collections.abc import Sequence

from openrlhf_gtpo.checks.findings import Finding
from openrlhf_gtpo.checks.flags import gpu_faults
from openrlhf_gtpo.checks.machine import RAY_SECONDS, Cluster, ask_cluster
from openrlhf_gtpo.doctor.examination import Question, examine
from openrlhf_gtpo.doctor.table import as_json, line, summary
from openrlhf_gtpo.driver import command_line, presets
from openrlhf_gtpo.driver.device import torch_finds_gpu
from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.openrlhf_internals import OpenRLHFMismatch
from openrlhf_gtpo.parsing import Parser
from openrlhf_gtpo.settings import MOST_AT_ONCE, Settings

PROGRAM = "openrlhf-gtpo doctor"

ALIASES = {
    "model": "actor.model_name_or_path",
    "data": "data.prompt_dataset",
    "input_key": "data.input_key",
    "label_key": "data.label_key",
    "max_len": "data.max_len",
    "max_new_tokens": "rollout.max_new_tokens",
    "reward_url": "reward.remote_url",
    "out": "ckpt.output_dir",
    "device": "device",
    "gpus": "actor.num_gpus_per_node",
}
"""Flags of the doctor before it took the training command -> flags of that."""


def main(argv: Sequence[str]) -> int:
    """Run the checks.

    Returns:
        Exit status: 0, 1 if something has to be fixed.

    Raises:
        SettingsError: the command line is refused.
    """
    words = list(argv)
    own, command = words, None
    if "--" in words:
        place = words.index("--")
        own, command = words[:place], words[place + 1 :]
    args = _parser().parse_args(own)
    asked = _question(args, command)
    # The client would log each failure that the findings report anyway.
    logging.getLogger("math_reward.client").addHandler(logging.NullHandler())
    try:
        findings = _examined(asked, in_words=not args.json)
    except KeyboardInterrupt:
        print(f"{PROGRAM}: interrupted", file=sys.stderr)
        return 130
    print(as_json(findings) if args.json else f"\n{summary(findings)}")
    return int(any(finding.state == "fault" for finding in findings))


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog=PROGRAM,
        usage=f"{PROGRAM} [--engine] [--vllm-url URL] [--json] [-- FLAGS]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--engine",
        action="store_true",
        help="also start a vLLM engine with the policy and compare its entropies with transformers; slow",
    )
    parser.add_argument(
        "--vllm-url",
        metavar="URL",
        help="also ask this running vLLM server for entropies; the environment's VLLM_API_KEY is its key",
    )
    parser.add_argument("--json", action="store_true", help="write the findings to standard output as JSON")
    aliases = parser.add_argument_group("in place of FLAGS", "Flags of earlier versions, which 0.3 will not have.")
    for alias, flag in ALIASES.items():
        aliases.add_argument(f"--{alias}", metavar="VALUE", help=f"as --{flag} behind --")
    aliases.add_argument("--ray_address", metavar="VALUE", help="as the environment variable RAY_ADDRESS")
    return parser


def _of_aliases(given: dict[str, str]) -> list[str]:
    """The training command that the aliases stand for: with the flags of the launch scripts, and GRPO."""
    gpus = given.get("gpus", "8")
    rest = {
        "data.input_key": "input",
        "data.label_key": "label",
        "rollout.n_samples_per_prompt": "8",
        "ds.zero_stage": "3",
        "train.micro_batch_size": "1",
        "rollout.micro_batch_size": "1",
        "train.batch_size": str(int(gpus) * 8) if gpus.isdecimal() else "128",
        "vllm.num_engines": gpus,
        "vllm.gpu_memory_utilization": "0.6",
        "vllm.max_num_seqs": str(MOST_AT_ONCE // 4),
        "algo.advantage.estimator": "group_norm",
        "algo.kl.init_coef": "0",
        "ckpt.save_steps": "1",
        "actor.num_gpus_per_node": gpus,
    }
    switches = ("data.apply_chat_template", "train.colocate_all", "vllm.enable_sleep", "ds.enable_sleep")
    words = [f"--{name}" for name in (*switches, "actor.gradient_checkpointing_enable")]
    values = rest | {ALIASES[alias]: value for alias, value in given.items()}
    return [*words, *(f"--{name}={value}" for name, value in values.items())]


def _question(args: argparse.Namespace, command: Sequence[str] | None) -> Question:
    """What is asked.

    Args:
        args: the doctor's own.
        command: the training command's flags; None without.

    Raises:
        SettingsError: the command line is refused.
    """
    given = {alias: value for alias in ALIASES if (value := getattr(args, alias)) is not None}
    if given and command is not None:
        alias = next(iter(given))
        raise SettingsError(f"--{alias} stands beside a training command: give it as --{ALIASES[alias]} behind --.")
    address: str | None = args.ray_address or os.environ.get("RAY_ADDRESS") or None
    if address == "local":
        raise SettingsError("--ray_address is local, which is not the address of a cluster: leave it out.")
    try:
        expanded = presets.expand(_of_aliases(given) if command is None else command)
        read = command_line.parse(expanded.arguments)
    except OpenRLHFMismatch:  # of which a check tells
        takes, cluster = _takes(args.device or "auto", address)
        return Question(
            None,
            device=args.device or "auto",
            takes=takes,
            ray_address=address,
            cluster=cluster,
            vllm_url=args.vllm_url,
        )
    device = read.flags["device"]
    takes, cluster = _takes(device, address)
    settings = Settings({**read.flags, "preset": expanded.preset, "device": takes})
    of_the_platform = gpu_faults
    if takes == "cpu":
        from openrlhf_gtpo.cpu import platform

        settings, of_the_platform = settings.changed(platform.sizes(settings.flags, read.given)), platform.faults
    return Question(
        settings,
        whole=command is not None,
        of_the_platform=of_the_platform,
        device=device,
        takes=takes,
        ray_address=address,
        cluster=cluster,
        engine=args.engine,
        vllm_url=args.vllm_url,
    )


def _takes(device: str, ray_address: str | None) -> tuple[str, Cluster | None]:
    """``cpu`` or ``gpu``, as training would choose here and in that cluster (``cpu`` if torch is missing, which is a
    fault of its own); and the cluster, if it was asked."""
    cluster = None
    if device == "auto":
        if importlib.util.find_spec("torch") is None:
            return "cpu", None
        print(f"{PROGRAM}: importing torch, to see whether there is a GPU", file=sys.stderr, flush=True)
        if torch_finds_gpu():
            device = "gpu"
        elif ray_address is not None:
            _announce("Ray cluster", f"asking {ray_address} for its GPUs", RAY_SECONDS)
            cluster = ask_cluster(ray_address)
            device = "gpu" if cluster.gpus > 0 else "cpu"
        else:
            device = "cpu"
    if device == "cpu":
        from openrlhf_gtpo.cpu.environment import cpu_environment

        os.environ.update(cpu_environment())  # for vLLM, torch and the processes of the checks
    return device, cluster


def _announce(name: str, waits: str, seconds: float) -> None:
    print(f"{PROGRAM}: {name}: {waits}, {seconds:g} s at most", file=sys.stderr, flush=True)


def _examined(asked: Question, *, in_words: bool) -> list[Finding]:
    """All findings, each printed at once: as a sentence to standard output, or as progress to standard error."""
    output = sys.stdout
    terminal = output.isatty()
    width = shutil.get_terminal_size().columns if terminal else None
    colour = terminal and not os.environ.get("NO_COLOR")
    urls = asked.settings.service_urls if asked.settings else None
    names = max(len(name) for name in ("data: references", *(f"reward {url}" for url in urls or ())))
    findings = []
    with contextlib.redirect_stdout(sys.stderr):  # no library writes to standard output
        for finding in examine(asked, _announce):
            findings.append(finding)
            if in_words:
                print(line(finding, names, width=width, colour=colour), file=output, flush=True)
            else:
                print(f"{PROGRAM}: {finding.name}: {finding.state}", file=sys.stderr, flush=True)
    return findings
