"""Our flags on OpenRLHF's real parser: what joins it, what is refused, and in which words."""

import argparse
import re

import pytest

from openrlhf_gtpo.algorithms.table import ESTIMATORS, ours
from openrlhf_gtpo.checks.flags import faults
from openrlhf_gtpo.cpu import platform
from openrlhf_gtpo.driver import command_line
from openrlhf_gtpo.driver.cluster import gpus_by_role
from openrlhf_gtpo.driver.command_line import RENAMED, FlagError
from openrlhf_gtpo.driver.flags import COUNTS
from openrlhf_gtpo.settings import Settings

BASE = ["--data.label_key", "answer", "--algo.kl.init_coef", "0", "--rollout.n_samples_per_prompt", "8"]
BASE += ["--vllm.num_engines", "1"]


def parse(parser: argparse.ArgumentParser, *flags: str, estimator: str = "gtpo") -> Settings:
    return Settings(vars(parser.parse_args([*BASE, "--algo.advantage.estimator", estimator, *flags])))


def test_the_estimators_join_openrlhfs_own(parser: argparse.ArgumentParser) -> None:
    for estimator in (*ESTIMATORS, "gae", "reinforce", "rloo", "reinforce_baseline", "dr_grpo"):
        assert parse(parser, estimator=estimator).estimator == estimator


def test_help_shows_our_flags_in_a_group_of_their_own(parser: argparse.ArgumentParser) -> None:
    text = parser.format_help()
    ours = text[text.index("\nopenrlhf-gtpo:") :]
    for flag in (
        "--shaping.alpha1",
        "--shaping.alpha2",
        "--shaping.over",
        "--shaping.scope",
        "--shaping.entropy_clip",
    ):
        assert flag in ours
        assert flag not in text[: text.index("\nopenrlhf-gtpo:")].split("options:")[1]
    assert "--reward.on_failure {retry,drop_group,stop}" in ours


SHAPED = {
    "alpha1": 1.0,
    "alpha2": 0.1,
    "over": "group",
    "scope": "group",
    "entropy_clip": None,
    "weights": "entropy",
}
NEEDED = {"function": ["--shaping.function", "mine.py:mine"]}
OF_THE_PAPERS = {
    "gtpo": SHAPED,
    "grpo_s": SHAPED,
    "entropy_advantage": {"alpha": 0.4, "kappa": 2.0},
    "edge": {"clip": None},
    "clip_cov": {"share": 2e-4, "bounds": [1.0, 5.0]},
    "kl_cov": {"share": 2e-3, "coef": 1.0},
    "function": {"function": "mine.py:mine"},
}


@pytest.mark.parametrize("estimator", ours())
def test_the_papers_settings_are_the_defaults_and_are_accepted(
    parser: argparse.ArgumentParser, estimator: str
) -> None:
    settings = parse(parser, *NEEDED.get(estimator, []), estimator=estimator)
    assert faults(settings) == []
    assert settings.options(ESTIMATORS[estimator].all_flags) == OF_THE_PAPERS[estimator]


REFUSED = {
    "--algo.advantage.gamma": ["--algo.advantage.gamma", "0.99"],
    "--algo.advantage.lambd": ["--algo.advantage.lambd", "0.95"],
    "--algo.kl.init_coef": ["--algo.kl.init_coef", "0.01"],
    "--reward.normalize_enable": ["--reward.normalize_enable"],
    "--reward.clip_range": ["--reward.clip_range", "-1", "1"],
    "--rollout.n_samples_per_prompt": ["--rollout.n_samples_per_prompt", "1"],
    "--critic.model_name_or_path": ["--critic.model_name_or_path", "critic"],
    "--algo.advantage.no_std_norm": ["--algo.advantage.no_std_norm"],
    "--actor.policy_loss_type": ["--actor.policy_loss_type", "gspo"],
    "--actor.loss_agg_mode": ["--actor.loss_agg_mode", "seq-mean-token-mean"],
    "--reward.model_name_or_path": ["--reward.model_name_or_path", "judge"],
}


@pytest.mark.parametrize("estimator", ours())
@pytest.mark.parametrize("flag", REFUSED)
def test_an_option_without_a_meaning_is_refused_in_one_sentence_that_names_it(
    parser: argparse.ArgumentParser, flag: str, estimator: str
) -> None:
    found = faults(parse(parser, *REFUSED[flag], *NEEDED.get(estimator, []), estimator=estimator))
    if flag == "--reward.model_name_or_path" and not ESTIMATORS[estimator].needs_correctness:
        assert found == [], "a model's scores will do"
        return
    (sentence,) = found
    assert sentence.startswith((flag, "No --data.label_key"))
    assert sentence.endswith(".")
    assert "\n" not in sentence


@pytest.mark.parametrize("flag", sorted(set(REFUSED) - {"--reward.model_name_or_path"}))
def test_the_same_option_is_openrlhfs_own_affair_with_its_own_estimator(
    parser: argparse.ArgumentParser, flag: str
) -> None:
    assert faults(parse(parser, *REFUSED[flag], estimator="reinforce_baseline")) == []


def test_kl_as_a_loss_goes_with_shaping(parser: argparse.ArgumentParser) -> None:
    assert faults(parse(parser, "--algo.kl.init_coef", "0.001", "--algo.kl.use_loss")) == []


def test_importance_correction_goes_with_gtpo_but_not_with_one_ratio_per_response(
    parser: argparse.ArgumentParser,
) -> None:
    flags = ["--algo.advantage.is_correction_level", "token"]
    assert faults(parse(parser, *flags)) == []
    (sentence,) = faults(parse(parser, *flags, estimator="grpo_s"))
    assert "GRPO-S has one ratio per response" in sentence


@pytest.mark.parametrize("estimator", ["gtpo", "group_norm", "reinforce_baseline"])
def test_probabilities_among_the_kept_tokens_are_not_compared_with_those_among_all(
    parser: argparse.ArgumentParser, estimator: str
) -> None:
    """With top_p vLLM's probabilities are larger by one over the kept mass, so that each ratio is too small by it."""
    flags = ["--rollout.top_p", "0.9", "--algo.advantage.is_correction_level", "token"]
    (sentence,) = faults(parse(parser, *flags, estimator=estimator))
    assert sentence.startswith("--rollout.top_p is 0.9 with --algo.advantage.is_correction_*: ")
    assert faults(parse(parser, *flags[:2], estimator=estimator)) == []
    assert faults(parse(parser, *flags[2:], estimator=estimator)) == []


@pytest.mark.parametrize(
    ("flags", "expected"),
    # 128 prompts x 8 responses for 4 engines; an odd share is rounded up; never more than 1,024 unless asked for.
    [
        (["--vllm.num_engines", "4"], 256),
        (["--vllm.num_engines", "3"], 342),
        (["--vllm.num_engines", "4", "--vllm.max_num_seqs", "64"], 64),
        (["--vllm.num_engines", "4", "--rollout.vllm_generate_batch_size", "256"], 512),
        (["--vllm.num_engines", "1", "--rollout.batch_size", "512"], 1024),
        (["--vllm.num_engines", "1", "--vllm.max_num_seqs", "2048"], 2048),
    ],
)
def test_an_engine_works_on_its_share_of_a_batch_at_once(
    parser: argparse.ArgumentParser, flags: list[str], expected: int
) -> None:
    args = parse(parser, "--rollout.batch_size", "128", *flags)
    assert faults(args) == []
    assert args.rollout("some.Class").max_num_seqs == expected


def test_no_responses_at_once_are_refused(parser: argparse.ArgumentParser) -> None:
    (sentence,) = faults(parse(parser, "--vllm.max_num_seqs", "0"))
    assert sentence == "--vllm.max_num_seqs is 0, but needs to be at least 1."


def test_forking_tokens_go_with_gtpo_but_not_with_one_ratio_per_response(parser: argparse.ArgumentParser) -> None:
    flags = ["--shaping.top_entropy_share", "0.2"]
    assert faults(parse(parser, *flags)) == []
    (sentence,) = faults(parse(parser, *flags, estimator="grpo_s"))
    assert "GRPO-S has one ratio and one advantage per response" in sentence


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--shaping.alpha2", "-0.1"], "--shaping.alpha2 is -0.1"),
        (["--shaping.alpha1", "nan"], "--shaping.alpha1 is nan"),
        (["--shaping.entropy_clip", "2", "1"], "--shaping.entropy_clip is 2.0 1.0, but needs 0 <= LOW < HIGH"),
        (["--reward.deadline", "0"], "--reward.deadline is 0.0"),
        (["--reward.batch_size", "0"], "--reward.batch_size is 0"),
        (["--actor.entropy_coef_max", "0.1"], "--actor.entropy_coef_max is 0.1, but --actor.entropy_target, which it"),
        (["--actor.entropy_target", "0"], "--actor.entropy_target is 0.0, but needs to be above 0, in nats."),
        (["--actor.entropy_target", "1", "--actor.entropy_coef_delta", "0"], "--actor.entropy_coef_delta is 0.0"),
        (
            ["--actor.entropy_target", "1", "--actor.entropy_coef_min", "2"],
            "--actor.entropy_coef_min is 2.0, but needs to be below --actor.entropy_coef_max, 1.0.",
        ),
        (
            ["--actor.entropy_target", "1", "--actor.entropy_coef", "3"],
            "--actor.entropy_coef is 3.0, where the controller begins, but needs to be from",
        ),
        (
            ["--shaping.entropy_clip", "0", "1", "--shaping.weights", "uniform"],
            "--shaping.entropy_clip clamps entropies, but --shaping.weights uniform uses none",
        ),
        (["--shaping.top_entropy_share", "0"], "--shaping.top_entropy_share is 0.0, but a share is above 0"),
        (["--shaping.top_entropy_share", "1.5"], "--shaping.top_entropy_share is 1.5, but a share is above 0"),
        (["--shaping.save_rollouts", "-1"], "--shaping.save_rollouts is -1"),
        (["--train.max_steps", "0"], "--train.max_steps is 0"),
        (["--ds.zero_stage", "4"], "--ds.zero_stage is 4, but DeepSpeed has the stages 0 to 3."),
        (["--rollout.max_new_tokens", "0"], "--rollout.max_new_tokens is 0, but needs to be at least 1 and less than"),
        (["--rollout.max_new_tokens", "2048"], "--rollout.max_new_tokens is 2048, but needs to be at least 1 and les"),
        (
            ["--train.batch_size", "100", "--train.micro_batch_size", "3", "--actor.num_gpus_per_node", "4"],
            "--train.batch_size is 100, but needs to be a multiple of 12: --train.micro_batch_size, 3, on each of 4 ",
        ),
        (["--train.max_steps", "9", "--train.async_enable", "--ckpt.load_enable"], "--train.max_steps cannot count"),
    ],
)
def test_values_out_of_bounds_are_refused(parser: argparse.ArgumentParser, flags: list[str], words: str) -> None:
    (sentence,) = faults(parse(parser, *flags))
    assert sentence.startswith(words)


@pytest.mark.parametrize(
    ("estimator", "flags", "words"),
    [
        ("entropy_advantage", ["--entropy_advantage.alpha", "-1"], "--entropy_advantage.alpha is -1.0, but a weight"),
        (
            "entropy_advantage",
            ["--entropy_advantage.kappa", "1"],
            "--entropy_advantage.kappa is 1.0, but has to be",
        ),
        ("edge", ["--edge.clip", "2", "3"], "--edge.clip is 2.0 3.0, but needs 0 < LOW <= 1 <= HIGH."),
        ("clip_cov", ["--clip_cov.share", "0"], "--clip_cov.share is 0.0, but a share is above 0 and at most 1."),
        ("clip_cov", ["--clip_cov.bounds", "5", "1"], "--clip_cov.bounds is 5.0 1.0, but needs LOW < HIGH."),
        ("kl_cov", ["--kl_cov.share", "2"], "--kl_cov.share is 2.0, but a share is above 0 and at most 1."),
        ("kl_cov", ["--kl_cov.coef", "nan"], "--kl_cov.coef is nan, but a weight is a number from 0 up."),
        ("kl_cov", ["--shaping.top_entropy_share", "0.2"], "--shaping.top_entropy_share is 0.2, but KL-Cov itself"),
        (
            "clip_cov",
            ["--guide.model", "guide"],
            "--guide.* adds responses of another policy, whose log",
        ),
        ("function", [], "--algo.advantage.estimator function needs --shaping.function FILE.py:NAME, which is not"),
    ],
)
def test_what_makes_no_sense_with_a_rival_is_refused_in_one_sentence(
    parser: argparse.ArgumentParser, estimator: str, flags: list[str], words: str
) -> None:
    (sentence,) = faults(parse(parser, *flags, estimator=estimator))
    assert sentence.startswith(words)


@pytest.mark.parametrize("estimator", ["group_norm", "reinforce_baseline"])
def test_a_flag_that_the_estimator_does_not_read_is_refused(parser: argparse.ArgumentParser, estimator: str) -> None:
    (sentence,) = faults(parse(parser, "--shaping.weights", "shuffled", estimator=estimator))
    assert sentence == (
        f"--shaping.weights is shuffled, but --algo.advantage.estimator {estimator} does not read it: leave it out, "
        "or choose gtpo or grpo_s."
    )
    assert faults(parse(parser, "--shaping.weights", "entropy", estimator=estimator)) == []


@pytest.mark.parametrize(
    "flag", ["--shaping.weights", "--shaping.over", "--shaping.scope", "--reward.on_failure", "--device"]
)
def test_an_unknown_choice_is_refused_by_the_parser(parser: argparse.ArgumentParser, flag: str) -> None:
    with pytest.raises(FlagError, match=f"^argument {flag}: there is no 'sideways': it takes "):
        parse(parser, flag, "sideways")


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("grpo", "there is no 'grpo': here that is group_norm."),
        ("GTPO", "there is no 'GTPO': did you mean gtpo"),
        ("gpto", "there is no 'gpto': did you mean gtpo"),
        ("nothing", "there is no 'nothing': it takes gae, reinforce, "),
    ],
)
def test_the_message_for_a_mistyped_estimator_names_the_nearest_or_its_name_here(
    parser: argparse.ArgumentParser, value: str, hint: str
) -> None:
    with pytest.raises(FlagError, match=f"^argument --algo.advantage.estimator: {re.escape(hint)}"):
        parse(parser, "--algo.advantage.estimator", value)


def test_the_message_for_a_flag_of_an_earlier_version_has_its_new_name(
    parser: argparse.ArgumentParser,
) -> None:
    known = {option for action in parser._actions for option in action.option_strings}
    assert not set(RENAMED) & known
    assert set(RENAMED.values()) <= known
    with pytest.raises(FlagError, match=r"^There is no flag --pretrain: it is --actor\.model_name_or_path now\.$"):
        command_line.parse(["--pretrain", "Qwen/Qwen2.5-7B"])


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("localhost:99", "--reward.remote_url is localhost:99, which is no URL: write http://localhost:99, or name a"),
        ("ftp://a/b", "--reward.remote_url: A reward service's URL is like http://127.0.0.1:8000, not "),
        ("http://a:1,b:2", "--reward.remote_url is b:2, which is no URL: write http://b:2, or name a .py file."),
        ("http://me:secret@a:1", "--reward.remote_url: The URL of a must not hold credentials"),
    ],
)
def test_what_is_no_url_of_a_reward_service_is_refused_before_anything_starts(
    parser: argparse.ArgumentParser, url: str, sentence: str
) -> None:
    (found,) = faults(parse(parser, "--reward.remote_url", url))
    assert found.startswith(sentence)


def test_the_built_in_reward_service_needs_reference_answers(parser: argparse.ArgumentParser) -> None:
    settings = Settings(
        vars(parser.parse_args(["--algo.advantage.estimator", "group_norm", "--vllm.num_engines", "1"]))
    )
    assert settings.rewards_are_embedded
    (sentence,) = faults(settings)
    assert "--data.label_key" in sentence


@pytest.mark.parametrize(
    "flags",
    [
        ["--reward.remote_url", "http://127.0.0.1:5000"],
        ["--train.agent_func_path", "agent.py"],
        ["--reward.model_name_or_path", "judge"],
    ],
)
def test_whoever_gives_rewards_takes_the_built_in_services_place(
    parser: argparse.ArgumentParser, flags: list[str]
) -> None:
    assert not parse(parser, *flags, estimator="group_norm").rewards_are_embedded


def test_the_reward_client_gets_urls_limits_and_the_token_of_the_environment(
    parser: argparse.ArgumentParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MATH_REWARD_TOKEN", "s3cret")
    args = parse(parser, "--reward.remote_url", "http://a:1/v1/grade, http://b:2", "--reward.timeout", "7")
    settings = args.rollout("some.Class")
    assert settings.reward is not None
    assert settings.reward.urls == ("http://a:1/v1/grade", "http://b:2/v1/grade")
    assert settings.reward.timeout == 7
    assert settings.reward.token == "s3cret"
    assert "s3cret" not in repr(settings) + repr(args), "OpenRLHF prints its flags, Ray its arguments"


def test_drop_group_means_a_single_attempt(parser: argparse.ArgumentParser) -> None:
    url = ["--reward.remote_url", "http://a:1"]
    for choice, deadline in (("retry", 300.0), ("stop", 300.0), ("drop_group", 0.0)):
        reward = parse(parser, *url, "--reward.on_failure", choice).rollout("some.Class").reward
        assert reward is not None
        assert reward.deadline == deadline


def test_a_python_reward_function_needs_no_client(parser: argparse.ArgumentParser) -> None:
    assert parse(parser, "--reward.remote_url", "rewards.py").rollout("some.Class").reward is None


@pytest.mark.parametrize(
    "flags",
    [
        ["--ds.load_in_4bit"],
        ["--ds.use_liger_kernel"],
        ["--ds.adam_offload"],
        ["--vllm.sync_with_ray"],
    ],
)
def test_what_needs_a_gpu_is_refused_on_a_cpu(parser: argparse.ArgumentParser, flags: list[str]) -> None:
    (sentence,) = platform.faults(parse(parser, *flags))
    assert sentence.startswith(flags[0])
    assert sentence.endswith("leave it out on --device cpu.")


def test_what_a_cpu_does_another_way_is_replaced_and_told(parser: argparse.ArgumentParser) -> None:
    settings, changes = platform.adjusted(parse(parser))
    assert settings.flags["ds.attn_implementation"] == "eager"
    assert settings.flags["vllm.sync_backend"] == "gloo"
    assert "on the CPU --ds.attn_implementation is eager, not flash_attention_2" in changes
    assert platform.adjusted(settings) == (settings, [])


def test_packing_keeps_the_name_without_which_openrlhf_would_set_it_back(parser: argparse.ArgumentParser) -> None:
    settings, _ = platform.adjusted(parse(parser, "--ds.packing_samples"))
    assert settings.flags["ds.attn_implementation"] == "flash_attention_2"


@pytest.mark.parametrize(
    ("flags", "backend", "gpus"),
    [
        ([], "gloo", 2 + 3 * 2),
        (["--train.colocate_all"], "nccl", 2),
        (["--train.colocate_all", "--train.async_enable"], "gloo", 2 + 3 * 2),
        (["--algo.kl.init_coef", "0.1", "--ref.num_gpus_per_node", "2"], "gloo", 2 + 3 * 2 + 2),
    ],
)
def test_engines_and_policy_share_logical_gpus_only_where_they_take_turns(
    parser: argparse.ArgumentParser, flags: list[str], backend: str, gpus: int
) -> None:
    sizes = ["--actor.num_gpus_per_node", "2", "--vllm.num_engines", "3", "--vllm.tensor_parallel_size", "2"]
    settings, _ = platform.adjusted(parse(parser, "--algo.kl.init_coef", "0", *sizes, *flags))
    assert settings.flags["vllm.sync_backend"] == backend
    assert sum(gpus_by_role(settings).values()) == gpus


@pytest.mark.parametrize("name", [*COUNTS, "vllm.max_num_seqs", "reward.batch_size", "reward.max_in_flight"])
@pytest.mark.parametrize("count", ["0", "-2"])
def test_a_count_of_nothing_is_refused(parser: argparse.ArgumentParser, name: str, count: str) -> None:
    assert f"--{name} is {count}, but needs to be at least 1." in faults(parse(parser, f"--{name}={count}"))


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ["--train.colocate_all", "--actor.num_gpus_per_node", "4", "--vllm.num_engines", "2"],
            "--train.colocate_all puts engines and policy on the same GPUs, but the policy has 4 and the engines have "
            "2: let --vllm.num_engines times --vllm.tensor_parallel_size be 4.",
        ),
        (
            [
                *("--train.colocate_actor_ref", "--algo.kl.init_coef", "0.1", "--algo.kl.use_loss"),
                *("--actor.num_gpus_per_node", "4"),
            ],
            "--train.colocate_actor_ref puts policy and reference on the same GPUs, but the policy has 1 node(s) of 4 "
            "and the reference 1 node(s) of 8: make --ref.num_nodes and --ref.num_gpus_per_node the policy's.",
        ),
        (
            ["--train.colocate_critic_reward", "--algo.advantage.estimator", "gae", "--critic.num_nodes", "2"],
            "--train.colocate_critic_reward puts critic and reward model on the same GPUs, but the critic has 2 "
            "node(s) of 8 and the reward model 1 node(s) of 8: make --reward.num_nodes and --reward.num_gpus_per_node "
            "the critic's.",
        ),
    ],
)
def test_models_that_share_gpus_have_to_be_of_one_size(
    parser: argparse.ArgumentParser, flags: list[str], said: str
) -> None:
    assert faults(parse(parser, *flags)) == [said]


@pytest.mark.parametrize(
    "flags",
    [
        [*("--train.colocate_all", "--vllm.num_engines", "4"), *("--vllm.tensor_parallel_size", "2")],
        ["--train.colocate_all", "--train.async_enable"],
        ["--train.colocate_actor_ref", "--actor.num_gpus_per_node", "2"],  # without KL there is no reference
        ["--train.colocate_critic_reward", "--critic.num_nodes", "2"],  # nor a critic
    ],
)
def test_models_of_other_sizes_are_taken_where_they_share_nothing(
    parser: argparse.ArgumentParser, flags: list[str]
) -> None:
    assert faults(parse(parser, *flags)) == []


@pytest.mark.parametrize(
    "flags",
    [
        ["--train.batch_size", "96", "--train.micro_batch_size", "3", "--actor.num_gpus_per_node", "4"],
        # 8 GPUs in groups of 4 that share a sequence are 2 that share a batch.
        ["--train.batch_size", "6", "--train.micro_batch_size", "3", "--ds.ring_attn_size", "4"],
        ["--train.batch_size", "100", "--train.micro_batch_size", "3", "--train.dynamic_batch_enable"],
        ["--rollout.max_new_tokens", "2047"],
    ],
)
def test_a_batch_that_is_shared_out_evenly_and_a_response_that_leaves_room_are_taken(
    parser: argparse.ArgumentParser, flags: list[str]
) -> None:
    assert faults(parse(parser, *flags)) == []
