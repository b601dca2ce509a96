"""The blocks of README and docs that need engines and that people paste first, run as they are printed."""

import json
import math
import re
import subprocess
from pathlib import Path

import pytest

from ..docs.blocks import ROOT, beside_a_service, block, run_block, scratch

pytestmark = pytest.mark.engine


def run(text: str, folder: Path, **environment: str) -> str:
    """All that was said by what ended well."""
    done = run_block(text, folder, timeout=800, **environment)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-4000:]
    return said


@pytest.fixture(scope="module")
def folder(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository's folder after a quickstart."""
    return scratch(tmp_path_factory.mktemp("repository"), policy)


def test_the_quickstarts_command_for_a_cpu_trains(folder: Path) -> None:
    run(block("docs/quickstart.md", "python -m openrlhf_gtpo.train"), folder)
    assert len((folder / "runs" / "first" / "metrics.jsonl").read_text().splitlines()) == 3


def test_the_pages_program_prints_the_entropies_of_a_response(folder: Path) -> None:
    said = run(block("docs/entropies.md", "import vllm"), folder)
    assert re.search(r"^\[\d[\d., e-]*\]$", said, re.M), said[-4000:]


def test_the_example_draws_the_entropies_and_verdicts_of_a_group(folder: Path) -> None:
    with beside_a_service(block("docs/entropies.md", "docs/examples/group_entropies.py")) as text:
        said = run(text, folder)
    rows = re.findall(r"^(correct|wrong|no_answer) +(\S+) +(\d+) +([\d.]+) +([\d.]+)$", said, re.M)
    assert len(rows) == 8, said[-4000:]
    config = json.loads((folder / "runs" / "quickstart" / "warm_start" / "model" / "config.json").read_text())
    for verdict, answer, tokens, mean, highest in rows:
        assert (answer == "-") == (verdict == "no_answer")
        assert 0 < int(tokens) <= 40
        assert 0 <= float(mean) <= float(highest) <= math.log(config["vocab_size"]) + 1e-3, (
            "as much as a uniform choice"
        )
    assert [row[0] for row in rows] == sorted((row[0] for row in rows), key=lambda verdict: verdict != "correct")
    picture = (folder / "runs" / "group_entropies.png").read_bytes()
    assert picture.startswith(b"\x89PNG")


def test_a_task_of_ones_own_goes_through_the_whole_quickstart(folder: Path) -> None:
    """docs/examples/counting.py through launch/quickstart.sh, as docs/extending.md prints it, with two steps."""
    subprocess.run(["bash", str(ROOT / "launch" / "setup.sh")], check=True)  # else the quickstart would, from here
    run(block("docs/extending.md", "RUN=runs/counting"), folder, STEPS="2")
    summary = json.loads((folder / "runs" / "counting" / "summary.json").read_text())
    assert 0.1 <= summary["before"]["pass@1"] <= 0.9
    assert {"pass@1", "pass@8"} <= summary["after"].keys()
    assert len((folder / "runs" / "counting" / "metrics.jsonl").read_text().splitlines()) == 2
