"""The command line of an evaluation: what is refused before anything starts."""

import json
from pathlib import Path

import pytest

from openrlhf_gtpo.cli import main


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "aime.jsonl"
    path.write_text(json.dumps({"input": "6*7?", "label": "42"}) + "\n")
    return path


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--n", "4"], "--k has 8, but Pass@k needs 1 <= k <= n, and --n is 4."),
        (["--k", "one"], "--k is 'one', but needs whole numbers with commas between them."),
        (["--temperature", "-1"], "--temperature is -1.0, but needs to be 0 or more."),
        (["--top_p", "0"], "--top_p is 0.0, but needs to be above 0 and at most 1."),
        (["--max_new_tokens", "0"], "--max_new_tokens is 0, but needs to be at least 1."),
        (["--max_prompts", "0"], "--max_prompts is 0, but needs to be at least 1."),
        (["--label_key", "gold"], "line 1: it has no 'gold'; name the column by --label_key."),
    ],
)
def test_what_has_no_meaning_is_refused_in_one_sentence(
    data: Path, tmp_path: Path, flags: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["eval", "--model", "m", "--data", str(data), "--out", str(tmp_path / "out"), *flags])
    said = capsys.readouterr().err
    assert status == 2
    assert said.startswith("openrlhf-gtpo eval: error: ")
    assert said.rstrip().endswith(sentence)
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "out" / "eval.jsonl").exists()


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        ("{folder}/no", "There is no folder {folder}/no, and "),
        ("nobody/nothing-7b", "without a model nobody/nothing-7b in its cache: give a folder, or download it once by"),
    ],
)
def test_a_model_that_is_not_there_is_refused_before_vllm_starts(
    data: Path, tmp_path: Path, model: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path)
    flags = ["--model", model.format(folder=folder), "--data", str(data), "--out", str(tmp_path / "out")]
    assert main(["eval", "--device", "cpu", *flags]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("openrlhf-gtpo eval: error: --model: ")
    assert sentence.format(folder=folder) in said
    assert not (tmp_path / "out").exists()


def test_two_benchmarks_of_one_name_are_refused(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", "--model", "m", "--data", str(data), str(data), "--out", str(tmp_path / "out")]) == 2
    assert "--data names two files of the same name, which names the benchmark: rename one." in capsys.readouterr().err
