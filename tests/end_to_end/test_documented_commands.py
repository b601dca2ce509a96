"""The commands and snippets of README and docs that need engines or a cluster, run as they are printed."""

import json
import math
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..docs.blocks import ROOT, STARTS_SERVICE, Block, beside_a_service, blocks, run_block, scratch
from .ray_cluster import RayCluster

pytestmark = pytest.mark.engine
FIRST = "python -m openrlhf_gtpo.train"
"""What the block begins with that trains on a CPU; the others are run after it."""


def run(block: Block, folder: Path, text: str | None = None, **environment: str) -> tuple[int, str]:
    """Exit status and all that was said."""
    done = run_block(block, folder, text, timeout=800, **environment)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def folder(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository's folder after a quickstart."""
    return scratch(tmp_path_factory.mktemp("repository"), policy)


@pytest.fixture(scope="module")
def first_run(folder: Path) -> Path:
    """The folder after the README's command for a CPU, whose metrics stand for the quickstart's too."""
    (block,) = (block for block in blocks("run in the loop") if FIRST in block.text and "runs/first" in block.text)
    status, said = run(block, folder)
    assert status == 0, said[-4000:]
    for file in (folder / "runs" / "first").glob("*.json*"):
        shutil.copy(file, folder / "runs" / "quickstart")
    return folder


def test_the_readmes_command_for_a_cpu_trains(first_run: Path) -> None:
    assert len((first_run / "runs" / "first" / "metrics.jsonl").read_text().splitlines()) == 3


LOOP = blocks("run in the loop")
WITH_SERVICE = [block for block in LOOP if STARTS_SERVICE in block.commands]
AFTER_FIRST = [block for block in LOOP if "runs/first" not in block.text or block.argument]
OTHERS = [block for block in AFTER_FIRST if block not in WITH_SERVICE]


@pytest.mark.parametrize("block", OTHERS, ids=str)
def test_what_is_printed_can_be_run_after_a_quickstart(block: Block, first_run: Path) -> None:
    status, said = run(block, first_run)
    assert status == 0, said[-4000:]


def test_the_example_draws_the_entropies_and_verdicts_of_a_group(first_run: Path) -> None:
    (block,) = WITH_SERVICE
    with beside_a_service(block) as text:
        status, said = run(block, first_run, text)
    assert status == 0, said[-4000:]
    rows = re.findall(r"^(correct|wrong|no_answer) +(\S+) +(\d+) +([\d.]+) +([\d.]+)$", said, re.M)
    assert len(rows) == 8, said[-4000:]
    config = json.loads((first_run / "runs" / "quickstart" / "warm_start" / "model" / "config.json").read_text())
    for verdict, answer, tokens, mean, highest in rows:
        assert (answer == "-") == (verdict == "no_answer")
        assert 0 < int(tokens) <= 40
        assert 0 <= float(mean) <= float(highest) <= math.log(config["vocab_size"]) + 1e-3, (
            "as much as a uniform choice"
        )
    assert [row[0] for row in rows] == sorted((row[0] for row in rows), key=lambda verdict: verdict != "correct")
    picture = (first_run / "runs" / "group_entropies.png").read_bytes()
    assert picture.startswith(b"\x89PNG")


@pytest.fixture(scope="module")
def head() -> Iterator[RayCluster]:
    (block,) = blocks("run as a cluster")
    start = next(line for line in block.text.splitlines() if line.startswith("ray start "))
    with RayCluster([*start.split()[2:], "--num-cpus", "2"]) as head:  # as on the smallest machine
        yield head


def test_a_job_is_submitted_to_a_cluster_of_cpus_as_printed(head: RayCluster, first_run: Path) -> None:
    (block,) = blocks("run as a cluster")
    text = "\n".join(line for line in block.text.splitlines() if not line.startswith(("ray start ", "ray stop")))
    status, said = run(block, first_run, text, RAY_ADDRESS=head.dashboard)
    assert status == 0, said[-4000:]
    assert len((first_run / "runs" / "cluster" / "metrics.jsonl").read_text().splitlines()) == 3


def test_a_job_that_the_cluster_can_never_place_is_refused_at_once(head: RayCluster, first_run: Path) -> None:
    (block,) = blocks("run as a cluster")
    text = "\n".join(line for line in block.text.splitlines() if not line.startswith(("ray start ", "ray stop")))
    text = text.replace("runs/cluster", "runs/refused") + " --vllm.num_engines 2"
    status, said = run(block, first_run, text, RAY_ADDRESS=head.dashboard)
    assert status != 0
    named = r"train: error: .* 3 logical GPUs \(1 .*, 2 .*\) .* 2 and 2: .*--num-gpus 3"
    assert re.search(named, said), said[-3000:]


def test_a_task_of_ones_own_goes_through_the_whole_quickstart(folder: Path) -> None:
    """docs/examples/counting.py through launch/quickstart.sh, as docs/extending.md prints it, with two steps."""
    (block,) = (block for block in blocks("tested by") if "TASK=docs/examples/counting.py" in block.text)
    subprocess.run(["bash", str(ROOT / "launch" / "setup.sh")], check=True)  # else the quickstart would, from here
    status, said = run(block, folder, block.text, STEPS="2")
    assert status == 0, said[-4000:]
    summary = json.loads((folder / "runs" / "counting" / "summary.json").read_text())
    assert 0.1 <= summary["before"]["pass@1"] <= 0.9
    assert {"pass@1", "pass@8"} <= summary["after"].keys()
    assert len((folder / "runs" / "counting" / "metrics.jsonl").read_text().splitlines()) == 2
