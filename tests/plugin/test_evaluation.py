"""The command line of an evaluation: what is refused before anything starts."""

import json
from pathlib import Path

import pytest

from openrlhf_gtpo.cli import main
from openrlhf_gtpo.evaluation import Response, figures

from ..refusals import assert_refusal


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "aime.jsonl"
    path.write_text(json.dumps({"input": "6*7?", "label": "42"}) + "\n")
    return path


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--n", "4"], ["--k is 1,2,4,8,16,32", "--n is 4"]),
        (["--k", "0,1"], ["--k is 0,1"]),
        (["--k", "one"], ["--k is 'one'"]),
        (["--label_key", "gold"], ["line 1", "'gold'", " --label_key"]),
        (["--data", "{data}", "{data}"], ["--data", "same name"]),
    ],
)
def test_what_has_no_meaning_is_refused_before_anything_starts(
    data: Path, tmp_path: Path, flags: list[str], named: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--device", "cpu", "--model", "nobody/nothing-7b", "--data", str(data), "--out", str(tmp_path / "out")]
    assert main(["eval", *asked, *(flag.format(data=data) for flag in flags)]) == 2
    said = capsys.readouterr().err
    assert_refusal(said, "openrlhf-gtpo eval: error: ", *(name.format(data=data) for name in named))
    assert not (tmp_path / "out").exists()


def test_figures_are_means_over_prompts_with_pass_at_k_of_chens_estimator() -> None:
    """Two prompts of three responses: 1 and 2 correct. Pass@2 is 1 - C(wrong, 2) / C(3, 2): 2/3 and 1."""
    right = {0: (True, False, False), 1: (True, True, False)}
    responses = [
        Response("aime", prompt, i, "x", 4 * (prompt + 1), 0.5 + prompt, i == 2, float(correct), correct, verdict=None)
        for prompt, of in right.items()
        for i, correct in enumerate(of)
    ]
    found = figures(responses, 3, [1, 2, 3])
    means = {name: value["mean"] for name, value in found.items() if isinstance(value, dict)}
    assert (found["prompts"], found["n"]) == (2, 3)
    assert means == pytest.approx(
        {
            "mean@3": 0.5,
            "pass@1": 0.5,
            "pass@2": 5 / 6,
            "pass@3": 1.0,
            "response_length": 6.0,
            "truncated": 1 / 3,
            "entropy_response_mean": 1.0,
            "entropy_token_mean": (12 * 0.5 + 24 * 1.5) / 36,
        }
    )
