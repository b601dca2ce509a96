"""A guide has the policy's tokens, or its samples cannot be trained on: real tokenizers in real folders."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from openrlhf_gtpo.checks.files import check_guide
from openrlhf_gtpo.guide.vocabulary import vocabulary_fault
from openrlhf_gtpo.settings import Settings

from ...refusals import assert_refusal


def test_the_same_vocabulary_is_let_through(saved: Callable[..., str]) -> None:
    assert vocabulary_fault(saved("policy", "hmm"), saved("guide", "hmm")) is None


@pytest.mark.parametrize(
    ("policys", "guides", "named"),
    [
        ([], ["hmm"], "1 tokens differ, 'hmm'"),
        (["hmm"], [], "1 tokens differ, 'hmm'"),
        (["hmm", "aha"], ["aha", "hmm"], "2 tokens differ, 'aha'"),
    ],
)
def test_another_vocabulary_is_refused_with_a_token_that_differs(
    saved: Callable[..., str], policys: list[str], guides: list[str], named: str
) -> None:
    policy, guide = saved("policy", *policys), saved("guide", *guides)
    assert_refusal(vocabulary_fault(policy, guide) or "", "--guide.model", guide, policy, named, "--guide.solutions")


def test_a_folder_without_a_tokenizer_is_refused(saved: Callable[..., str], tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    assert_refusal(vocabulary_fault(saved("policy"), str(bare)) or "", "--guide.model", str(bare))


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
    sentence = vocabulary_fault(policy, guide) or ""
    assert_refusal(sentence, "--guide.model", "'<user>'", repr(ours))
    flags = {"actor.model_name_or_path": policy, "guide.model": guide, "guide.solutions": None}
    assert [found.sentence for found in check_guide(Settings(flags))] == [sentence]


def test_the_driver_finds_it_before_anything_starts(saved: Callable[..., str]) -> None:
    policy = saved("policy")
    flags = {"actor.model_name_or_path": policy, "guide.solutions": None}
    assert check_guide(Settings({**flags, "guide.model": None})) == []
    assert check_guide(Settings({**flags, "guide.model": policy})) == []
    (found,) = check_guide(Settings({**flags, "guide.model": saved("guide", "hmm")}))
    assert_refusal(found.sentence, "--guide.model", "'hmm'")
