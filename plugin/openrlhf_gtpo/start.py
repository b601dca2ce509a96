"""``openrlhf-gtpo start [DATA]``: the commands for exactly this machine, from the data to the evaluation. It asks
nothing and starts nothing. Type what it prints in the folder of a clone of this project, which has launch/."""

import argparse
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from openrlhf_gtpo.data.json_lines import Unreadable
from openrlhf_gtpo.data.survey import read_rows, survey
from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.parsing import Parser

PROGRAM = "openrlhf-gtpo start"
POLICIES = {"7b": "Qwen2.5-7B", "1.5b": "Qwen2.5-1.5B-Instruct", "0.5b": "Qwen2.5-0.5B-Instruct"}


@dataclass(frozen=True)
class Machine:
    """What decides the commands."""

    gpus: int = 0
    gib: int = 0
    """Memory of the smallest GPU."""
    cpus: int = 1
    cached: tuple[str, ...] = ()
    """Hub ids of the models in the Hugging Face cache."""


def main(argv: Sequence[str]) -> int:
    """Print the commands.

    Returns:
        Exit status 0.

    Raises:
        SettingsError: the data file cannot be read.
    """
    parser = Parser(prog=PROGRAM, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "data", nargs="?", type=Path, metavar="DATA", help="your problems, a file that `data prepare` takes"
    )
    machine = this_machine()
    print(*lines(machine, parser.parse_args(argv).data), sep="\n")
    return 0


def this_machine() -> Machine:
    """GPUs by torch, models by the cache's folders."""
    import torch
    from huggingface_hub.constants import HF_HUB_CACHE

    count = torch.cuda.device_count()
    least = min((torch.cuda.get_device_properties(i).total_memory for i in range(count)), default=0)
    names = sorted(path.name for path in Path(HF_HUB_CACHE).glob("models--*") if any(path.glob("snapshots/*")))
    cached = tuple(name.removeprefix("models--").replace("--", "/", 1) for name in names)
    return Machine(count, round(least / 2**30), os.cpu_count() or 1, cached)


def lines(machine: Machine, data: Path | None) -> list[str]:
    """What is printed: comments, and commands that a shell takes.

    Raises:
        SettingsError: the data file cannot be read.
    """
    return _node(machine, data) if machine.gpus else _laptop(machine)


def _laptop(machine: Machine) -> list[str]:
    return [
        f"# No GPU, {machine.cpus} CPUs: a small policy learns here, and the commands of GPUs can be checked.",
        "bash launch/quickstart.sh                                  # 1. GTPO from start to finish, 6 minutes",
        "openrlhf-gtpo report runs/quickstart                       # 2. its curves and tokens, one HTML file",
        "bash launch/compare.sh --seeds 1 --steps 5 --out runs/try  # 3. five algorithms, a short try",
        "openrlhf-gtpo doctor                                       # 4. what this machine lacks",
        "openrlhf-gtpo selftest                                     # 5. each part, run here",
        "bash launch/train_gtpo.sh --dry-run                        # 6. the paper's run: memory, hours, disk",
    ]


def _node(machine: Machine, data: Path | None) -> list[str]:
    gpus = 1 << (machine.gpus.bit_length() - 1)  # a batch is shared evenly by a power of two
    size = "7b" if gpus >= 8 and machine.gib >= 46 else "1.5b" if gpus > 1 or machine.gib >= 40 else "0.5b"
    own = [name for name in machine.cached if name.rsplit("/", 1)[-1].startswith(POLICIES[size])]
    policy = own[0] if own else f"Qwen/{POLICIES[size]}"
    prepare, prompts = _data(data)
    extra: tuple[str, ...] = ()
    variables = {"MODEL": policy, "DATA": prompts, "GPU_GB": str(machine.gib)}
    if gpus == 1:
        script = "launch/train_one_gpu.sh"
        variables |= {"SIZE": size, "TASK": "math"}
    else:
        script = "launch/train_cluster.sh"
        variables |= {"GPUS": str(gpus)}
        if machine.gib < 46:  # the logits of 6,144 tokens
            extra = ("--rollout.micro_batch_size", "1", "--train.micro_batch_size", "1")

    def out(preset: str) -> str:
        return f"~/checkpoints/{preset}-{size}"  # as the scripts' own

    def train(preset: str, *more: str) -> str:
        named = {**variables, "PRESET": preset}
        words = [f"{name}={shlex.quote(value)}" for name, value in named.items()]
        return " ".join([*words, f"OUT={out(preset)}", "bash", script, *extra, *more])

    def measure(preset: str, when: str, model: str) -> str:
        return f"openrlhf-gtpo eval --data data/aime24.jsonl --k 1,8,32 --out {out(preset)}/{when} --model {model}"

    cached = f"{policy} is in the cache" if own else f"{policy} will be downloaded"
    unused = f"; {machine.gpus - gpus} stay unused, since a batch is shared evenly" if gpus < machine.gpus else ""
    return [
        f"# {gpus} GPU(s) of {machine.gib} GiB, {machine.cpus} CPUs{unused}. {cached}.",
        "# 1. The prompts, which ask for \\boxed{}, and a benchmark",
        prepare,
        "openrlhf-gtpo data prepare aime24 --from HuggingFaceH4/aime_2024 --split train --out data",
        "# 2. Does it fit, how long does it take, what is missing? Starts nothing; --price PER_GPU_HOUR adds the cost",
        train("gtpo", "--dry-run"),
        "openrlhf-gtpo doctor",
        "# 3. Train with GTPO; the same command with --ckpt.load_enable goes on after an interruption",
        train("gtpo"),
        "# 4. Watch it, in a second terminal: open the page that this names",
        f"openrlhf-gtpo report {out('gtpo')} --watch 60",
        "# 5. Before and after, Mean@32 and Pass@k",
        measure("gtpo", "before", policy),
        measure("gtpo", "after", f"{out('gtpo')}/model"),
        "# 6. DAPO beside it, and both in one report",
        train("dapo"),
        measure("dapo", "after", f"{out('dapo')}/model"),
        f"openrlhf-gtpo report {out('gtpo')} {out('dapo')} --out runs/both.html",
    ]


def _data(data: Path | None) -> tuple[str, str]:
    """The command that prepares the prompts, and where they are then."""
    if data is None:
        source = "BytedTsinghua-SIA/DAPO-Math-17k"
        return f"openrlhf-gtpo data prepare dapo17k --from {source} --split train --out data", "data/dapo17k.jsonl"
    if not data.is_file():
        raise SettingsError(f"There is no file {data}: name your problems, or leave it out for DAPO-Math-17k.")
    if data.suffix == ".jsonl":
        try:
            rows = read_rows(data, survey(data, "input", "label"), 1, "input", "label")
            if "boxed" in str(next(iter(rows)).prompt):
                return f"# {data} is prepared already", str(data)
        except (Unreadable, StopIteration):
            pass  # `data prepare` knows other columns, and says what is wrong
    return f"openrlhf-gtpo data prepare other --from {shlex.quote(str(data))} --out data", "data/other.jsonl"
