"""`openrlhf-gtpo credit`: what it refuses, an interrupt, what it says and shows, and a whole run with vLLM."""

import json
import subprocess
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrlhf_gtpo.cli import main
from openrlhf_gtpo.compare import credit
from openrlhf_gtpo.compare.credit_picture import label, shown, window
from openrlhf_gtpo.errors import UserError

from ... import preloaded
from ...refusals import assert_refusal


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ("", ["--model", "--data"]),
        ("--run {here}", ["--run {here}", "run.json"]),
        ("--model x --data {here}/none.jsonl", ["none.jsonl"]),
        ("--model x --data x.jsonl --estimators gppo", ["--estimators", "gppo"]),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_starts(
    flags: str, named: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["credit", "--out", str(tmp_path / "out"), *flags.format(here=tmp_path).split()]) == 2
    said = capsys.readouterr().err
    assert_refusal(said, "openrlhf-gtpo credit: error: ", *(name.format(here=tmp_path) for name in named))
    assert not (tmp_path / "out").exists()


def test_an_interrupt_keeps_the_prompts_that_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [([["a"]] * 4, 10), ([["b"]] * 4, 1)]
    monkeypatch.setattr(credit, "valued", lambda *_: answers.pop() if answers else interrupt())

    def interrupt() -> None:
        raise KeyboardInterrupt

    args: Any = (None, [None] * 10, Namespace(k=2, positions=None))
    assert credit._valued(*args) == ([["b"]] * 4 + [["a"]] * 4, 11)
    with pytest.raises(UserError) as caught:
        credit._valued(*args)
    assert_refusal(str(caught.value), "Interrupted", "--positions")


def test_the_report_says_whether_entropy_marks_decisions_and_who_explains_more() -> None:
    """Responses of ten tokens, of which the last alone is worth anything and has four times the others' gradient:
    GRPO's credit, 1 for each, explains 4^2 / (4 * (4 + 9)), and one that is as the worth everything."""
    worth = np.eye(10)[9] * 0.5

    def said(entropy: np.ndarray, other: np.ndarray) -> tuple[dict[str, Any], str]:
        line = {"tokens": ["x"] * 10, "entropy": entropy, "logprob": np.zeros(10), "weight": np.ones(10)}
        sides = [(True, np.cumsum([0, *worth])), (False, -np.cumsum([0, *worth]))]
        group = [{**line, "correct": c, "values": np.tile(v, (4, 1)), "agreement": 2 + 6 * worth} for c, v in sides]
        sign = np.tile(np.repeat([1, -1], 10), 2)
        found = credit.figures(credit.tokens_of([group] * 2), {"GRPO": 1.0 * sign, "mine": np.tile(other, 4) * sign})
        about = {"prompts": 2, "prompts sampled": 4, "pass rate": 0.5, "tokens valued": 40, "tokens": 40}
        return found, "\n".join(credit.report({**about, "continuations": 32, "tokens drawn": 9, **found}))

    found, text = said(3 * worth, 4 * worth)
    assert "Entropy marks decisions here" in text
    assert "mine explains more of the true credit than GRPO: the difference is 0.692 (0.692 to 0.692)." in text
    assert found["mean credit"]["mine"] == {
        "right": [0, None, None, None, 0.5, None],
        "wrong": [0, None, None, None, -0.5, None],
    }
    assert "no tokens" in text
    _, text = said(1 - worth, np.ones(10))
    assert "That entropy marks decisions is not shown" in text
    assert "That mine explains more or less" in text


def test_the_picture_shows_a_window_around_what_was_worth_most_and_short_responses_first() -> None:
    def line(correct: bool, length: int, at: int, worth: float) -> dict[str, Any]:
        return {
            "correct": correct,
            "tokens": ["x"] * length,
            "advantage": np.where(np.arange(length) == at, worth, np.nan),
        }

    long, short = line(True, 100, 60, -0.9), line(True, 10, 3, 0.2)
    wrong = [line(False, 10, 3, 0.1), line(False, 10, 3, -0.4)]
    assert shown([[long, short, *wrong], [line(True, 10, 3, 0.9), wrong[0]]]) == [short, wrong[1]]
    assert (window(long), window(short), window(line(True, 100, 98, 1))) == (range(47, 73), range(10), range(74, 100))
    tokens = ["\n", " ", " $5", "<|im_end|>", "multiplication"]
    assert [label(token) for token in tokens] == ["⏎", "␣", r"\$5", "im_end", "multipl…"]


@pytest.mark.engine
def test_a_whole_run_says_what_each_token_was_worth(
    policy: Path, written: Callable[..., Path], tmp_path: Path
) -> None:
    """A response is right where its length has the parity of the label."""
    reward = tmp_path / "parity.py"
    reward.write_text(
        "def reward_func(queries, prompts, labels):\n"
        "    return {'rewards': [float((len(queries[0]) - len(prompts[0])) % 2 == int(labels[0]))]}\n"
    )
    data, out = written(*({"input": f"{i}?", "label": i % 2} for i in range(6))), tmp_path / "out"
    command = f"""-m openrlhf_gtpo credit --model {policy} --data {data} --out {out} --reward.remote_url {reward}
        --device cpu --prompts 3 --n 4 --k 3 --max_new_tokens 5 --positions 2"""
    done = subprocess.run([preloaded.python(), *command.split()], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    record = json.loads((out / "credit.json").read_text(), parse_constant=pytest.fail)
    assert (record["prompts"], record["continuations"]) == (3, 8)
    assert list(record["explained"])[:2] == ["GRPO", "GTPO"]
    assert "the top 20 % of tokens by entropy hold" in done.stdout
    assert (out / "credit.png").read_bytes().startswith(b"\x89PNG")
    lines = [json.loads(line) for line in (out / "values.jsonl").read_text().splitlines()]
    assert len(lines) == 12
    for line in lines:
        text = "".join(line["tokens"]).removesuffix("<end>")
        assert line["correct"] == (len(text) % 2 == int(line["label"]))
        assert {stream[-1] for stream in line["values"]} == {float(line["correct"])}
        assert sum(weight > 0 for weight in line["weight"]) <= 2
