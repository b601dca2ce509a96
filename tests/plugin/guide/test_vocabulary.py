"""A guide has the policy's tokens, or its samples cannot be trained on: real tokenizers in real folders."""

import json
from collections.abc import Callable
from pathlib import Path

from openrlhf_gtpo.checks.files import check_guide
from openrlhf_gtpo.guide.vocabulary import vocabulary_fault
from openrlhf_gtpo.settings import Settings


def test_the_same_vocabulary_is_let_through(saved: Callable[..., str]) -> None:
    assert vocabulary_fault(saved("policy", "hmm"), saved("guide", "hmm")) is None


def test_one_token_more_is_told_by_its_name(saved: Callable[..., str]) -> None:
    policy, guide = saved("policy"), saved("guide", "hmm")
    sentence = vocabulary_fault(policy, guide)
    assert sentence is not None
    for words in ("--guide.model", guide, policy, "(1 tokens differ, 'hmm' for one)", "--guide.solutions."):
        assert words in sentence
    assert vocabulary_fault(guide, policy) is not None, "whichever has it"


def test_the_same_tokens_under_other_numbers_differ(saved: Callable[..., str]) -> None:
    sentence = vocabulary_fault(saved("policy", "hmm", "aha"), saved("guide", "aha", "hmm"))
    assert sentence is not None
    assert "(2 tokens differ, 'aha' for one)" in sentence


def test_a_folder_without_a_tokenizer_is_told(saved: Callable[..., str], tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    sentence = vocabulary_fault(saved("policy"), str(bare))
    assert sentence is not None
    assert sentence.startswith(
        f"--guide.model: the tokenizers cannot be compared: {bare} has no tokenizer that can be"
    )
    assert "\n" not in sentence


def test_a_model_that_is_not_on_this_machine_is_not_fetched_for_this(saved: Callable[..., str]) -> None:
    assert vocabulary_fault(saved("policy"), "org/guide-on-a-hub") is None
    assert vocabulary_fault("org/policy-on-a-hub", saved("guide")) is None


def test_a_guide_that_ends_its_responses_otherwise_is_refused(saved: Callable[..., str]) -> None:
    policy, guide = saved("policy"), saved("guide")
    assert vocabulary_fault(policy, guide) is None
    config = Path(guide) / "tokenizer_config.json"
    settings = json.loads(config.read_text())
    ours, settings["eos_token"] = settings["eos_token"], "<user>"
    config.write_text(json.dumps(settings))
    sentence = vocabulary_fault(policy, guide)
    assert sentence is not None
    assert f"ends its responses with '<user>', but the policy with {ours!r}" in sentence
    flags = {"actor.model_name_or_path": policy, "guide.model": guide, "guide.solutions": None}
    assert [found.sentence for found in check_guide(Settings(flags))] == [sentence]


def test_the_driver_finds_it_before_anything_starts(saved: Callable[..., str]) -> None:
    policy = saved("policy")
    flags = {"actor.model_name_or_path": policy, "guide.solutions": None}
    assert check_guide(Settings({**flags, "guide.model": None})) == []
    assert check_guide(Settings({**flags, "guide.model": policy})) == []
    (found,) = check_guide(Settings({**flags, "guide.model": saved("guide", "hmm")}))
    assert "has another vocabulary" in found.sentence
