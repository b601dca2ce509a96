"""Reading a benchmark, and what is said about a file that is none."""

import json
from pathlib import Path

import pytest

from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.evaluation.benchmark import load

from ...refusals import assert_refusal


def write(folder: Path, *lines: object) -> Path:
    path = folder / "aime24.jsonl"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def test_prompts_are_texts_or_chats_and_references_texts_or_numbers(tmp_path: Path) -> None:
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+1?", "extra": 1}]
    path = write(tmp_path, {"input": "6*7?", "label": 42}, "", {"input": chat, "label": r"\frac{1}{2}"})
    benchmark = load(path, "input", "label")
    assert benchmark.name == "aime24"
    first, second = benchmark.prompts
    assert first.messages == ({"role": "user", "content": "6*7?"},)
    assert first.reference == "42"
    assert [m["content"] for m in second.messages] == ["Be brief.", "1+1?"]


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (["{broken"], ["line 1", "JSON"]),
        ([{"input": "q", "label": "a"}, {"input": "q"}], ["line 2", "'label'", "--label_key"]),
        ([{"question": "q", "label": "a"}], ["line 1", "'input'", "--input_key"]),
        ([{"input": [1], "label": "a"}], ["line 1", "'input'"]),
        ([""], ["--data", "no prompts"]),
        (None, ["--data", "cannot be read"]),
    ],
)
def test_a_file_that_is_no_benchmark_is_refused_with_the_line(
    tmp_path: Path, lines: list[object] | None, named: list[str]
) -> None:
    path = tmp_path / "aime24.jsonl" if lines is None else write(tmp_path, *lines)
    with pytest.raises(SettingsError) as refused:
        load(path, "input", "label")
    assert_refusal(str(refused.value), str(path), *named)
