"""The report: what it reads, what it holds, and the token view in a real browser."""

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.select import Select

from openrlhf_gtpo.cli import main
from openrlhf_gtpo.report.curves import curves_of, draw, smoothed
from openrlhf_gtpo.report.groups import MAX_GROUPS, groups
from openrlhf_gtpo.report.run import Run, Series, read, series


def response(correct: bool, tokens: list[str], **changes: Any) -> dict[str, Any]:
    n = len(tokens)
    sign = 1.0 if correct else -1.0
    return {
        "step": 1,
        "group": 3,
        "prompt": "What is 6*7?",
        "label": "42",
        "correct": correct,
        "tokens": tokens,
        "entropy": [0.5 * t for t in range(n)],
        "shaped_reward": [sign] * n,
        "advantage": [sign * (t + 1) for t in range(n)],
        **changes,
    }


ROLLOUTS = [
    response(True, ["6", "*", "7", "\n", "42"]),
    response(True, ["42"]),
    response(False, ["<script>alert(1)</script>", "</script>", "41"]),
]


def run(folder: Path, rollouts: list[dict[str, Any]] | None = None, steps: int = 3) -> Path:
    folder.mkdir(parents=True)
    lines = [{"step": s, "rollout/pass_rate": s / 10, "entropy/token_mean": 1 / s} for s in range(1, steps + 1)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if rollouts is not None:
        (folder / "rollouts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in rollouts))
    return folder


def test_d_and_h_count_the_responses_of_each_class_that_are_at_least_so_long() -> None:
    (group,) = groups(ROLLOUTS)
    assert group["d"] == [2, 1, 1, 1, 1]
    assert group["h"] == [1, 1, 1, 0, 0]
    assert (group["step"], group["group"], group["label"]) == (1, 3, "42")
    assert [r["correct"] for r in group["responses"]] == [True, True, False]


def test_a_long_run_is_shown_by_groups_spread_over_its_steps() -> None:
    kept = groups([response(True, ["a"], step=s) for s in range(1, 1001)])
    assert len(kept) == MAX_GROUPS
    assert (kept[0]["step"], kept[-1]["step"]) == (1, 1000)


def test_the_report_is_one_file_that_asks_nobody_for_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(run(tmp_path / "a", ROLLOUTS)), str(run(tmp_path / "b"))]) == 0
    path = tmp_path / "a" / "report.html"
    assert capsys.readouterr().out.strip() == str(path)
    text = path.read_text()
    assert text.count("<svg") == 2, "a picture for each key that a run has, and none for the others"
    assert "<td>0.2</td><td>0.2</td>" in text, "the mean of 0.1, 0.2 and 0.3"
    for reference in ("src=", "@import", "url(http", "<link", "fetch("):
        assert reference not in text


def test_what_is_no_run_is_refused_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    broken = run(tmp_path / "broken")
    (broken / "metrics.jsonl").write_text('{"step": 1}\n{broken\n{"step": 2}\n')
    other = run(tmp_path / "other" / "a")
    for arguments, sentence in (
        ([tmp_path / "empty"], "empty is no run: it has no metrics.jsonl."),
        ([broken], "line 2, is not JSON: mend or remove it."),
        ([run(tmp_path / "a"), other], "Two runs have one name: rename a folder, its name is the run's."),
        ([other, "--out", "/proc/nothing/report.html"], "cannot be written: "),
    ):
        assert main(["report", *map(str, arguments)]) == 2
        said = capsys.readouterr().err
        assert sentence in said
        assert len(said.splitlines()) == 1


def test_a_run_that_is_still_writing_its_last_line_can_be_shown(tmp_path: Path) -> None:
    folder = run(tmp_path / "a")
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "rollou')
    assert main(["report", str(folder)]) == 0


def test_the_token_view_colours_every_token_and_tells_its_numbers(driver: webdriver.Chrome, tmp_path: Path) -> None:
    other = [response(True, ["1"], group=9, guide=True), response(False, ["2", "3"], group=9, guide=False)]
    assert main(["report", str(run(tmp_path / "a", ROLLOUTS + other))]) == 0
    driver.get((tmp_path / "a" / "report.html").as_uri())
    assert [box.text.splitlines()[0] for box in driver.find_elements(By.CSS_SELECTOR, ".response")] == [
        "✓ correct 5 tokens",
        "✓ correct 1 tokens",
        "✗ wrong 3 tokens",
    ]
    tokens = driver.find_elements(By.CSS_SELECTOR, ".token")
    assert len(tokens) == 9
    assert tokens[6].text == "<script>alert(1)</script>", "what a model wrote stays text"
    driver.execute_script("arguments[0].focus()", tokens[2])
    detail = " ".join(driver.find_element(By.ID, "detail").text.split())
    assert detail == "token 3 entropy 1.000 nats shaped reward 1.000 advantage 3.000 d 1 h 1"

    entropy_colours = [token.value_of_css_property("background-color") for token in tokens]
    assert entropy_colours[0] != entropy_colours[4], "no entropy and the highest"
    driver.find_element(By.CSS_SELECTOR, "input[value=advantage]").click()
    tokens = driver.find_elements(By.CSS_SELECTOR, ".token")
    colours = [token.value_of_css_property("background-color") for token in tokens]
    assert colours != entropy_colours
    assert len({colours[4], colours[8]}) == 2, "the sign has a colour"

    Select(driver.find_element(By.ID, "group")).select_by_index(1)
    assert len(driver.find_elements(By.CSS_SELECTOR, ".token")) == 3
    assert [box.text.splitlines()[0] for box in driver.find_elements(By.CSS_SELECTOR, ".response")] == [
        "✓ correct, the guide's 1 tokens",
        "✗ wrong 2 tokens",
    ]
    assert driver.get_log("browser") == []


def test_a_run_without_rollouts_has_no_token_view(driver: webdriver.Chrome, tmp_path: Path) -> None:
    assert main(["report", str(run(tmp_path / "a"))]) == 0
    driver.get((tmp_path / "a" / "report.html").as_uri())
    assert not driver.find_element(By.ID, "tokens").is_displayed()
    assert driver.get_log("browser") == []


def record(folder: Path, **settings: Any) -> Path:
    given = {"preset": "gtpo", "train.seed": 0, "logger.wandb.key": "(hidden)", **settings}
    (folder / "run.json").write_text(json.dumps({"settings": given, "environment": {"vllm": "0.29.0"}}))
    return folder


def test_runs_that_differ_in_nothing_but_their_seed_are_one_series(tmp_path: Path) -> None:
    folders = [
        record(run(tmp_path / "gtpo-seed-1"), **{"train.seed": 1, "ckpt.output_dir": "a"}),
        record(run(tmp_path / "grpo"), **{"preset": "grpo"}),
        record(run(tmp_path / "gtpo-seed-11"), **{"train.seed": 11, "ckpt.output_dir": "b"}),
        run(tmp_path / "old"),
    ]
    found = series([read(folder) for folder in folders])
    assert [(one.name, len(one.runs)) for one in found] == [("gtpo", 2), ("grpo", 1), ("old", 1)]


def test_the_band_of_a_series_reaches_from_its_lowest_to_its_highest_run() -> None:
    runs = [Run(f"a-{i}", [{"step": s, "entropy/token_mean": s + i} for s in (1, 2, 3)]) for i in (0, 1, 5)]
    figure, axes = plt.subplots()
    draw(axes, [Series("a", runs)], ("entropy/token_mean", "entropy", "nats"), "black")
    assert axes.lines[0].get_ydata() == pytest.approx([3, 4, 5]), "the means of 1, 2, 6 and so on"
    corners = axes.collections[0].get_paths()[0].vertices
    assert {(x, y) for x, y in corners.tolist()} >= {(1, 1), (1, 6), (3, 3), (3, 8)}
    plt.close(figure)


def test_a_long_curve_is_smoothed_and_keeps_its_ends_and_its_straight_lines() -> None:
    straight = [(s, 2.0 * s) for s in range(1, 101)]
    assert [step for step, _ in smoothed(straight)] == list(range(1, 101))
    assert [value for _, value in smoothed(straight)] == pytest.approx([value for _, value in straight])
    jagged = [(s, float(s % 2)) for s in range(100)]
    assert smoothed(jagged)[0] == jagged[0]
    assert smoothed(jagged)[-1] == jagged[-1]
    assert all(0.4 < value < 0.6 for _, value in smoothed(jagged)[10:-10])
    assert smoothed(jagged[:20]) == jagged[:20], "a short one is left as it is"


def test_evaluations_during_training_have_curves_of_their_own(tmp_path: Path) -> None:
    folder = run(tmp_path / "a")
    lines = [{"step": s, "eval_aime_pass1": 0.1 * s, "eval_aime_pass16": 0.9, "eval_aime_pass4": 0.5} for s in (2, 4)]
    (folder / "evaluations.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    titles = [title for _, title, _ in curves_of([read(folder)])]
    assert titles == ["reward", "entropy", "Pass@1 on aime", "Pass@4 on aime", "Pass@16 on aime"]


def test_the_report_shows_in_what_the_runs_differ_and_where_they_ran(tmp_path: Path) -> None:
    folders = [record(run(tmp_path / "a")), record(run(tmp_path / "b"), **{"preset": "grpo", "actor.eps": "<0.2>"})]
    assert main(["report", *map(str, folders)]) == 0
    text = (folders[0] / "report.html").read_text()
    different, everything = text.split("<details>")
    assert "<th scope=row>preset</th><td>gtpo</td><td>grpo</td>" in different
    assert "&lt;0.2&gt;" in different
    assert "logger.wandb.key" not in different
    assert "logger.wandb.key" in everything
    assert "train.seed" not in text
    assert "0.29.0" in text
