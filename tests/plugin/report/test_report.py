"""The report: what it reads, what it holds, and the token view in a real browser."""

import json
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.select import Select

from openrlhf_gtpo.cli import main
from openrlhf_gtpo.report.groups import MAX_GROUPS, groups


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
    lines = [{"step": s, "rollout/pass_rate": s / 10, "entropy/mean": 1 / s} for s in range(1, steps + 1)]
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
    other = [response(True, ["1"], group=9), response(False, ["2", "3"], group=9)]
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
    assert driver.get_log("browser") == []


def test_a_run_without_rollouts_has_no_token_view(driver: webdriver.Chrome, tmp_path: Path) -> None:
    assert main(["report", str(run(tmp_path / "a"))]) == 0
    driver.get((tmp_path / "a" / "report.html").as_uri())
    assert not driver.find_element(By.ID, "tokens").is_displayed()
    assert driver.get_log("browser") == []
