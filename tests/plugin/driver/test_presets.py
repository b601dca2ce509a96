"""Presets: which flags a command line becomes, on OpenRLHF's real parser."""

import argparse

import pytest

from openrlhf_gtpo.checks.flags import faults
from openrlhf_gtpo.driver import presets
from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.settings import Settings

from ...refusals import assert_refusal


def parse(parser: argparse.ArgumentParser, *arguments: str) -> dict[str, object]:
    needed = ["--data.label_key", "label", "--actor.model_name_or_path", "model", "--vllm.num_engines", "1"]
    flags = vars(parser.parse_args([*presets.expand(arguments).arguments, *needed]))
    assert faults(Settings(flags)) == []
    return flags


@pytest.mark.parametrize("name", presets.names())
def test_every_preset_is_accepted_and_every_line_says_something(parser: argparse.ArgumentParser, name: str) -> None:
    flags = parse(parser, "--preset", name)
    known = {option for action in parser._actions for option in action.option_strings}
    for flag, *_ in presets.flags(name):
        assert flag in known, flag
    assert flags["algo.kl.init_coef"] == 0
    assert presets.text(name).startswith("# "), "it says what it is and whence"


def test_the_presets_are_the_algorithms_of_the_papers_table(parser: argparse.ArgumentParser) -> None:
    papers = {"dapo", "dapo_forking", "grpo", "grpo_s", "gtpo"}
    rivals = {"adaptive_entropy", "clip_cov", "edge", "entropy_advantage", "kl_cov"}
    assert presets.names() == sorted(papers | rivals)
    dapo, forking = parse(parser, "--preset", "dapo"), parse(parser, "--preset=dapo_forking")
    assert dapo["actor.eps_clip_low_high"] == [0.2, 0.28]
    assert dapo["algo.dynamic_filtering_enable"] is True
    assert dapo["reward.overlong_buffer_len"] == 1024
    assert dapo["shaping.top_entropy_share"] == 1
    different = {name for name in dapo if dapo[name] != forking[name]}
    assert different == {"shaping.top_entropy_share"}
    assert forking["shaping.top_entropy_share"] == 0.2
    gtpo, grpo_s = parse(parser, "--preset", "gtpo"), parse(parser, "--preset", "grpo_s")
    assert {name for name in gtpo if gtpo[name] != grpo_s[name]} == {"algo.advantage.estimator"}
    assert gtpo["shaping.grop"] is True
    assert (gtpo["shaping.alpha1"], gtpo["shaping.alpha2"]) == (1.0, 0.1)


def test_the_presets_share_one_run_and_none_says_it_again() -> None:
    shared = {flag for flag, *_ in presets.run()}
    assert "--train.max_steps" in shared
    for name in presets.names():
        found = [flag for flag, *_ in presets.flags(name)]
        assert shared <= set(found)
        assert len(found) == len(set(found)), f"{name} has a flag twice"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--preset", "dapo", "--actor.eps_clip_low_high", "0.1", "0.3"],
        ["--actor.eps_clip_low_high", "0.1", "0.3", "--preset", "dapo"],
    ],
)
def test_what_the_command_line_says_itself_wins_wherever_it_stands(
    parser: argparse.ArgumentParser, arguments: list[str]
) -> None:
    assert parse(parser, *arguments)["actor.eps_clip_low_high"] == [0.1, 0.3]
    assert presets.expand(arguments).overridden == ("--actor.eps_clip_low_high",)


def test_a_value_after_an_equals_sign_wins_too(parser: argparse.ArgumentParser) -> None:
    assert parse(parser, "--preset=dapo", "--reward.overlong_buffer_len=10")["reward.overlong_buffer_len"] == 10


def test_a_switch_of_the_preset_can_be_taken_back(parser: argparse.ArgumentParser) -> None:
    flags = parse(parser, "--preset", "dapo", "--no-algo.dynamic_filtering_enable")
    assert flags["algo.dynamic_filtering_enable"] is False


def test_a_command_line_without_a_preset_stays_as_it_is() -> None:
    arguments = ["--algo.advantage.estimator", "gtpo", "--actor.adam.lr=1e-6"]
    assert presets.expand(arguments) == presets.Expanded(arguments, None)


REFUSED: list[tuple[str, ...]] = [
    ("--preset ppo", "--preset ppo", "clip_cov, dapo"),
    ("--preset", "--preset", "clip_cov, dapo"),
    ("--preset ../secret", "--preset ../secret", "clip_cov, dapo"),
    ("--preset dapo --preset gtpo", "twice", "dapo", "gtpo"),
    ("--show", "--show", "--preset"),
    ("--no-shaping.grop", "--no-shaping.grop", "--preset"),
    ("--preset dapo --no-shaping.grop", "--no-shaping.grop", "--preset dapo"),
]


@pytest.mark.parametrize(("words", "named"), [(words, named) for words, *named in REFUSED])
def test_what_has_no_meaning_is_refused_and_named(words: str, named: list[str]) -> None:
    with pytest.raises(SettingsError) as refused:
        presets.expand(words.split())
    assert_refusal(str(refused.value), *named)
