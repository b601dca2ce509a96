"""The report: what it reads and what it holds."""

import re
from pathlib import Path

import pytest

from openrlhf_gtpo.cli import main
from openrlhf_gtpo.report.curves import CURVES

from ...refusals import assert_refusal
from .files import ROLLOUTS, lines, measured, record, run


def report(*folders: Path) -> str:
    assert main(["report", *map(str, folders)]) == 0
    return (folders[0] / "report.html").read_text()


def cells(text: str, row: str) -> list[str]:
    """Of the table row of that name, without tags."""
    found = re.search(rf"<th scope=\"row\">{re.escape(row)}</th>(.*?)</tr>", text, re.DOTALL)
    assert found is not None, row
    return [re.sub(r"<[^>]+>", "", cell).strip() for cell in re.findall(r"<td>(.*?)</td>", found[1], re.DOTALL)]


def test_the_report_is_one_file_that_asks_nobody_for_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = report(run(tmp_path / "a", ROLLOUTS), run(tmp_path / "<b>"))
    assert capsys.readouterr().out == f"{tmp_path / 'a' / 'report.html'}\n"
    assert main(["report", str(tmp_path / "a"), "--out", str(tmp_path / "new" / "page.html")]) == 0
    assert (tmp_path / "new" / "page.html").is_file()
    assert "<title>a, &lt;b&gt;</title>" in text
    for reference in ("src=", "@import", "url(http", "<link", "fetch("):
        assert reference not in text


def test_a_page_has_the_curves_of_what_its_runs_have_and_nothing_of_the_others(tmp_path: Path) -> None:
    text = report(run(tmp_path / "a"), run(tmp_path / "b"))
    shown = [title for title in CURVES.values() if title in text]
    assert shown == [CURVES["rollout/pass_rate"], CURVES["entropy/token_mean"]]
    assert text.count("<svg") == 2
    folder = run(tmp_path / "c")
    lines(folder / "metrics.jsonl", [{"step": step, **dict.fromkeys(CURVES, 0.5)} for step in (1, 2)])
    text = report(folder)
    assert all(title in text for title in CURVES.values())


@pytest.mark.parametrize(
    ("file", "content", "named"),
    [
        ("metrics.jsonl", None, ["no run"]),
        ("metrics.jsonl", "", ["no step"]),
        ("metrics.jsonl", '{"step": 1}\n{broken\n{"step": 2}\n', ["line 2", "JSON"]),
        ("metrics.jsonl", '{"rollout/pass_rate": 0.5}\n', ["line 1", "no 'step'"]),
        ("before/eval.json", "[1]", ["no JSON object"]),
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


def test_runs_stand_side_by_side_with_their_evaluations_and_what_they_differ_in(tmp_path: Path) -> None:
    folders = [record(run(tmp_path / "a")), record(run(tmp_path / "b"), **{"preset": "grpo", "actor.eps": "<0.2>"})]
    with (folders[1] / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "rollou')  # it is still writing
    measured(
        folders[0] / "before", {"aime": {"pass@1": (0.1, 0.05, 0.15), "length": (218.26, 17.64, 9.5), "prompts": 30}}
    )
    for folder, mean in zip(folders, (0.3, 0.4), strict=True):
        measured(folder / "after", {"aime": {"pass@1": (mean, mean - 0.05, mean + 0.05), "prompts": 30}})
    text = report(*folders)
    first, second = cells(text, "pass@1 on aime")
    assert first == "0.100 (0.050 to 0.150) → 0.300 (0.250 to 0.350)"
    assert second == "→ 0.400 (0.350 to 0.450)"
    assert "prompts on aime" not in text
    assert cells(text, "length on aime")[0] == "218 (17.6 to 9.50)", "three digits"
    assert cells(text, "preset") == ["gtpo", "grpo"]
    assert cells(text, "actor.eps") == ["None", "&lt;0.2&gt;"]
    assert "train.seed" not in text


def test_a_report_begins_with_the_algorithm_and_what_came_out(tmp_path: Path) -> None:
    folder = record(run(tmp_path / "mine", steps=20), **{"algo.advantage.estimator": "grpo_s"})
    lines(
        folder / "metrics.jsonl",
        [{"step": s, "rollout/pass_rate": s / 20, "groups/shaped_share": 0.25} for s in range(1, 21)],
    )
    measured(folder / "before", {"aime": {"pass@1": (0.1, 0.05, 0.15), "pass@8": (0.3, 0.2, 0.4)}})
    measured(folder / "after", {"aime": {"pass@1": (0.3, 0.25, 0.35), "pass@8": (0.5, 0.4, 0.6)}})
    text = report(folder)
    assert "<title>mine: GRPO-S</title>" in text
    results = text[text.index('id="results"') : text.index("Over training")]
    assert re.findall(r'scope="row">(.*?)</th>', results) == [
        "pass@1 on aime",
        "correct in training, first and last tenth of the steps",
        "mixed groups in which entropy distributes anything",
        "steps",
    ]
    assert cells(results, "pass@1 on aime") == ["0.100 (0.050 to 0.150) → 0.300 (0.250 to 0.350)"]
    assert cells(results, "correct in training, first and last tenth of the steps") == ["0.075 → 0.975"]
    assert cells(results, "mixed groups in which entropy distributes anything") == ["0.250"]
