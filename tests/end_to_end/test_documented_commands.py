"""The blocks of README and docs that need engines and that people paste first, run as they are printed."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .. import preloaded
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


def quickstart(printed: str, folder: Path, name: str) -> Path:
    """Two steps through launch/quickstart.sh; where its files are."""
    subprocess.run(["bash", str(ROOT / "launch" / "setup.sh")], check=True)  # else the quickstart would, from here
    run(printed, folder, STEPS="2")
    out = folder / "runs" / name
    summary = json.loads((out / "summary.json").read_text())
    assert 0.1 <= summary["before"]["pass@1"] <= 0.9
    assert {"pass@1", "pass@8"} <= summary["after"].keys()
    assert len((out / "metrics.jsonl").read_text().splitlines()) == 2
    return out


@pytest.fixture(scope="module")
def mine(folder: Path) -> Path:
    """A quickstart with a shaping function of one's own."""
    (printed,) = re.findall(r"^ALGO=.*RUN=runs/mine.*$", block("docs/quickstart.md", "RUN=runs/mine"), re.M)
    return quickstart(printed, folder, "mine")


def evaluated(out: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The responses of an evaluation, and its figures."""
    rows = [json.loads(line) for line in (out / "eval.jsonl").read_text().splitlines()]
    return rows, json.loads((out / "eval.json").read_text())["benchmarks"]["heldout"]


def test_a_shaping_function_of_ones_own_goes_through_the_whole_quickstart(mine: Path) -> None:
    settings = json.loads((mine / "run.json").read_text())["settings"]
    assert settings["algo.advantage.estimator"].endswith("docs/examples/shaping_function.py:surprise")
    for line in (mine / "metrics.jsonl").read_text().splitlines():
        assert json.loads(line)["actor_grad_norm"] > 0


def test_an_evaluation_says_what_it_found(mine: Path) -> None:
    rows, said = evaluated(mine / "before")
    assert [(row["prompt"], row["index"]) for row in rows] == [(p, i) for p in range(200) for i in range(16)]
    right = [sum(row["correct"] for row in rows if row["prompt"] == p) for p in range(200)]
    assert said["mean@16"]["mean"] == pytest.approx(sum(right) / 3200)
    assert said["entropy_response_mean"]["mean"] == pytest.approx(sum(row["entropy"] for row in rows) / 3200)
    assert said["entropy_token_mean"]["mean"] > 0
    assert all(row["verdict"] in ("correct", "wrong", "no_answer", "ambiguous", "too_complex") for row in rows)


def test_an_evaluation_repeats_itself_whatever_else_is_asked(mine: Path, tmp_path: Path) -> None:
    start = mine / "warm_start"
    done = subprocess.run(
        [
            *(preloaded.python(), "-c", "import sys; from openrlhf_gtpo.cli import main; sys.exit(main())", "eval"),
            *("--model", str(start / "model"), "--data", str(start / "heldout.jsonl"), "--out", str(tmp_path)),
            *("--n", "16", "--k", "1,8", "--max_new_tokens", "40", "--device", "cpu", "--max_prompts", "8"),
        ],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "pass@8" in done.stdout
    assert "nanobind" not in done.stderr, "the engine outlived the evaluation"
    assert "Triton" not in done.stderr
    assert evaluated(tmp_path)[0] == evaluated(mine / "before")[0][: 8 * 16], "it does not depend on its company"


def test_the_example_draws_the_entropies_and_verdicts_of_a_group(folder: Path) -> None:
    with beside_a_service(block("docs/entropies.md", "docs/examples/group_entropies.py")) as text:
        said = run(text, folder)
    rows = re.findall(r"^(correct|wrong|no_answer) +(\S+) +(\d+) +([\d.]+) +([\d.]+)$", said, re.M)
    assert len(rows) == 8, said[-4000:]
    assert all(0 <= float(mean) <= float(highest) for *_, mean, highest in rows)
    assert (folder / "runs" / "group_entropies.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.nightly
def test_a_task_of_ones_own_goes_through_the_whole_quickstart(folder: Path) -> None:
    quickstart(block("docs/extending.md", "RUN=runs/counting"), folder, "counting")


@pytest.mark.nightly
def test_the_quickstarts_command_for_a_cpu_trains(folder: Path) -> None:
    run(block("docs/quickstart.md", "python -m openrlhf_gtpo.train"), folder)
    assert len((folder / "runs" / "first" / "metrics.jsonl").read_text().splitlines()) == 3


@pytest.mark.nightly
def test_the_pages_program_prints_the_entropies_of_a_response(folder: Path) -> None:
    said = run(block("docs/entropies.md", "import vllm"), folder)
    assert re.search(r"^\[\d[\d., e-]*\]$", said, re.M), said[-4000:]
