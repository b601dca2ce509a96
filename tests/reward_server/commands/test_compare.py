"""``math-reward compare``: both graders on a file, the differences as a table, as rows and as a page in a browser."""

import functools
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By

from math_reward.commands.compare_file import Difference, Kind, kind_of
from math_reward.commands.rows import Row
from math_reward.grader import Grade, Verdict
from math_reward.page.comparison import page
from math_reward.pool.item import Item
from math_reward.pool.worker_pool import WorkerPool

from ...refusals import assert_refusal

pytest.importorskip("math_verify", reason="Math-Verify is in the extra 'math-verify'")

ROWS = [
    {"output": r"\boxed{\frac12}", "gold": "0.5", "label": True},
    {"output": r"\boxed{8}", "gold": "7", "label": False},
    # A number in words is one for us, and a text for Math-Verify.
    {"output": r"\boxed{twenty-five}", "gold": "25", "label": True},
    # A contradiction is not rewarded by us; Math-Verify takes its right side.
    {"output": "so 41 = 42", "gold": "42", "label": False},
    {"output": r"\boxed{4}", "gold": "", "label": True},
]
KINDS = ["both correct", "both wrong", "only ours correct", "only Math-Verify correct", "ours undecided"]


@pytest.fixture
def command(in_process: Any) -> Any:
    return functools.partial(in_process, "compare", "--workers", "1")


def test_the_verdicts_of_both_graders_on_every_kind_of_row(
    command: Any, write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "200")  # so that no reason is cut
    output = tmp_path / "pairs.jsonl"

    code, printed, _ = command("--file", write(*ROWS), "--output", str(output))

    pairs = [json.loads(line) for line in output.read_text().splitlines()]
    assert [pair["kind"] for pair in pairs] == KINDS
    assert [pair["ours"]["verdict"] for pair in pairs] == ["correct", "wrong", "correct", "ambiguous", "bad_reference"]
    assert [pair["math_verify"]["correct"] for pair in pairs] == [True, False, False, True, False]
    assert [pair["line"] for pair in pairs] == [1, 2, 3, 4, 5]
    assert code == 0
    lines = printed.splitlines()
    for kind in KINDS:
        assert f"  {kind:<26}         1   20.0%" in lines
    for grader, figures in (("ours ", "0.8000 5 0 1"), ("Math-Verify ", "0.4000 5 1 2")):
        (line,) = (line for line in lines if line.startswith(grader) and "accuracy" in line)
        assert re.findall(r"[\d.]+", line) == figures.split()
    assert "  false accepts: lines 4" in lines
    assert "  false rejects: lines 3, 5" in lines
    (only_ours,) = (line for line in lines if line.startswith("  3 "))
    assert only_ours.split()[:5] == ["3", "twenty-five", "25", "correct", "wrong"]
    assert pairs[3]["ours"]["detail"] in printed


def test_a_line_that_cannot_be_used_is_told_and_written_in_its_place(command: Any, write: Any, tmp_path: Path):
    output = tmp_path / "pairs.jsonl"

    code, printed, _ = command("--file", write(b"{", ROWS[0], b"[]"), "--output", str(output))

    written = [json.loads(line) for line in output.read_text().splitlines()]
    assert code == 1
    assert [(one["line"], "error" in one) for one in written] == [(1, True), (2, False), (3, True)]
    assert "bad lines    2 were skipped" in printed


def test_a_row_that_hangs_math_verify_is_timed_out_and_ends_nothing(
    command: Any, write: Any, stub_graders: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    def pool(workers: int, deadline: float, *grader: Any, **more: Any) -> WorkerPool:
        theirs = grader and grader[0].__name__ == "math_verify_grade"
        return WorkerPool(workers, deadline, *((stub_graders.obey_or_grade,) if theirs else grader), **more)

    monkeypatch.setattr("math_reward.commands.compare_file.WorkerPool", pool)
    output = tmp_path / "pairs.jsonl"
    hangs = {"output": "hang", "gold": "1"}

    code, printed, _ = command(
        "--file", write(hangs, {"output": "4", "gold": "4"}), "--output", str(output), "--math-verify-deadline", "0.5"
    )

    pairs = [json.loads(line) for line in output.read_text().splitlines()]
    assert code == 0
    assert [pair["math_verify"]["verdict"] for pair in pairs] == ["timed out", "correct"]
    assert [pair["kind"] for pair in pairs] == ["Math-Verify undecided", "both correct"]
    assert "Math-Verify  0 failed, 1 timed out" in printed.splitlines()


def test_what_a_model_writes_cannot_command_the_terminal(command: Any, write: Any):
    printed = command("--file", write({"output": "\\boxed{twenty-\x1b[31mfive\r\n\x07}", "gold": "25"}))[1]

    assert not set(printed) & {"\x1b", "\r", "\x07"}


@pytest.mark.parametrize(
    ("ours", "theirs", "kind"),
    [
        (Verdict.CORRECT, Verdict.CORRECT, Kind.BOTH_CORRECT),
        (Verdict.NO_ANSWER, Verdict.WRONG, Kind.BOTH_WRONG),
        (Verdict.CORRECT, Verdict.WRONG, Kind.ONLY_OURS),
        (Verdict.RESTATED, Verdict.CORRECT, Kind.ONLY_MATH_VERIFY),
        (Verdict.TIMEOUT, Verdict.CORRECT, Kind.OURS_UNDECIDED),
        (Verdict.BAD_REFERENCE, Verdict.WRONG, Kind.OURS_UNDECIDED),
        (Verdict.CORRECT, Verdict.ERROR, Kind.MATH_VERIFY_UNDECIDED),
        (Verdict.WRONG, Verdict.TIMEOUT, Kind.MATH_VERIFY_UNDECIDED),
        (Verdict.ERROR, Verdict.TIMEOUT, Kind.NEITHER_DECIDED),
    ],
)
def test_two_verdicts_make_a_kind(ours: Verdict, theirs: Verdict, kind: Kind):
    assert kind_of(Grade(ours, None, "1"), Grade(theirs, None, "1")) is kind


def test_without_math_verify_it_says_what_to_install(command: Any, write: Any, monkeypatch: pytest.MonkeyPatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *more: None if name == "math_verify" else find(name, *more)
    )

    code, printed, said = command("--file", write(*ROWS))
    assert (code, printed) == (2, "")
    assert_refusal(said, "math-reward[math-verify]")


@pytest.mark.parametrize("flag", ["--output", "--page"])
def test_a_file_that_cannot_be_written_is_refused(command: Any, write: Any, flag: str):
    code, printed, complaint = command("--file", write(*ROWS), flag, "/no/such/folder/x")

    assert (code, printed) == (2, "")
    assert_refusal(complaint, "/no/such/folder/x")


@pytest.fixture
def written(command: Any, write: Any, tmp_path: Path) -> Path:
    """The page on ROWS, whose last row would run a script if texts were markup."""
    path = tmp_path / "page.html"
    script = "document.title='run'"
    evil = {
        "output": f"</script><script>{script}</script><!--<script>\\boxed{{4}}",
        "gold": f"<img src=x onerror={script}>",
    }
    assert command("--file", write(*ROWS, evil), "--page", str(path))[0] == 0
    return path


def test_the_page_shows_and_filters_the_differences_from_a_file(driver: webdriver.Chrome, written: Path):
    driver.get_log("browser")
    driver.get(written.as_uri())

    def lines() -> list[str]:
        return [one.text.split(":")[0] for one in driver.find_elements(By.CSS_SELECTOR, "article h2")]

    def box(kind: str) -> Any:
        return driver.find_element(By.CSS_SELECTOR, f'#kinds input[value="{kind}"]')

    assert {"Line 3", "Line 4", "Line 5"} <= set(lines())
    assert box("both correct").get_property("disabled")
    box("ours undecided").click()
    box("only Math-Verify correct").click()
    assert lines()[0] == "Line 3"
    card = driver.find_element(By.CSS_SELECTOR, "article")
    assert card.find_element(By.CSS_SELECTOR, "math mn").text == "25"
    assert [tag.text for tag in card.find_elements(By.CSS_SELECTOR, ".tag")] == ["correct", "wrong"]
    driver.find_element(By.ID, "search").send_keys("no such text")
    assert lines() == []
    assert driver.title.startswith("Two graders on ")
    assert driver.get_log("browser") == []


def test_the_page_runs_no_script_but_its_own(driver: webdriver.Chrome, written: Path, tmp_path: Path):
    other = tmp_path / "other.html"
    other.write_text(written.read_text().replace("</body>", "<script>document.title = 'run'</script></body>"))

    driver.get(other.as_uri())

    assert driver.title.startswith("Two graders on ")
    assert any("Content Security Policy" in entry["message"] for entry in driver.get_log("browser"))


def test_the_page_loads_nothing_and_holds_half_a_surrogate_pair():
    row = Row(1, Item("\ud800", "\ud800 <", None), None)
    one = Difference(row, Kind.ONLY_OURS, Grade(Verdict.CORRECT, "\ud800", "\ud800"), Grade(Verdict.WRONG, None, ""))

    text = page("rows\ud800.jsonl", 1, {"only ours correct": 1}, [one.as_dict()], 500)

    text.encode("utf-8")
    assert "default-src 'none'" in text
    assert "http://" not in text
    assert "https://" not in text
    assert functools.reduce(lambda rest, end: rest.partition(end)[2], ['id="data">', "<"], text).startswith("/script>")
