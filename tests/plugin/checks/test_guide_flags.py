"""A guide's flags: with what it goes, what is refused with which fix, and that it has the policy's tokens."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openrlhf_gtpo.checks import data, faults, rules

from ...refusals import assert_refusal
from ..conftest import characters_and

BASE = "--device gpu --data.label_key answer --algo.kl.init_coef 0 --rollout.n_samples_per_prompt 8"
BASE += " --vllm.num_engines 1"
MODEL = "--guide.model org/guide"
Parse = Callable[..., dict[str, Any]]


def refusals(parse: Parse, flags: str, estimator: str = "group_norm") -> list[str]:
    words = f"{BASE} --algo.advantage.estimator {estimator} {flags}".split()
    return faults(list(rules.check(parse(*words))))


@pytest.mark.parametrize("estimator", ["group_norm", "grpo", "gtpo", "grpo_s"])
@pytest.mark.parametrize(
    "flags",
    [
        "",
        MODEL,
        f"{MODEL} --guide.samples 2 --guide.when all zero_reward --guide.weight 0",
        f"{MODEL} --guide.engines 2 --guide.tensor_parallel_size 4 --algo.kl.init_coef 0.01 --algo.kl.use_loss",
        f"{MODEL} --reward.model_name_or_path judge --reward.remote_url http://127.0.0.1:1",
        f"{MODEL} --train.colocate_all --vllm.num_engines 8 --guide.engines 4 --guide.tensor_parallel_size 2",
    ],
)
def test_a_guide_is_accepted_with_every_estimator_over_groups(parse: Parse, flags: str, estimator: str) -> None:
    assert refusals(parse, flags, estimator) == []


REFUSED = {
    f"{MODEL} --guide.weight 0.5": ["--guide.weight", "--guide.when"],
    f"{MODEL} --algo.kl.init_coef 0.01": ["--algo.kl.init_coef is 0.01", "--algo.kl.use_loss"],
    f"{MODEL} --train.async_enable": ["--train.async_enable"],
    f"{MODEL} --train.dynamic_batch_enable": ["--train.dynamic_batch_enable"],
    f"{MODEL} --reward.model_name_or_path judge": ["--reward.model_name_or_path"],
    f"{MODEL} --train.colocate_all --vllm.num_engines 8 --guide.engines 5 --guide.tensor_parallel_size 2": [
        "--guide.engines needs 10 GPUs",
        "--train.colocate_all",
        "8",
    ],
    "--guide.samples 2": ["--guide.samples", "--guide.model"],
    "--guide.when zero_reward": ["--guide.when", "--guide.model"],
    "--guide.when all zero_reward": ["--guide.when", "--guide.model"],
    "--guide.weight 2": ["--guide.weight", "--guide.model"],
    "--guide.engines 2": ["--guide.engines", "--guide.model"],
    "--guide.tensor_parallel_size 1": ["--guide.tensor_parallel_size", "--guide.model"],
}


@pytest.mark.parametrize(("flags", "named"), REFUSED.items(), ids=REFUSED)
def test_what_a_guide_does_not_go_with_and_what_needs_one_is_refused(
    parse: Parse, flags: str, named: list[str]
) -> None:
    (sentence,) = refusals(parse, flags)
    assert_refusal(sentence, *named)


@pytest.mark.parametrize("estimator", ["reinforce_baseline", "rloo", "gae", "dr_grpo", "reinforce"])
def test_an_estimator_that_is_not_over_groups_of_any_size_is_refused(parse: Parse, estimator: str) -> None:
    (sentence,) = refusals(parse, MODEL, estimator)
    assert_refusal(sentence, f"--algo.advantage.estimator {estimator}")


# ── the vocabulary, before anything starts ──


@pytest.fixture
def guide_faults(parse: Parse, tmp_path: Path) -> Callable[..., list[str]]:
    """The faults about two folders with models and a data set, of which the tokenizers alone may differ."""
    rows = tmp_path / "train.jsonl"
    rows.write_text(json.dumps({"input": r"1 + 1? \boxed{}", "answer": "2"}) + "\n")

    def found(policy: Any, guide: Any, **of_guide: str) -> list[str]:
        for name, tokenizer in (("policy", policy), ("guide", guide)):
            tokenizer.save_pretrained(tmp_path / name)
            (tmp_path / name / "config.json").write_text("{}")
        config = tmp_path / "guide" / "tokenizer_config.json"
        config.write_text(json.dumps(json.loads(config.read_text()) | of_guide))
        flags = f"{BASE} --actor.model_name_or_path {tmp_path / 'policy'} --guide.model {tmp_path / 'guide'}"
        flags += f" --data.prompt_dataset {rows} --algo.advantage.estimator gtpo"
        findings = list(data.check(parse(*flags.split())))
        return [finding.sentence for finding in findings if finding.check == "guide" and finding.state == "fault"]

    return found


@pytest.mark.parametrize(
    ("policys", "guides"), [([], ["hmm"]), (["hmm"], []), (["hmm", "aha"], ["aha", "hmm"])], ids=str
)
def test_another_vocabulary_is_refused_by_both_models_names(
    guide_faults: Callable[..., list[str]], policys: list[str], guides: list[str], tmp_path: Path
) -> None:
    (sentence,) = guide_faults(characters_and(*policys), characters_and(*guides))
    assert_refusal(sentence, "--guide.model", str(tmp_path / "guide"), str(tmp_path / "policy"), "vocabulary")


def test_a_guide_that_ends_its_responses_otherwise_is_refused(
    guide_faults: Callable[..., list[str]], tmp_path: Path
) -> None:
    (sentence,) = guide_faults(characters_and(), characters_and(), eos_token="<user>")
    assert_refusal(sentence, "--guide.model", str(tmp_path / "guide"), "'<user>'", "'<end>'")
