"""Which flags are offered for one that does not exist, over all flags of OpenRLHF and ours."""

from pathlib import Path

import pytest

from math_reward.nearest import beside, did_you_mean


@pytest.mark.parametrize(
    ("typed", "words", "named"),
    [
        ("trian", ["train", "eval", "data"], ["train"]),
        ("--topp", ["--rollout.top_p", "--eval.top_p"], ["--rollout.top_p", "--eval.top_p"]),
        ("xyz", ["train", "eval"], []),
        ("gea", ["gae", "gtpo", "rloo"], ["gae"]),
        ("lr_actor", ["actor_lr", "critic_lr"], ["actor_lr"]),
        ("xyz", [], []),
    ],
)
def test_what_may_have_been_meant_is_a_question(typed: str, words: list[str], named: list[str]) -> None:
    said = did_you_mean(typed, words, "--help lists them")
    assert said.endswith("?" if named else "--help lists them.")
    assert [word for word in words if word in said] == named


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("trian.jsonl", "train.jsonl"),
        ("train.json", "train.jsonl"),
        ("modle/", "model"),
        ("sub/Qwen2.5-0.5", "sub/Qwen2.5-0.5B"),
        ("other.jsonl", None),
        ("nowhere/train.jsonl", None),
        ("train.jsonl/x", None),
    ],
)
def test_a_file_that_is_not_there_has_a_similar_name_in_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, meant: str | None
) -> None:
    (tmp_path / "sub" / "Qwen2.5-0.5B").mkdir(parents=True)
    (tmp_path / "model").mkdir()
    (tmp_path / "train.jsonl").touch()
    monkeypatch.chdir(tmp_path)
    assert beside(typed) == (f" (did you mean {meant}?)" if meant else "")
    assert beside(tmp_path / typed) == (f" (did you mean {tmp_path / meant}?)" if meant else "")
