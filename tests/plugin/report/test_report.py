"""The report: what it reads and what it holds."""

import json
import re
import tracemalloc
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from openrlhf_gtpo.cli import main
from openrlhf_gtpo.report import command, page
from openrlhf_gtpo.report.run import read, series

from ...refusals import assert_refusal
from .files import ROLLOUTS, lines, measured, record, response, run


def report(*folders: Path) -> str:
    assert main(["report", *map(str, folders)]) == 0
    return (folders[0] / "report.html").read_text()


def cells(text: str, row: str) -> list[str]:
    """Of the first table row of that name, without tags."""
    found = re.search(rf"<th scope=row>(?:<a [^>]*>)?{re.escape(row)}.*?</th>(.*?)</tr>", text)
    assert found is not None, row
    return [re.sub(r"<[^>]+>", "", cell).strip() for cell in re.findall(r"<td>(.*?)</td>", found[1])]


def test_the_report_is_one_file_that_asks_nobody_for_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(run(tmp_path / "a", ROLLOUTS)), str(run(tmp_path / "b"))]) == 0
    path = tmp_path / "a" / "report.html"
    assert capsys.readouterr().out.splitlines()[-1] == str(path)
    text = path.read_text()
    assert text.count("<svg") == 2, "a picture for each key that a run has, and none for the others"
    assert cells(text, "reward") == ["0.2", "0.2"], "the mean of 0.1, 0.2 and 0.3"
    for reference in ("src=", "@import", "url(http", "<link", "fetch("):
        assert reference not in text


def test_a_page_that_is_watched_waits_for_the_first_step_and_follows_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    naps: list[int] = []

    def sleep(seconds: int) -> None:
        naps.append(seconds)
        if len(naps) == 2:
            run(tmp_path / "a")
        if len(naps) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(command.time, "sleep", sleep)
    assert main(["report", str(tmp_path / "a"), "--watch", "30", "--out", str(tmp_path / "page.html")]) == 0
    waiting, path = capsys.readouterr().out.splitlines()
    assert waiting.startswith("openrlhf-gtpo report: waiting: ")
    assert path == str(tmp_path / "page.html")
    assert '<meta http-equiv="refresh" content="30">' in (tmp_path / "page.html").read_text()
    assert main(["report", str(tmp_path / "a"), "--watch", "0"]) == 2
    assert "http-equiv" not in report(tmp_path / "a")


@pytest.mark.parametrize(
    ("file", "content", "named"),
    [
        ("metrics.jsonl", None, ["no run"]),
        ("metrics.jsonl", '{"step": 1}\n{broken\n{"step": 2}\n', ["line 2", "JSON"]),
        ("metrics.jsonl", '{"rollout/pass_rate": 0.5}\n', ["line 1", "no 'step'"]),
        ("metrics.jsonl", '{"step": "<b>1</b>"}\n', ["line 1", "'step'", "whole number"]),
        ("before/eval.json", '{"benchmarks": [1]}', ["figures"]),
        ("after/eval.jsonl", '{"benchmark": "aime", "prompt": 1}\n', ["line 1", "'correct'"]),
        ("rollouts.jsonl", '{"step": 1, "group": 2}\n', ["line 1", "'prompt'"]),
    ],
)
def test_what_is_no_run_is_refused(
    tmp_path: Path, file: str, content: str | None, named: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = run(tmp_path / "a") / file
    path.parent.mkdir(exist_ok=True)
    path.unlink() if content is None else path.write_text(content)
    assert main(["report", str(tmp_path / "a")]) == 2
    assert_refusal(capsys.readouterr().err, str(tmp_path / "a"), path.name, *named)


def test_two_runs_of_one_name_and_a_page_that_cannot_be_written_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [str(run(tmp_path / name / "a")) for name in ("one", "other")]
    for arguments, named in ((folders, "same name"), ([folders[0], "--out", "/proc/no/page.html"], "/proc/no")):
        assert main(["report", *arguments]) == 2
        assert_refusal(capsys.readouterr().err, named)


def test_a_run_that_is_still_writing_its_last_line_can_be_shown(tmp_path: Path) -> None:
    folder = run(tmp_path / "a")
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "rollou')
    assert main(["report", str(folder)]) == 0


def test_a_page_stays_small_however_much_was_saved_and_says_how_much_of_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [response(True, ["word"] * 50, step=step, group=g) for step in range(1, 101) for g in (0, 1)]
    folder = run(tmp_path / "a", many)
    assert "40 of the 200 groups" in report(folder)
    monkeypatch.setattr(page, "GROUP_BYTES", 10_000)
    text = report(folder)
    shown = json.loads(re.findall(r'id="data">(.*?)</script>', text)[0])[0]["groups"]
    assert len(shown) < 15
    assert f"{len(shown)} of the 200 groups" in text
    assert (shown[0]["step"], shown[-1]["step"]) == (1, 100)
    assert "groups that were saved" not in report(run(tmp_path / "b", ROLLOUTS)), "all are"


def test_of_saved_groups_only_those_that_are_shown_are_in_memory(tmp_path: Path) -> None:
    long = ["word"] * 20_000
    folder = run(tmp_path / "a", [response(True, long, step=step, entropy=[], advantage=[]) for step in range(1, 101)])
    tracemalloc.start()
    found = read(folder).rollouts
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found is not None
    assert len(found) == 100
    assert found[99][0]["step"] == 100
    assert peak < 2e6, f"{peak:,} bytes, where the file has {(folder / 'rollouts.jsonl').stat().st_size:,}"


def test_the_report_begins_with_what_was_trained_on_what_and_what_came_of_it(tmp_path: Path) -> None:
    settings = {
        "algo.advantage.estimator": "gtpo",
        "actor.model_name_or_path": "Qwen/<Qwen>",
        "data.prompt_dataset": ["a.jsonl", "b.jsonl"],
        "train.seed": 7,
    }
    folder = record(run(tmp_path / "a", steps=60), **settings)
    measured(folder / "before", {"aime": {"pass@1": (0.1, 0.05, 0.15), "prompts": 30}})
    measured(folder / "after", {"aime": {"pass@1": (0.3, 0.25, 0.35), "prompts": 30}})
    text = report(folder)
    verdict = '<p class="verdict">Better on aime'
    assert text.index("<h1>") < text.index(verdict) < text.index("<table")
    assert cells(text, "algorithm") == ["GTPO"]
    assert cells(text, "preset") == ["gtpo"]
    assert cells(text, "model") == ["Qwen/&lt;Qwen&gt;"]
    assert cells(text, "data") == ["a.jsonl b.jsonl"]
    assert cells(text, "steps") == ["60"]
    assert cells(text, "seed") == ["7"]
    assert cells(text, "pass@1 on aime") == ["before 0.1 0.05 to 0.15 after 0.3 0.25 to 0.35"]


def test_several_runs_are_compared_with_the_first_beside_their_own_verdicts(tmp_path: Path) -> None:
    folders = [run(tmp_path / name) for name in ("gtpo", "grpo", "<dapo>")]
    for folder, mean in zip(folders, (0.3, 0.34, 0.5), strict=True):
        measured(folder / "after", {"aime": {"pass@1": (mean, mean - 0.05, mean + 0.05), "prompts": 30}})
    text = report(*folders)
    told = re.findall(r"<li>(.*?)</li>", text[: text.index("<table")])
    assert [one.split()[0] for one in told] == [
        "<b>gtpo</b>:",
        "<b>grpo</b>:",
        "<b>&lt;dapo&gt;</b>:",
        "grpo",
        "&lt;dapo&gt;",
    ]
    assert "0.340 against 0.300, +0.040" in told[3]
    assert "lie apart" in told[4]


def test_a_run_of_an_earlier_version_has_a_head_too(tmp_path: Path) -> None:
    text = report(run(tmp_path / "a"))
    for row in ("algorithm", "preset", "model", "data", "seed"):
        assert cells(text, row) == ["not recorded"]
    assert '<p class="verdict">Not evaluated. ' in text


def test_runs_of_different_lengths_are_compared_at_the_same_steps(tmp_path: Path) -> None:
    long, short = run(tmp_path / "long", steps=30), run(tmp_path / "short", steps=12)
    for folder, steps in ((long, (10, 20, 30)), (short, (5, 10, 12))):
        lines(folder / "evaluations.jsonl", [{"step": s, "eval_aime_pass1": s / 100} for s in steps])
    text = report(long, short)
    assert re.search("<h2>[^<]*10 steps [^<]*3 to 12", text)
    assert cells(text, "reward") == ["0.75", "0.75"], "a tenth of 3 to 12 on average in both"
    assert cells(text, "Pass@1 on aime") == ["0.1", "0.1"], "at step 10, the last evaluation that both have by then"
    assert re.search(r"step 12, .* long \(step 30\)", text)


@pytest.mark.parametrize(
    ("steps", "heading"),
    [
        (1, "Step 1<"),
        (9, "Steps 1 to 9,"),
        (10, r"10 steps \(1 to 10\)"),
        (15, r"10 steps \(6 to 15\)"),
    ],
)
def test_the_table_says_which_steps_it_is_about_and_why(tmp_path: Path, steps: int, heading: str) -> None:
    assert re.search(f"<h2>[^<]*{heading}", report(run(tmp_path / "a", steps=steps)))


def test_the_curves_that_decide_come_first_and_the_others_are_folded(tmp_path: Path) -> None:
    row = {"rollout/pass_rate": 0.5, "actor_grad_norm": 1.0, "ppo_clip_ratio": 0.1, "timing/step_total": 2.0}
    folder = run(tmp_path / "a")
    lines(folder / "metrics.jsonl", [{"step": step, **row} for step in range(1, 5)])
    first, folded = report(folder).split('<details id="more">')
    assert re.findall("<figcaption>.*?<small>(.*?)<", first) == ["rollout/pass_rate", "actor_grad_norm"]
    folded = folded.split("</details>")[0]
    assert re.findall("<figcaption>.*?<small>(.*?)<", folded) == ["ppo_clip_ratio", "timing/step_total"]


def test_the_parts_of_a_step_are_all_there_and_add_up_to_it(tmp_path: Path) -> None:
    """Parts of parts say of which part, and come after the part that they are in."""
    folder = run(tmp_path / "a")
    parts = {"generation": 0.5, "make_experience": 0.12, "ppo_train": 0.32, "broadcast": 0.1}
    inner = {"reward/wait_after_generation": 0.02, "shaping/seconds": 0.003}
    row = {f"timing/{name}": seconds for name, seconds in parts.items()}
    lines(folder / "metrics.jsonl", [{"step": 1, "timing/step_total": sum(parts.values()), **row, **inner}])
    text = report(folder)
    told = re.findall(r"<th scope=row><a [^>]*>[^<]*\(part of ([^<]*)\)</a>.*?<td>(.*?)</td>", text)
    assert [whole for whole, _ in told] == ["a step", "generation", "a step", "the last", "a step", "a step"]
    added = sum(float(seconds) for whole, seconds in told if whole == "a step")
    assert cells(text, "time of a step") == ["1.04"]
    assert added == pytest.approx(1.04)


def test_what_differs_from_the_defaults_comes_first_and_all_flags_are_folded(tmp_path: Path) -> None:
    defaults = {"actor.adam.lr": 1e-06, "data.label_key": None, "ckpt.output_dir": "./ckpt"}
    settings = {"actor.adam.lr": 2e-5, "data.label_key": "label", "actor.max_norm": 1.0, "ckpt.output_dir": "/x"}
    text = report(record(run(tmp_path / "a"), defaults, **settings))
    first, folded = text[text.index("<h2>Settings") :].split("<details>")
    assert cells(first, "actor.adam.lr") == ["2e-05", "1e-06"]
    assert cells(first, "data.label_key") == ["label", "none"]
    assert "actor.max_norm" not in first
    assert "ckpt.output_dir" not in first, "where files are tells nothing about a run"
    assert cells(folded, "actor.max_norm") == ["1.0"]


def test_every_metric_of_a_run_is_explained_in_the_file_itself(driver: webdriver.Chrome, tmp_path: Path) -> None:
    folder = run(tmp_path / "a")
    lines(folder / "metrics.jsonl", [{"step": 1, "time": 2.0, "entropy/token_mean": 1.0, "my_<own>": 1.0}])
    report(folder)
    driver.get((folder / "report.html").as_uri())
    link = driver.find_element(By.CSS_SELECTOR, "figcaption a")
    assert link.text == "entropy"
    assert "Unit: nats." in (link.get_attribute("title") or "")
    entry = driver.find_element(By.ID, "metric-entropy/token_mean")
    assert not entry.is_displayed(), "folded"
    link.click()
    WebDriverWait(driver, 120).until(lambda _: entry.is_displayed())
    told = [one.text for one in driver.find_elements(By.CSS_SELECTOR, "#glossary dt, #glossary dd")]
    assert told[::2] == ["entropy/token_mean", "my_<own>"]
    assert "nats" in told[1]
    assert "extra_logs" in told[3]
    assert driver.get_log("browser") == []


@pytest.mark.parametrize("count", [1, 3])
def test_nothing_is_wider_than_a_phone(driver: webdriver.Chrome, tmp_path: Path, count: int) -> None:
    path = "a/long/path/without/any/space/" * 5
    folders = [
        record(
            run(tmp_path / f"run-{i}", ROLLOUTS, steps=50),
            {"preset": None},
            **{"actor.model_name_or_path": path + str(i)},
        )
        for i in range(count)
    ]
    for folder in folders:
        measured(folder / "before", {"aime": {"pass@1": (0.1, 0.05, 0.15), "prompts": 30}})
        measured(folder / "after", {"aime": {"pass@1": (0.3, 0.25, 0.35), "prompts": 30}})
    report(*folders)
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        driver.get((folders[0] / "report.html").as_uri())
        assert driver.execute_script("return document.documentElement.scrollWidth") == 390
        driver.execute_script("for (const folded of document.querySelectorAll('details')) folded.open = true")
        driver.execute_script("document.querySelectorAll('.token')[0].focus()")
        assert driver.execute_script("return document.documentElement.scrollWidth") == 390
        assert driver.find_element(By.CSS_SELECTOR, ".curve svg").size["width"] > 300, "and curves fill it"
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_runs_that_differ_in_nothing_but_their_seed_are_one_series(tmp_path: Path) -> None:
    folders = [
        record(run(tmp_path / "gtpo-seed-1"), **{"train.seed": 1, "ckpt.output_dir": "a"}),
        record(run(tmp_path / "grpo"), **{"preset": "grpo"}),
        record(run(tmp_path / "gtpo-seed-11"), **{"train.seed": 11, "ckpt.output_dir": "b"}),
        run(tmp_path / "old"),
    ]
    found = series([read(folder) for folder in folders])
    assert [(one.name, len(one.runs)) for one in found] == [("gtpo", 2), ("grpo", 1), ("old", 1)]


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
