"""The command line of an evaluation: what is refused before anything starts."""

import json
from pathlib import Path

import pytest

from openrlhf_gtpo.cli import main

from ...refusals import assert_refusal


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "aime.jsonl"
    path.write_text(json.dumps({"input": "6*7?", "label": "42"}) + "\n")
    return path


AT_THE_BOUNDS = ["--k", "1", "--n", "1", "--temperature", "0", "--top_p", "1"]


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--n", "4"], ["--k has 8", "--n is 4"]),
        (["--k", "0,1"], ["--k has 0"]),
        (["--k", "one"], ["--k is 'one'"]),
        (["--temperature", "-1"], ["--temperature is -1.0"]),
        (["--top_p", "0"], ["--top_p is 0.0"]),
        (["--top_p", "1.01"], ["--top_p is 1.01"]),
        (["--max_new_tokens", "0"], ["--max_new_tokens is 0"]),
        (["--max_prompts", "0"], ["--max_prompts is 0"]),
        (["--label_key", "gold"], ["line 1", "'gold'", "--label_key"]),
        (["--data", "{data}", "{data}"], ["--data", "same name"]),
        (["--model", "{data}/no"], ["--model", "folder {data}/no"]),
        ([*AT_THE_BOUNDS, "--max_new_tokens", "1", "--max_prompts", "1"], ["--model", "nobody/nothing-7b"]),
    ],
)
def test_what_has_no_meaning_is_refused_before_anything_starts(
    data: Path, tmp_path: Path, flags: list[str], named: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The last row is at every bound, and its model alone is refused."""
    asked = ["--device", "cpu", "--model", "nobody/nothing-7b", "--data", str(data), "--out", str(tmp_path / "out")]
    assert main(["eval", *asked, *(flag.format(data=data) for flag in flags)]) == 2
    said = capsys.readouterr().err
    assert_refusal(said, "openrlhf-gtpo eval: error: ", *(name.format(data=data) for name in named))
    assert not (tmp_path / "out").exists()
