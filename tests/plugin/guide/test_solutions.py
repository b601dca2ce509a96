"""Files of worked solutions: what is read, what is refused, and to which prompts they belong."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from openrlhf.datasets.prompts_dataset import PromptDataset

from openrlhf_gtpo.checks.files import check_guide
from openrlhf_gtpo.guide.solutions import SolutionsUnusable, read_solutions, solutions_by_prompt
from openrlhf_gtpo.settings import Settings

from ...refusals import assert_refusal


def write(folder: Path, *rows: Any) -> str:
    path = folder / "solutions.jsonl"
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_a_text_or_a_list_of_texts_is_read_and_blank_lines_are_not(tmp_path: Path) -> None:
    rows = [{"q": "1+1?", "solution": "It is 2."}, "", {"q": "2+2?", "solution": ["It is 4.", "4"], "other": 1}]
    assert read_solutions(write(tmp_path, *rows), "q") == [("1+1?", ["It is 2."]), ("2+2?", ["It is 4.", "4"])]


GOOD = {"q": "1+1?", "solution": "2"}


THIRD = ["(line 3)", "'q'", "'solution'"]


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        ([GOOD, "", "{not json"], THIRD),
        ([GOOD, "", ["1+1?", "2"]], THIRD),
        ([GOOD, "", {"solution": "2"}], THIRD),
        ([GOOD, "", {"q": "", "solution": "2"}], THIRD),
        ([GOOD, "", {"q": "1+1?"}], THIRD),
        ([GOOD, "", {"q": "1+1?", "solution": ""}], THIRD),
        ([GOOD, "", {"q": "1+1?", "solution": " \n"}], THIRD),
        ([GOOD, "", {"q": "1+1?", "solution": 2}], THIRD),
        ([GOOD, "", {"q": "1+1?", "solution": []}], THIRD),
        ([GOOD, "", {"q": "1+1?", "solution": ["2", ""]}], THIRD),
        ([GOOD, "", {"q": "1+1?", "solution": ["2", None]}], THIRD),
        ([GOOD, "", {"q": "1+1?", "solution": {"text": "2"}}], THIRD),
        (["x"] * 5, ["5 lines", "(line 1, 2, 3, ...)"]),
        (["", " "], ["empty"]),
        (b"\xff\xfe\x00", ["UTF-8"]),
        (None, ["No such file"]),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_lines(
    tmp_path: Path, rows: list[Any] | bytes | None, named: list[str]
) -> None:
    path = tmp_path / "solutions.jsonl"
    if isinstance(rows, bytes):
        path.write_bytes(rows)
    elif rows is not None:
        write(tmp_path, *rows)
    with pytest.raises(SolutionsUnusable) as refused:
        read_solutions(str(path), "q")
    assert_refusal(str(refused.value), "--guide.solutions", str(path), *named)


def test_the_driver_finds_it_before_anything_starts(tmp_path: Path) -> None:
    flags = {"guide.model": None, "data.input_key": "q"}
    assert check_guide(Settings({**flags, "guide.solutions": None})) == []
    assert check_guide(Settings({**flags, "guide.solutions": write(tmp_path, GOOD)})) == []
    (found,) = check_guide(Settings({**flags, "guide.solutions": str(tmp_path / "gone.jsonl")}))
    assert_refusal(found.sentence, "--guide.solutions", "gone.jsonl")


# ── the prompts they belong to ──

MESSAGES = [{"role": "user", "content": "2+2?"}]


def arguments(*, chat: bool, template: str | None) -> SimpleNamespace:
    data = SimpleNamespace(
        input_key="q", label_key="answer", apply_chat_template=chat, input_template=template, image_key="images"
    )
    return SimpleNamespace(data=data)


@pytest.mark.parametrize(
    ("chat", "template", "prompts"),
    [
        (True, None, ["<user>1+1?<end><assistant>", "<user>2+2?<end><assistant>"]),
        (False, "Question: {}\nAnswer:", ["Question: 1+1?\nAnswer:", "Question: 3?\nAnswer:"]),
        (False, None, ["1+1?", "3?"]),
    ],
)
def test_prompts_are_those_that_openrlhf_puts_to_the_policy(
    tmp_path: Path, tokenizer: Any, chat: bool, template: str | None, prompts: list[str]
) -> None:
    second = MESSAGES if chat else "3?"
    rows = [{"q": "1+1?", "solution": "a"}, {"q": second, "solution": ["b", "c"]}, {"q": "1+1?", "solution": "d"}]
    args = arguments(chat=chat, template=template)
    found = solutions_by_prompt(write(tmp_path, *rows), args, tokenizer)
    assert found == dict(zip(prompts, [["a", "d"], ["b", "c"]], strict=True))

    strategy = SimpleNamespace(args=args, is_rank_0=lambda: False)
    data = [{"q": "1+1?", "answer": "2"}, {"q": second, "answer": "4"}]
    theirs = PromptDataset(data, tokenizer, strategy, input_template=template)
    assert list(theirs.prompts) == prompts == list(found)
