"""A guide has the policy's tokens, or is refused before anything starts."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openrlhf_gtpo.checks import data

from ...refusals import assert_refusal
from ..conftest import characters_and
from .test_rules import BASE


@pytest.mark.parametrize(
    ("policys", "guides", "of_guide", "named"),
    [
        ([], ["hmm"], {}, ["{policy}", "vocabulary"]),
        (["hmm"], [], {}, ["{policy}", "vocabulary"]),
        (["hmm", "aha"], ["aha", "hmm"], {}, ["{policy}", "vocabulary"]),
        ([], [], {"eos_token": "<user>"}, ["'<user>'", "'<end>'"]),
    ],
)
def test_a_guide_with_other_tokens_is_refused_by_both_models_names(
    parse: Callable[..., dict[str, Any]],
    written: Callable[..., Path],
    tmp_path: Path,
    policys: list[str],
    guides: list[str],
    of_guide: dict[str, str],
    named: list[str],
) -> None:
    policy, guide = tmp_path / "policy", tmp_path / "guide"
    for folder, words in ((policy, policys), (guide, guides)):
        characters_and(*words).save_pretrained(folder)
        (folder / "config.json").write_text("{}")
    config = guide / "tokenizer_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | of_guide))
    rows = written({"input": r"1 + 1? \boxed{}", "answer": "2"})
    models = f"--actor.model_name_or_path {policy} --guide.model {guide}"
    findings = data.check(parse(*f"{BASE} --data.prompt_dataset {rows} {models}".split()))
    (said,) = [one.sentence for one in findings if one.check == "guide" and one.state == "fault"]
    assert_refusal(said, "--guide.model", str(guide), *(name.format(policy=policy) for name in named))
