"""The second program of the studies: it agrees with the first, finds what was changed, and shares no code with it."""

import ast
import json
import math
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import guide_study
import inference
import one_dose
import pivotal_study
import pivotal_study_1
import recompute
import traps_study

ROOT = Path(__file__).resolve().parents[2]

PLANNED, BEFORE, AFTER = "2026-11-24T10:00:00+00:00", "2026-11-24T09:59:59+00:00", "2026-11-24T10:00:01+00:00"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Three commits, of which the second one adds the plans, tagged 0, 1 and 2."""
    folder = tmp_path / "repository"
    (folder / "docs" / "studies").mkdir(parents=True)
    who = {f"GIT_{role}_{what}": "a@b.c" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    who |= {"GIT_AUTHOR_DATE": "2026-11-24T08:00:00+00:00", "GIT_COMMITTER_DATE": PLANNED}
    git = ("git", "-c", "init.defaultBranch=main", "-c", "commit.gpgsign=false")
    subprocess.run([*git, "init", "--quiet"], cwd=folder, check=True)
    for number in range(3):
        (folder / "code").write_text(str(number))
        if number == 1:
            for plan in {study.plan for study in recompute.STUDIES.values() if study.plan}:
                (folder / plan).write_text("The plan.\n")
        for words in (["add", "."], ["commit", "--quiet", "-m", "."], ["tag", str(number)]):
            subprocess.run([*git, *words], cwd=folder, check=True, env={**os.environ, **who})
    return folder


def made(arm: str, policy: int, seed: int, rng: random.Random) -> dict[str, Any]:
    """A record with what all parts read; the numbers mean nothing."""
    rate = 0.3 + 0.1 * policy + (0.05 if arm == "gtpo_0.1" else 0.0) + rng.gauss(0, 0.02)
    right = [rng.choice((0, 0, 1, 5, 32)) for _ in range(12)]
    return {
        "arm": arm,
        "policy": policy,
        "seed": seed,
        "flags": [arm],
        "steps": 32,
        "commit": "2",
        "started": AFTER,
        "seconds": round(rng.uniform(80, 120), 1),
        "evaluations": [{"step": step, "pass@1": round(rate + step / 200, 5)} for step in (0, 16, 32)],
        "training": {
            "reward": [None, *(round(rate + rng.gauss(0, 0.05), 5) for _ in range(39))],
            "entropy": [round(rng.uniform(0.2, 0.4), 5) for _ in range(40)],
            "length": [round(rng.uniform(60, 90), 5) for _ in range(40)],
            "prompts": [16.0 * step for step in range(1, 41)],
            "updates": [float(4 + policy + step % 2) for step in range(40)],
        },
        "solved": {"start": [rng.choice((0, 3, 4)) for _ in range(14)], "final": right},
        "operations": [0.5, None, *(round(rng.uniform(0.4, 0.6), 5) for _ in range(6))],
        "final": {
            name: rng.uniform(0, 1) for name in ("pass@1", "pass@32", "entropy_response_mean", "response_length")
        },
    }


Change = Callable[[dict[str, Any]], object]


def page(folder: Path, study: Any, seeds: int, policies: int = 6, change: Change = lambda run: None) -> Path:
    """Records of all arms of a study, and the page that the first program makes of them."""
    rng = random.Random(5)
    folder.mkdir()
    for arm in study.ARMS:
        for policy in range(policies):
            for seed in range(seeds):
                run = made(arm.key, policy, seed, rng)
                change(run)
                (folder / f"{arm.key}-{policy}-{seed}.json").write_text(json.dumps(run))
    study.DESIGN.analyse(folder, folder)
    return folder / "table.md"


@pytest.mark.parametrize(
    ("name", "study", "seeds", "figures"),
    [
        # Arms: runs, five means ± and seconds. A test: number, difference ±, five figures, equality.
        ("dose", one_dose, 4, 2 * (1 + 5 * 2 + 1) + 3 * (1 + 2 + 5 + 1)),
        # 7 and 4 tests, with equality.
        ("pivotal", pivotal_study, 1, 8 * (1 + 5 * 2 + 1) + 11 * (1 + 2 + 5 + 1)),
        ("pivotal_1", pivotal_study_1, 1, 8 * (1 + 5 * 2 + 1) + 12 * (1 + 2 + 5 + 1)),
        # 6, 4, 2 and 18 tests.
        ("traps", traps_study, 1, 5 * (1 + 9 * 2 + 1) + 30 * (1 + 2 + 5)),
        # 6 and 6 tests, of which those of prompts are at a ceiling: these records have equal numbers of them.
        ("guide", guide_study, 1, 4 * (1 + 7 * 2 + 1) + 12 * (1 + 2) + 6 * 5),
    ],
)
def test_both_programs_agree_on_every_figure(
    name: str,
    study: Any,
    seeds: int,
    figures: int,
    tmp_path: Path,
    repository: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Records with an evaluation at their end have none of step 0.
    begin = 1 if name == "guide" else 0
    page(tmp_path / "records", study, seeds, change=lambda run: run.update(evaluations=run["evaluations"][begin:]))
    assert recompute.main([name, str(tmp_path / "records")], repository) == 0, capsys.readouterr().out
    said = capsys.readouterr().out
    assert f" {figures} figures computed again" in said
    assert said.endswith("All agree.\n")


def test_they_agree_where_arms_are_equal_and_where_there_is_one_policy(tmp_path: Path, repository: Path) -> None:
    # All prompts are solved at the end, so pass@32 is at its ceiling.
    page(tmp_path / "equal", traps_study, 1, change=lambda run: run["solved"].update(final=[32] * 12))
    assert "ceiling" in (tmp_path / "equal" / "table.md").read_text()
    assert recompute.main(["traps", str(tmp_path / "equal")], repository) == 0
    # Over 18 seeds, which are too many for the sign flips; and over the two policies of a study that goes on.
    page(tmp_path / "seeds", one_dose, 18, policies=1)
    assert recompute.main(["dose", str(tmp_path / "seeds")], repository) == 0
    page(tmp_path / "two", one_dose, 1, policies=2)
    assert recompute.main(["dose", str(tmp_path / "two")], repository) == 0


@pytest.mark.parametrize(
    ("name", "page", "runs"),
    [
        ("entropy", "entropy.md", "92 records"),
        ("traps", "entropy2.md", "30 records"),
        ("dose", "entropy2.md", "48 records"),
        ("pivotal", "entropy2.md", "32 records"),
        ("pivotal_1", "entropy2.md", "48 records"),
        ("guide", "entropy2.md", "24 records"),
    ],
)
def test_the_published_pages_have_the_figures_of_their_records(
    name: str, page: str, runs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    studies = ROOT / "docs" / "studies"
    assert recompute.main([name, str(studies / name), "--page", str(studies / page)]) == 0, capsys.readouterr().out
    assert runs in capsys.readouterr().out


def changed_digit(text: str) -> str:
    """The last digit of the primary difference is another one."""
    start = text.index(" ± ", text.index("Primary")) - 1
    return text[:start] + str((int(text[start]) + 1) % 10) + text[start + 1 :]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (changed_digit, "table 2, GTPO, alpha2 = 0.1 - GTPO, alpha2 = 0, difference: "),
        (lambda text: text.replace("**", ""), "difference: +0."),
        (lambda text: text.replace("Holm of 1 ", "Holm of 2 "), "table 2 has the columns"),
        (lambda text: text.replace("| 24 |", "| 23 |", 1), "table 1, GTPO, alpha2 = 0, runs: 23 on the page, 24 comp"),
        (lambda text: "".join(text.splitlines(True)[:-1]), "table 3 has 1 rows, and 2 follow from the records"),
        (lambda text: text + "\nThe gain is 0.07.\n", "the page's text has 0.07, which this program does not know"),
        (lambda text: text + "\n| more |\n|---|\n| 0.07 |\n", "the page has 4 tables, and 3 follow from the records"),
        (lambda text: text.replace("Holm of 1 | p, sign flip |", "Holm of 1 |"), "table 2 has the columns"),
    ],
)
def test_what_is_changed_on_the_page_is_found(
    change: Callable[[str], str],
    sentence: str,
    tmp_path: Path,
    repository: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = page(tmp_path / "records", one_dose, 4)
    before = table.read_text()
    table.write_text(change(before))
    assert table.read_text() != before
    assert recompute.main(["dose", str(tmp_path / "records")], repository) == 1
    assert sentence in capsys.readouterr().out


def test_the_order_of_plan_and_runs_is_a_sentence_with_both_times(
    tmp_path: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page(tmp_path / "records", one_dose, 1)
    assert recompute.main(["dose", str(tmp_path / "records")], repository) == 0
    said = capsys.readouterr().out
    assert f"at {PLANNED}, the first run began at {AFTER}, with 2: the plan is before all of 12 runs." in said


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"started": BEFORE}, f"gtpo_0, policy 0, seed 0 began at {BEFORE}, before the plan was committed"),
        ({"started": ""}, "the record of gtpo_0, policy 0, seed 0 has no start time"),
        ({"commit": "0"}, "0, which runs have as their commit, does not come after the plan's"),
        ({"commit": "abc"}, "abc, which runs have as their commit, is none of this repository"),
        ({"commit": "2-dirty"}, "2-dirty, which runs have as their commit, is none of this repository"),
    ],
)
def test_a_run_that_may_be_from_before_the_plan_is_found(
    change: dict[str, str], sentence: str, tmp_path: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page(tmp_path / "records", one_dose, 1)
    first = tmp_path / "records" / "gtpo_0-0-0.json"
    first.write_text(json.dumps(json.loads(first.read_text()) | change))
    assert recompute.main(["dose", str(tmp_path / "records")], repository) == 1
    said = capsys.readouterr().out
    assert f"- {sentence}" in said
    assert "the plan is not shown to be before all of 12 runs" in said


def test_the_commit_of_the_plan_itself_may_have_made_runs(tmp_path: Path, repository: Path) -> None:
    page(tmp_path / "records", one_dose, 1, change=lambda run: run.update(commit="1"))
    assert recompute.main(["dose", str(tmp_path / "records")], repository) == 0


def test_the_second_program_imports_numpy_and_the_standard_library_alone() -> None:
    tree = ast.parse(Path(recompute.__file__).read_text(encoding="utf-8"))
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert {name.split(".")[0] for name in names} - sys.stdlib_module_names == {"numpy"}
    assert not {name for name in names if name.startswith(("importlib", "runpy"))}


def test_student_s_t_is_that_of_tables_and_of_the_first_program() -> None:
    # NIST/SEMATECH e-Handbook, table of critical values of Student's t.
    assert recompute.quantile(0.975, 5) == pytest.approx(2.571, abs=5e-4)
    assert recompute.quantile(0.95, 23) == pytest.approx(1.714, abs=5e-4)
    for t in (-3.0, -0.2, 0.0, 0.7, 12.0):
        assert recompute.above(t, 1) == pytest.approx(0.5 - math.atan(t) / math.pi)
        assert recompute.above(t, 2) == pytest.approx(0.5 - t / (2 * math.sqrt(2 + t * t)))
    for degrees in (1.3, 5.0, 9.71, 46.0):  # Welch's need not be whole
        for t in (0.01, 2.0, 30.0):
            assert recompute.above(t, degrees) == pytest.approx(inference.tail(t, degrees) / 2, rel=1e-8)


def test_a_policy_that_never_reaches_the_level_counts_with_all_its_prompts() -> None:
    until = recompute.GUIDE.outcomes["prompts until 0.40"]
    run = made("dapo", 0, 0, random.Random(1))
    run["evaluations"] = [{"step": 0, "pass@1": 0.5}, {"step": 6, "pass@1": 0.39}, {"step": 12, "pass@1": 0.4}]
    assert until(run) == 192
    run["evaluations"][2]["pass@1"] = 0.399
    assert until(run) == 640


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"arm": "dapo"}, "has runs of dapo, and the study has gtpo_0, gtpo_0.1"),
        ({"training": {}}, "a record of {folder} lacks 'reward'"),
    ],
)
def test_records_of_something_else_are_refused_in_one_sentence(
    change: dict[str, Any], sentence: str, tmp_path: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "records"
    page(folder, one_dose, 1)
    (folder / "more.json").write_text(json.dumps(made("gtpo_0", 9, 0, random.Random(1)) | change))
    with pytest.raises(SystemExit, match="2"):
        recompute.main(["dose", str(folder)], repository)
    assert sentence.format(folder=folder) in capsys.readouterr().err


def test_a_page_without_a_part_of_these_records_is_refused(
    tmp_path: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page(tmp_path / "records", one_dose, 1)
    other = ROOT / "docs" / "studies" / "entropy.md"
    with pytest.raises(SystemExit, match="2"):
        recompute.main(["dose", str(tmp_path / "records"), "--page", str(other)], repository)
    assert "no part that was written from records, but from entropy" in capsys.readouterr().err
