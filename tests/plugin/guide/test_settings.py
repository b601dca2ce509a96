"""The guide's flags on OpenRLHF's real parser: what they mean, and what is refused."""

import argparse

import pytest

from openrlhf_gtpo.checks.flags import faults, warnings
from openrlhf_gtpo.controller.schedule import updates
from openrlhf_gtpo.driver.command_line import FlagError
from openrlhf_gtpo.driver.plan import plan
from openrlhf_gtpo.settings import GuideSettings, Settings

from ...refusals import assert_refusal
from .tables import guided

BASE = ["--data.label_key", "answer", "--algo.kl.init_coef", "0", "--rollout.n_samples_per_prompt", "8"]
BASE += ["--vllm.num_engines", "1"]
TWO_GPUS = ["--guide.tensor_parallel_size", "2"]
MODEL, SOLUTIONS = ["--guide.model", "org/guide"], ["--guide.solutions", "solutions.jsonl"]


SUPERVISED = ["--guide.objective", "supervised"]


def parse(parser: argparse.ArgumentParser, *flags: str, estimator: str = "group_norm") -> Settings:
    return Settings(vars(parser.parse_args([*BASE, "--algo.advantage.estimator", estimator, *flags])))


@pytest.mark.parametrize("guide", [[], MODEL, SOLUTIONS, [*MODEL, "--guide.samples", "0"]])
@pytest.mark.parametrize("estimator", ["group_norm", "gtpo", "grpo_s"])
def test_a_guide_is_accepted_with_every_estimator_over_groups(
    parser: argparse.ArgumentParser, estimator: str, guide: list[str]
) -> None:
    assert faults(parse(parser, *guide, estimator=estimator)) == []


REFUSED = [
    ([*MODEL, *SOLUTIONS], ["--guide.model and --guide.solutions"]),
    ([*MODEL, "--guide.samples", "-1"], ["--guide.samples is -1"]),
    ([*MODEL, "--guide.when", "zero_reward", "--guide.weight", "-0.5"], ["--guide.weight is -0.5"]),
    ([*MODEL, "--guide.when", "zero_reward", "--guide.weight", "nan"], ["--guide.weight is nan"]),
    ([*MODEL, "--guide.weight", "0.5"], ["--guide.weight", "--guide.when"]),
    ([*SOLUTIONS, "--guide.engines", "2"], ["--guide.engines and --guide.tensor_parallel_size", "--guide.model"]),
    ([*MODEL, "--guide.ratio_shaping", "inf"], ["--guide.ratio_shaping is inf"]),
    ([*MODEL, "--guide.ratio_shaping", "-1"], ["--guide.ratio_shaping is -1.0"]),
    ([*MODEL, "--guide.engines", "0"], ["--guide.engines is 0"]),
    ([*MODEL, "--guide.tensor_parallel_size", "0"], ["--guide.tensor_parallel_size is 0"]),
    ([*MODEL, "--algo.kl.init_coef", "0.01"], ["--algo.kl.init_coef is 0.01", "--algo.kl.use_loss"]),
    ([*MODEL, "--train.async_enable"], ["--train.async_enable"]),
    ([*MODEL, "--train.dynamic_batch_enable"], ["--train.dynamic_batch_enable"]),
    ([*MODEL, "--reward.model_name_or_path", "judge"], ["--reward.model_name_or_path"]),
    ([*SOLUTIONS, "--train.agent_func_path", "agent.py"], ["--guide.solutions", "turn"]),
    ([*SOLUTIONS, "--data.max_images_per_prompt", "1"], ["--guide.solutions", "image"]),
    ([*MODEL, "--guide.ratio_shaping", "0.1", "--actor.policy_loss_type", "gspo"], ["--guide.ratio_shaping", "gspo"]),
    (
        [*MODEL, "--guide.when", "zero_reward", *SUPERVISED, "--guide.ratio_shaping", "0.1"],
        ["--guide.ratio_shaping", "--guide.objective supervised"],
    ),
    ([*MODEL, *SUPERVISED], ["--guide.objective supervised"]),
    ([*MODEL, *SUPERVISED, "--guide.when", "all", "zero_reward"], ["--guide.objective supervised"]),
    (
        [*MODEL, "--train.colocate_all", "--vllm.num_engines", "8", "--guide.engines", "5", *TWO_GPUS],
        ["--guide.engines needs 10 GPUs", "--train.colocate_all", "8"],
    ),
]
IDLE = [
    ["--guide.samples", "2"],
    ["--guide.samples", "0"],
    ["--guide.when", "zero_reward"],
    ["--guide.when", "all", "zero_reward"],
    ["--guide.weight", "2"],
    ["--guide.engines", "2"],
    ["--guide.tensor_parallel_size", "1"],
    ["--guide.ratio_shaping", "0.1"],
    SUPERVISED,
]
REFUSED += [(flags, [flags[0], "--guide.model or --guide.solutions"]) for flags in IDLE]


@pytest.mark.parametrize(("flags", "named"), REFUSED, ids=[" ".join(flags) for flags, _ in REFUSED])
def test_what_a_guide_does_not_go_with_and_what_needs_one_is_refused(
    parser: argparse.ArgumentParser, flags: list[str], named: list[str]
) -> None:
    (sentence,) = faults(parse(parser, *flags))
    assert_refusal(sentence, *named)


@pytest.mark.parametrize("estimator", ["reinforce_baseline", "rloo", "gae", "dr_grpo", "reinforce"])
def test_an_estimator_that_is_not_over_groups_of_any_size_is_refused(
    parser: argparse.ArgumentParser, estimator: str
) -> None:
    (sentence,) = faults(parse(parser, *MODEL, estimator=estimator))
    assert_refusal(sentence, f"--algo.advantage.estimator {estimator}")
    assert faults(parse(parser, *MODEL, "--guide.samples", "0", estimator=estimator)) == []


def test_an_unknown_word_is_refused_by_the_parser(parser: argparse.ArgumentParser) -> None:
    with pytest.raises(FlagError, match=r"--guide\.when: .*'sometimes'.*zero_reward"):
        parse(parser, *MODEL, "--guide.when", "sometimes")


def test_kl_in_the_loss_and_a_reward_service_beside_a_model_go_with_a_guide(parser: argparse.ArgumentParser) -> None:
    assert faults(parse(parser, *MODEL, "--algo.kl.init_coef", "0.01", "--algo.kl.use_loss")) == []
    service = ["--reward.model_name_or_path", "judge", "--reward.remote_url", "http://127.0.0.1:1"]
    assert faults(parse(parser, *MODEL, *service)) == []


def test_solutions_need_no_gpus(parser: argparse.ArgumentParser) -> None:
    flags = ["--train.colocate_all", "--vllm.tensor_parallel_size", "64"]
    assert not any("--guide" in sentence for sentence in faults(parse(parser, *SOLUTIONS, *flags)))


# ── what the flags mean ──


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], None),
        ([*MODEL, "--guide.samples", "0"], None),
        (MODEL, GuideSettings("org/guide", None, 1, True, False, 1.0, 1, 2, 0.0)),
        (
            [*MODEL, "--guide.when", "zero_reward", "--guide.engines", "3", "--guide.tensor_parallel_size", "4"],
            GuideSettings("org/guide", None, 1, False, True, 1.0, 3, 4, 0.0),
        ),
        (
            [*SOLUTIONS, "--guide.when", "zero_reward", "all", "--guide.samples", "2", "--guide.weight", "0.5"],
            GuideSettings(None, "solutions.jsonl", 2, True, True, 0.5, 0, 2, 0.0),
        ),
        (
            [*MODEL, "--guide.ratio_shaping", "0.1"],
            GuideSettings("org/guide", None, 1, True, False, 1.0, 1, 2, 0.1),
        ),
        (
            [*MODEL, "--guide.when", "zero_reward", *SUPERVISED],
            GuideSettings("org/guide", None, 1, False, True, 1.0, 1, 2, 0.0, True),
        ),
    ],
)
def test_the_settings_of_the_guide_are_those_of_the_flags(
    parser: argparse.ArgumentParser, flags: list[str], expected: GuideSettings | None
) -> None:
    settings = parse(parser, "--vllm.tensor_parallel_size", "2", *flags)
    assert settings.guide == settings.nested().plugin.guide == expected


@pytest.mark.parametrize(
    ("flags", "warned"),
    [
        ([*MODEL, "--guide.when", "zero_reward"], True),
        ([*MODEL, "--guide.when", "all", "zero_reward"], True),
        (MODEL, False),
        ([], False),
        ([*MODEL, "--guide.when", "zero_reward", "--actor.min_lr_ratio", "1"], False),
        (["--train.updates_from", "metrics.jsonl"], True),
        (["--train.updates_from", "metrics.jsonl", "--actor.min_lr_ratio", "1"], False),
        ([*MODEL, "--guide.when", "zero_reward", "--guide.samples", "0"], False),
    ],
)
def test_a_learning_rate_that_falls_too_fast_is_told(
    parser: argparse.ArgumentParser, flags: list[str], warned: bool
) -> None:
    told = warnings(parse(parser, *flags))
    assert len(told) == warned
    assert all("--actor.min_lr_ratio 1" in sentence for sentence in told)


# ── the plan ──


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ([], []),
        ([*MODEL, "--guide.samples", "0"], []),
        (MODEL, ["org/guide on 1 engine(s)", "1 response(s)", "every group"]),
        (
            [*SOLUTIONS, "--guide.samples", "2", "--guide.when", "zero_reward", "--guide.weight", "0.5"],
            ["solutions.jsonl", "2 response(s)", "all wrong", "weight 0.5"],
        ),
    ],
)
def test_the_plan_says_what_the_guide_does(
    parser: argparse.ArgumentParser, flags: list[str], named: list[str]
) -> None:
    text = plan(parse(parser, *flags).changed({"device": "gpu"}), precision="bf16", overridden=())
    told = dict(line.split(maxsplit=1) for line in text.splitlines())
    assert ("guide" in told) == bool(named)
    assert all(name in told["guide"] for name in named)


@pytest.mark.parametrize(
    ("when", "samples", "most", "expected"),
    # 100 updates are possible with 4 responses to a prompt; 5 steps of 8 x 4 responses in updates of 16, 2 epochs: 20.
    [
        (["all"], 0, 5, 20),
        (["all"], 0, None, 100),
        (["all"], 0, 1000, 100),
        (["all"], 2, 5, 30),
        (["all"], 2, None, 150),
        (["zero_reward"], 2, 5, 20),
        (["zero_reward", "all"], 4, 5, 40),
    ],
)
def test_the_learning_rate_is_laid_out_over_the_guides_responses_too(
    when: list[str], samples: int, most: int | None, expected: int
) -> None:
    args = guided(guide__when=when, guide__samples=samples, train__batch_size=16, rollout__batch_size=8)
    args.train.max_steps, args.train.max_epochs = most, 2
    assert updates(args, 100) == expected
