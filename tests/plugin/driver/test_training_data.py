"""Rows that would spoil a run are named, with their lines, before anything starts."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from openrlhf_gtpo.driver.training_data import check_training_data

GOOD = [{"input": "What is 1+1?", "label": "2"}, {"input": "What is 2+2?", "label": "4"}]


def said(parser: argparse.ArgumentParser, path: Path, *flags: str) -> tuple[list[str], list[str]]:
    given = ["--data.prompt_dataset", str(path), "--data.label_key", "label", *flags]
    return check_training_data(vars(parser.parse_args(given)))


def write(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_good_data_is_let_through_without_a_word(parser: argparse.ArgumentParser, tmp_path: Path) -> None:
    assert said(parser, write(tmp_path / "a.jsonl", GOOD)) == ([], [])


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"input": "What is 3+3?", "label": ""}, "line 3 has an empty 'label'"),
        ({"input": "What is 3+3?", "label": None}, "line 3 has no 'label'"),
        ({"input": "What is 3+3?", "label": ["6"]}, "line 3 has a 'label' that is a list, not a text"),
        ({"input": "What is 3+3?", "label": True}, "line 3 has a 'label' that is true or false, not a text"),
        ({"input": "", "label": "6"}, "line 3 has an empty 'input'"),
        ({"question": "What is 3+3?", "label": "6"}, "line 3 has no 'input'"),
        (["What is 3+3?", "6"], "line 3 is no JSON object"),
    ],
)
def test_a_row_that_would_poison_the_run_is_refused_with_its_line(
    parser: argparse.ArgumentParser, tmp_path: Path, row: Any, words: str
) -> None:
    faults, _ = said(parser, write(tmp_path / "a.jsonl", [*GOOD, row]))
    assert len(faults) == 1
    assert words in faults[0]
    assert str(tmp_path / "a.jsonl") in faults[0]


def test_numbers_among_texts_are_labels_as_in_every_other_command(
    parser: argparse.ArgumentParser, tmp_path: Path
) -> None:
    assert said(parser, write(tmp_path / "a.jsonl", [*GOOD, {"input": "What is 1/2?", "label": 0.5}])) == ([], [])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_a_file_that_is_not_utf_8_is_refused_in_one_sentence(
    parser: argparse.ArgumentParser, tmp_path: Path, encoding: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(GOOD[0]), encoding=encoding)
    name = encoding.upper()
    sentence = f"{path} cannot be read: it is {name} and has to be UTF-8: save it as that."
    assert said(parser, path) == ([sentence], [])


def test_each_file_of_a_mixture_and_the_evaluations_file_are_looked_at(
    parser: argparse.ArgumentParser, tmp_path: Path
) -> None:
    good = write(tmp_path / "good.jsonl", GOOD)
    bad, worse = (write(tmp_path / f"{name}.jsonl", ["oops"]) for name in ("bad", "worse"))
    given = ["--data.prompt_dataset", f"{good}, {bad}", "--data.label_key", "label", "--eval.dataset", str(worse)]
    faults, warnings = check_training_data(vars(parser.parse_args(given)))
    assert [fault.partition(":")[0] for fault in faults] == [str(bad), str(worse)]
    assert warnings == []


def test_a_prompt_that_comes_twice_is_told_and_not_refused(parser: argparse.ArgumentParser, tmp_path: Path) -> None:
    faults, warnings = said(parser, write(tmp_path / "a.jsonl", [*GOOD, GOOD[0]]))
    assert faults == []
    assert len(warnings) == 1
    assert "1 row repeats a prompt, in line 3" in warnings[0]


def test_without_a_label_key_no_labels_are_asked_for(parser: argparse.ArgumentParser, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [{"input": "Say hello."}])
    assert check_training_data(vars(parser.parse_args(["--data.prompt_dataset", str(path)]))) == ([], [])


@pytest.mark.parametrize("source", ["org/dataset-on-a-hub", "data/a.jsonl,data/b.jsonl", "no/such.jsonl"])
def test_what_is_no_file_here_is_left_to_openrlhf(parser: argparse.ArgumentParser, source: str) -> None:
    assert check_training_data(vars(parser.parse_args(["--data.prompt_dataset", source]))) == ([], [])


def test_a_json_array_is_left_to_openrlhf(parser: argparse.ArgumentParser, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(GOOD))
    assert said(parser, tmp_path / "a.json") == ([], [])


def test_the_flags_in_a_sentence_are_those_of_training(parser: argparse.ArgumentParser, tmp_path: Path) -> None:
    path = write(tmp_path / "--label_key of mine.jsonl", GOOD)
    faults, _ = said(parser, path, "--data.label_key", "gold")
    assert faults == [
        f"{path} has no 'gold' in any line: name the column by --data.label_key (there are 'input', 'label')."
    ]
    faults, _ = said(parser, path, "--data.input_key", "question")
    assert faults == [
        f"{path} has no 'question' in any line: name the column by --data.input_key (there are 'input', 'label')."
    ]
