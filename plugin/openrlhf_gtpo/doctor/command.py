"""``openrlhf-gtpo doctor``: finds what to fix before training, one sentence each.

It checks versions, GPUs, the entropy hook, Ray, the reward service, the disk, the chat template and the data set.
Exit status: 0 if nothing has to be fixed, 1 if something has to, 2 for a command line that is refused."""

import argparse
import contextlib
import importlib.util
import logging
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from math_reward.client.settings import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE, check_url
from openrlhf_gtpo.data.findings import Finding
from openrlhf_gtpo.doctor.checks import Question, examine
from openrlhf_gtpo.doctor.machine import RAY_SECONDS, Cluster, ask_cluster
from openrlhf_gtpo.doctor.table import as_json, line, summary
from openrlhf_gtpo.driver.device import torch_finds_gpu
from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.parsing import Parser

__all__ = ["main"]

PROGRAM = "openrlhf-gtpo doctor"


def main(argv: Sequence[str]) -> int:
    """Run the checks.

    Returns:
        Exit status: 0, 1 if something has to be fixed, 2 for a command line that is refused.
    """
    args = _parser().parse_args(argv)
    try:
        asked = _question(args)
    except SettingsError as error:
        print(f"{PROGRAM}: error: {error}", file=sys.stderr)
        return 2
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
    parser = Parser(prog=PROGRAM, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", metavar="DIR_OR_HUB_ID", help="the policy: a folder or a hub id")
    parser.add_argument("--data", type=Path, metavar="FILE.jsonl", help="the data set: prompts and reference answers")
    parser.add_argument("--input_key", default="input", help="column of the prompt, a text or chat messages (input)")
    parser.add_argument("--label_key", default="label", help="column of the reference answer (label)")
    parser.add_argument("--max_len", type=int, help="tokens of prompt and response together, as --data.max_len")
    parser.add_argument("--max_new_tokens", type=int, help="tokens of a response (what the prompt leaves)")
    parser.add_argument(
        "--reward_url",
        metavar="URL[,URL]",
        help=f"reward services; their token is read from {TOKEN_VARIABLE}, or from the file that "
        f"{TOKEN_FILE_VARIABLE} names (without a URL the built-in service is started)",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where checkpoints will go")
    parser.add_argument("--device", choices=["auto", "cpu", "gpu"], default="auto", help="as for training (auto)")
    parser.add_argument("--gpus", type=int, help="number of GPUs, for the memory check (those of this machine)")
    parser.add_argument("--ray_address", default=None, help="address of the Ray cluster (RAY_ADDRESS)")
    parser.add_argument(
        "--engine",
        action="store_true",
        help="also start a vLLM engine with --model and compare its entropies with transformers; slow",
    )
    parser.add_argument("--json", action="store_true", help="write the findings to standard output as JSON")
    return parser


def _question(args: argparse.Namespace) -> Question:
    for name in ("max_len", "max_new_tokens", "gpus"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise SettingsError(f"--{name} is {value}, but needs to be at least 1.")
    if args.max_len is not None and args.max_new_tokens is not None and args.max_new_tokens >= args.max_len:
        raise SettingsError(
            f"--max_new_tokens is {args.max_new_tokens}, but --max_len {args.max_len} has to hold the prompt too: "
            "make it larger."
        )
    address: str | None = args.ray_address or os.environ.get("RAY_ADDRESS") or None
    if address == "local":
        raise SettingsError("--ray_address is local, which is not the address of a cluster: leave it out.")
    urls = _urls(args.reward_url)
    takes, cluster = _takes(args.device, address)
    return Question(
        model=args.model,
        data=args.data,
        input_key=args.input_key,
        label_key=args.label_key,
        max_len=args.max_len,
        max_new_tokens=args.max_new_tokens,
        reward_urls=urls,
        out=args.out,
        device=args.device,
        takes=takes,
        cluster=cluster,
        ray_address=address,
        gpus=args.gpus,
        engine=args.engine,
    )


def _urls(text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    urls = tuple(url.strip() for url in text.split(",") if url.strip())
    if any(url.endswith(".py") for url in urls):
        raise SettingsError(
            "--reward_url is for services: `openrlhf-gtpo train --dry-run` looks whether a .py file exists."
        )
    if not urls:
        raise SettingsError("--reward_url has no URL: write one such as http://127.0.0.1:8000, or leave it out.")
    try:
        for url in urls:
            check_url(url)
    except ValueError as error:
        raise SettingsError(f"--reward_url: {error}") from None
    return urls


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
    names = max(len(name) for name in ("data: references", *(f"reward {url}" for url in asked.reward_urls)))
    findings = []
    with contextlib.redirect_stdout(sys.stderr):  # no library writes to standard output
        for finding in examine(asked, _announce):
            findings.append(finding)
            if in_words:
                print(line(finding, names, width=width, colour=colour), file=output, flush=True)
            else:
                print(f"{PROGRAM}: {finding.name}: {finding.state}", file=sys.stderr, flush=True)
    return findings
