"""Small parquet files with the columns of data sets that people train on, and with the traps of the originals."""

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from openrlhf_gtpo.cli import main

DAPO = (
    "Solve the following math problem step by step. The last line of your response should be of the form Answer: "
    "$Answer (without quotes) where $Answer is the answer to the problem.\n\n{}\n\nRemember to put your answer on its "
    'own line after "Answer:".'
)
BOX = "Please reason step by step, and put your final answer within \\boxed{}."


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def rule(answer: str) -> dict[str, str]:
    return {"ground_truth": answer, "style": "rule"}


SETS: list[tuple[str, list[dict[str, Any]], dict[str, str], dict[str, int]]] = [
    (
        "gsm8k",
        [
            {"question": "Clips?", "answer": "48/2 = <<48/2=24>>24\n48+24 = <<48+24=72>>72\n#### 72"},
            {"question": "Dollars?", "answer": "so $1,080.\n#### 1,080"},
            {"question": "Loss?", "answer": "#5 is first.\n#### -3"},
        ],
        {"Clips?": "72", "Dollars?": "1,080", "Loss?": "-3"},
        {},
    ),
    (
        "math",
        [
            {"problem": "A?", "level": "Level 5", "type": "Algebra", "solution": r"$x=\boxed{\frac{1}{\sqrt{2}}}$."},
            {"problem": "B?", "level": "Level 1", "type": "Algebra", "solution": r"First \boxed{3}, then \boxed{4}."},
            {"problem": "C?", "level": "Level ?", "type": "Geometry", "solution": r"So it is $\boxed 7$."},
            {"problem": "D?", "level": "Level 2", "type": "Geometry", "solution": r"$\fbox{(1, 2]}$"},
            {"problem": "E?", "level": "Level 2", "type": "Geometry", "solution": "It is clear."},
        ],
        {"A?": r"\frac{1}{\sqrt{2}}", "B?": "4", "C?": "7", "D?": "(1, 2]"},
        {"no question or no answer": 1},
    ),
    (
        "dapo17k",
        [
            {
                "data_source": "math_dapo",
                "prompt": user(DAPO.format(question)),
                "ability": "MATH",
                "reward_model": rule(answer),
                "extra_info": {"index": str(place)},
            }
            for place, (question, answer) in enumerate([("A?", "34"), ("A?", "34"), ("B\n\nC?", "-2")])
        ],
        {"A?": "34", "B\n\nC?": "-2"},
        {},
    ),
    (
        "numina",
        [
            {"problem": problem, "solution": solution, "answer": answer, "question_type": "MCQ", "source": "olympiads"}
            for problem, solution, answer in [
                ("A?", "long", r"\frac{1}{2}"),
                ("B?", "Suppose ... as claimed.", "proof"),
                ("C?", "", "notfound"),
                ("D?", r"Hence $\boxed{5}$", ""),
                ("E?", "long", "B"),
                ("F?", "", None),
            ]
        ],
        {"A?": r"\frac{1}{2}", "D?": "5", "E?": "B"},
        {"a proof or a note in place of an answer": 2, "no question or no answer": 1},
    ),
    (
        "skywork",
        [
            {
                "data_source": "train-math-numina",
                "prompt": user(f"{question}\n\n{BOX}"),
                "ability": "math",
                "reward_model": rule(answer),
                "extra_info": {"index": place, "model_difficulty": {"DeepSeek-R1-Distill-Qwen-7B": 3}},
            }
            for place, (question, answer) in enumerate(
                [("A?", '["3"]'), ("B?", r'["\\frac{1}{2}"]'), ("C?", '["1", "2"]'), ("D?", '["x \\\\geq 1"]')]
            )
        ],
        {"A?": "3", "B?": r"\frac{1}{2}", "D?": r"x \geq 1"},
        {"no question or no answer": 1},
    ),
]


@pytest.mark.parametrize(("name", "table", "labels", "left_out"), SETS, ids=[name for name, *_ in SETS])
def test_a_known_set_is_read_with_its_traps(
    name: str, table: list[dict[str, Any]], labels: dict[str, str], left_out: dict[str, int], tmp_path: Path
) -> None:
    source = tmp_path / "train-00000-of-00001.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(table), source)
    assert main(["data", "prepare", name, "--from", str(source), "--out", str(tmp_path), "--drop-ungradable"]) == 0
    written = [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {row["input"].removesuffix(f"\n\n{BOX}"): row["label"] for row in written} == labels
    assert all(row["input"].count(BOX) == 1 for row in written)
    counts = json.loads((tmp_path / f"{name}.counts.json").read_text())
    assert {kind: count for kind, count in counts.items() if kind not in ("prompts", "repeated")} == left_out
