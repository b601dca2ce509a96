"""What an evaluation leaves behind, and how it goes on from it."""

from dataclasses import replace
from pathlib import Path

import pytest

from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.evaluation.record import Record, Response, figures, table

SETTINGS = {"model": "policy", "n": 2, "temperature": 1.0}


def response(prompt: int, sample: int, correct: bool = True, **changes: object) -> Response:
    made = Response("aime", prompt, sample, "So 42.", 10, 0.5, False, float(correct), correct, "correct")
    return replace(made, **changes)  # type: ignore[arg-type]


def pair(prompt: int, *correct: bool) -> list[Response]:
    return [response(prompt, sample, c) for sample, c in enumerate(correct)]


def test_what_is_done_is_found_again(tmp_path: Path) -> None:
    record = Record(tmp_path, SETTINGS)
    record.add(pair(0, True, False))
    record.add(pair(3, False, False))
    again = Record(tmp_path, SETTINGS)
    assert again.responses == record.responses
    assert again.done("aime") == {0, 3}
    assert again.done("math") == set()


def test_a_line_that_was_cut_off_and_its_prompt_are_done_again(tmp_path: Path) -> None:
    Record(tmp_path, SETTINGS).add(pair(0, True, False) + pair(1, True, True))
    path = tmp_path / "eval.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    record = Record(tmp_path, SETTINGS)
    assert record.done("aime") == {0}
    assert len(path.read_text().splitlines()) == 2, "the file holds whole prompts only"
    record.add(pair(1, False, False))
    assert Record(tmp_path, SETTINGS).done("aime") == {0, 1}


def test_a_line_in_the_middle_that_is_broken_is_refused_and_not_lost(tmp_path: Path) -> None:
    Record(tmp_path, SETTINGS).add(pair(0, True, False))
    path = tmp_path / "eval.jsonl"
    text = "{broken\n" + path.read_text()
    path.write_text(text)
    with pytest.raises(SettingsError, match=r"eval\.jsonl .*line 1"):
        Record(tmp_path, SETTINGS)
    assert path.read_text() == text


def test_other_settings_need_another_folder(tmp_path: Path) -> None:
    Record(tmp_path, SETTINGS)
    with pytest.raises(SettingsError, match=f"{tmp_path} .*--out"):
        Record(tmp_path, {**SETTINGS, "temperature": 0.6})


def test_figures_are_means_over_prompts() -> None:
    responses = [
        *pair(0, True, False),
        *pair(1, False, False),
        response(2, 0, tokens=40, truncated=True),
        response(2, 1),
    ]
    found = figures(responses, 2, [1, 2])
    assert found["mean@2"]["mean"] == pytest.approx((0.5 + 0 + 1) / 3)
    assert found["pass@1"] == found["mean@2"]
    assert found["pass@2"]["mean"] == pytest.approx(2 / 3)
    assert found["response_length"]["mean"] == pytest.approx((10 + 10 + 25) / 3)
    assert found["truncated"]["mean"] == pytest.approx(1 / 6)
    assert found["entropy_response_mean"]["mean"] == found["entropy_token_mean"]["mean"] == pytest.approx(0.5)
    assert (found["prompts"], found["n"]) == (3, 2)
    assert found["pass@2"]["low"] <= found["pass@2"]["mean"] <= found["pass@2"]["high"]


def test_entropy_is_averaged_over_tokens_and_over_responses() -> None:
    responses = [
        response(0, 0, tokens=10, entropy=0.1),
        response(0, 1, tokens=30, entropy=0.5),
        response(1, 0, tokens=60, entropy=0.2),
        response(1, 1, tokens=0, entropy=0.0),  # empty
    ]
    found = figures(responses, 2, [1])
    assert found["entropy_token_mean"]["mean"] == pytest.approx((1 + 15 + 12) / 100)
    assert found["entropy_response_mean"]["mean"] == pytest.approx((0.3 + 0.2) / 2)
    # The two prompts have 16/40 and 12/60 nats a token: those are the bounds.
    assert (found["entropy_token_mean"]["low"], found["entropy_token_mean"]["high"]) == pytest.approx((0.2, 0.4))


def test_the_table_has_a_column_for_each_benchmark() -> None:
    lines = table(
        {"aime": figures(pair(0, True, False), 2, [1]), "math": figures(pair(0, True, True), 2, [1])}
    ).splitlines()
    assert lines[0].split() == ["aime", "math"]
    assert lines[1].startswith("mean@2")
    assert "0.500 (0.500 to 0.500)" in lines[1]
    assert "1.000 (1.000 to 1.000)" in lines[1]
    assert lines[-1].split() == ["prompts", "1", "1"]
