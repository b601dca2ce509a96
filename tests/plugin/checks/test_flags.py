"""Our flags on OpenRLHF's real parser: what is accepted, what is refused and with which fix, and what they become."""

import argparse
import re
from collections.abc import Callable

import pytest

from openrlhf_gtpo.algorithms.table import ESTIMATORS, ours
from openrlhf_gtpo.checks.flags import faults
from openrlhf_gtpo.cpu import platform
from openrlhf_gtpo.driver import command_line
from openrlhf_gtpo.driver.cluster import gpus_by_role
from openrlhf_gtpo.driver.command_line import RENAMED, FlagError
from openrlhf_gtpo.driver.flags import COUNTS
from openrlhf_gtpo.settings import Settings

BASE = "--data.label_key answer --algo.kl.init_coef 0 --rollout.n_samples_per_prompt 8 --vllm.num_engines 1"

Parse = Callable[..., Settings]


@pytest.fixture(scope="session")
def parse(settings: Callable[..., Settings]) -> Parse:
    """The settings of a command line that has no fault but for what is added."""

    def parsed(flags: str = "", estimator: str = "gtpo") -> Settings:
        return settings(*f"{BASE} --algo.advantage.estimator {estimator}".split(), *flags.split())

    return parsed


SHAPED = {"alpha1": 1.0, "alpha2": 0.1, "over": "group", "scope": "group", "entropy_clip": None, "weights": "entropy"}
OF_THE_PAPERS = {
    "gtpo": SHAPED,
    "grpo_s": SHAPED,
    "entropy_advantage": {"alpha": 0.4, "kappa": 2.0},
    "edge": {"clip": None},
    "clip_cov": {"share": 2e-4, "bounds": [1.0, 5.0]},
    "kl_cov": {"share": 2e-3, "coef": 1.0},
}


@pytest.mark.parametrize("estimator", ours())
def test_the_papers_settings_are_the_defaults_and_are_accepted(parse: Parse, estimator: str) -> None:
    found = parse(estimator=estimator)
    assert faults(found) == []
    assert found.options(ESTIMATORS[estimator].all_flags) == OF_THE_PAPERS[estimator]


MEANINGLESS = [
    "--algo.advantage.gamma 0.99",
    "--algo.advantage.lambd 0.95",
    "--algo.kl.init_coef 0.01",
    "--reward.normalize_enable",
    "--reward.clip_range -1 1",
    "--rollout.n_samples_per_prompt 1",
    "--critic.model_name_or_path critic",
    "--algo.advantage.no_std_norm",
    "--actor.policy_loss_type gspo",
    "--actor.loss_agg_mode seq-mean-token-mean",
]
OF_A_MODEL = "--reward.model_name_or_path judge"


@pytest.mark.parametrize("estimator", ours())
@pytest.mark.parametrize("flags", [*MEANINGLESS, OF_A_MODEL])
def test_an_option_without_a_meaning_is_refused_in_one_sentence_that_names_it(
    parse: Parse, flags: str, estimator: str
) -> None:
    found = faults(parse(flags, estimator))
    if flags == OF_A_MODEL and not ESTIMATORS[estimator].needs_correctness:
        assert found == [], "a model's scores will do"
        return
    (sentence,) = found
    assert sentence.startswith(flags.split()[0])
    assert sentence.endswith(".")
    assert "\n" not in sentence


@pytest.mark.parametrize("flags", MEANINGLESS)
def test_the_same_option_is_openrlhfs_own_affair_with_its_own_estimator(parse: Parse, flags: str) -> None:
    assert faults(parse(flags, "reinforce_baseline")) == []


CORRECTED = "--algo.advantage.is_correction_level token"
OURS = ("gtpo", "grpo_s", "entropy_advantage", "edge", "clip_cov", "kl_cov")
KEPT = f"--rollout.top_p 0.95 --rollout.top_k 50 {CORRECTED}"


@pytest.mark.parametrize(
    ("flags", "estimator"),
    [
        ("--algo.kl.init_coef 0.001 --algo.kl.use_loss", "gtpo"),
        (CORRECTED, "gtpo"),
        ("--rollout.top_p 0.9", "gtpo"),
        ("--rollout.top_k 50 --algo.kl.init_coef 0.001 --algo.kl.use_loss", "gtpo"),  # no correction, no ratios
        (f"--rollout.top_p 0.9 --rollout.top_k 50 {CORRECTED}", "gtpo"),
        (f"--rollout.top_p 0.9 --rollout.top_k 50 {CORRECTED}", "reinforce_baseline"),
        ("--shaping.top_entropy_share 0.2", "gtpo"),
        ("--shaping.weights entropy", "group_norm"),  # the default, which it does not read
        ("--train.colocate_all --vllm.num_engines 4 --vllm.tensor_parallel_size 2", "gtpo"),
        ("--train.colocate_all --train.async_enable", "gtpo"),
        ("--train.colocate_actor_ref --actor.num_gpus_per_node 2", "gtpo"),  # without KL there is no reference
        ("--train.colocate_critic_reward --critic.num_nodes 2", "gtpo"),  # nor a critic
        ("--train.batch_size 96 --train.micro_batch_size 3 --actor.num_gpus_per_node 4", "gtpo"),
        # 8 GPUs in groups of 4 that share a sequence are 2 that share a batch.
        ("--train.batch_size 6 --train.micro_batch_size 3 --ds.ring_attn_size 4", "gtpo"),
        ("--train.batch_size 100 --train.micro_batch_size 3 --train.dynamic_batch_enable", "gtpo"),
        ("--rollout.max_new_tokens 2047", "gtpo"),
        *(("--algo.kl.use_loss --algo.kl.init_coef 0.1 --algo.kl.unbiased_gradient", name) for name in OURS),
        ("--rollout.n_samples_per_prompt 1", "flash_reinforce"),
        ("--shaping.top_entropy_share 0.2 --actor.entropy_target 0.3", "flash_reinforce"),
        (
            f"--algo.advantage.is_correction_gating binary_kl --algo.advantage.is_correction_threshold 1 {CORRECTED}",
            "gtpo",
        ),
    ],
)
def test_what_goes_together_is_taken(parse: Parse, flags: str, estimator: str) -> None:
    assert faults(parse(flags, estimator)) == []


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--shaping.alpha2 -0.1", "--shaping.alpha2 is -0.1"),
        ("--shaping.alpha1 nan", "--shaping.alpha1 is nan"),
        ("--shaping.entropy_clip 2 1", "--shaping.entropy_clip is 2.0 1.0, but needs 0 <= LOW < HIGH"),
        ("--reward.deadline 0", "--reward.deadline is 0.0"),
        ("--actor.entropy_coef_max 0.1", "--actor.entropy_coef_max is 0.1, but --actor.entropy_target, which it"),
        ("--actor.entropy_target 0", "--actor.entropy_target is 0.0, but needs to be above 0, in nats."),
        ("--actor.entropy_target 1 --actor.entropy_coef_delta 0", "--actor.entropy_coef_delta is 0.0"),
        (
            "--actor.entropy_target 1 --actor.entropy_coef_min 2",
            "--actor.entropy_coef_min is 2.0, but needs to be below --actor.entropy_coef_max, 1.0.",
        ),
        (
            "--actor.entropy_target 1 --actor.entropy_coef 3",
            "--actor.entropy_coef is 3.0, where the controller begins, but needs to be from",
        ),
        (
            "--shaping.entropy_clip 0 1 --shaping.weights uniform",
            "--shaping.entropy_clip clamps entropies, but --shaping.weights uniform uses none",
        ),
        ("--shaping.top_entropy_share 0", "--shaping.top_entropy_share is 0.0, but a share is above 0"),
        ("--shaping.top_entropy_share 1.5", "--shaping.top_entropy_share is 1.5, but a share is above 0"),
        ("--shaping.save_rollouts -1", "--shaping.save_rollouts is -1"),
        ("--train.max_steps 0", "--train.max_steps is 0"),
        ("--ds.zero_stage 4", "--ds.zero_stage is 4, but DeepSpeed has the stages 0 to 3."),
        ("--rollout.max_new_tokens 0", "--rollout.max_new_tokens is 0, but needs to be at least 1 and less than"),
        ("--rollout.max_new_tokens 2048", "--rollout.max_new_tokens is 2048, but needs to be at least 1 and les"),
        (
            "--train.batch_size 100 --train.micro_batch_size 3 --actor.num_gpus_per_node 4",
            "--train.batch_size is 100, but needs to be a multiple of 12: --train.micro_batch_size, 3, on each of 4 ",
        ),
        ("--train.updates_from m.jsonl", "--train.updates_from has another run's steps, and this run ends when"),
        (
            "--train.updates_from m.jsonl --train.max_steps 9 --train.max_epochs 2",
            "--train.max_epochs is 2, but --train.updates_from decides how often a step passes over its responses",
        ),
        (
            "--train.updates_from m.jsonl --train.max_steps 9 --train.dynamic_batch_enable",
            "--train.dynamic_batch_enable fills updates by tokens, and --train.updates_from counts responses",
        ),
        ("--train.max_steps 9 --train.async_enable --ckpt.load_enable", "--train.max_steps cannot count"),
        (
            "--train.colocate_all --actor.num_gpus_per_node 4 --vllm.num_engines 2",
            "--train.colocate_all puts engines and policy on the same GPUs, but the policy has 4 and the engines have "
            "2: let --vllm.num_engines times --vllm.tensor_parallel_size be 4.",
        ),
        (
            "--train.colocate_actor_ref --algo.kl.init_coef 0.1 --algo.kl.use_loss --actor.num_gpus_per_node 4",
            "--train.colocate_actor_ref puts policy and reference on the same GPUs, but the policy has 1 node(s) of 4 "
            "and the reference 1 node(s) of 8: make --ref.num_nodes",
        ),
        ("--reward.remote_url localhost:99", "--reward.remote_url is localhost:99, which is no URL: write http://loc"),
        ("--reward.remote_url ftp://a/b", "--reward.remote_url: A reward service's URL is like http://127.0.0.1:8000"),
        ("--reward.remote_url http://a:1,b:2", "--reward.remote_url is b:2, which is no URL: write http://b:2, or na"),
        ("--reward.remote_url http://me:secret@a:1", "--reward.remote_url: The URL of a must not hold credentials"),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_its_bound(parse: Parse, flags: str, words: str) -> None:
    (sentence,) = faults(parse(flags))
    assert sentence.startswith(words)


@pytest.mark.parametrize(
    "name", [*COUNTS, "rollout.top_k", "vllm.max_num_seqs", "reward.batch_size", "reward.max_in_flight"]
)
@pytest.mark.parametrize("count", [0, -2])
def test_a_count_of_nothing_is_refused(parse: Parse, name: str, count: int) -> None:
    assert f"--{name} is {count}, but needs to be at least 1." in faults(parse(f"--{name}={count}"))


@pytest.mark.parametrize(
    ("estimator", "flags", "words"),
    [
        ("grpo_s", CORRECTED, "--algo.advantage.is_correction_* weights single tokens, but GRPO-S has one ratio"),
        ("grpo_s", "--shaping.top_entropy_share 0.2", "--shaping.top_entropy_share is 0.2, but GRPO-S has one ratio"),
        ("entropy_advantage", "--entropy_advantage.alpha -1", "--entropy_advantage.alpha is -1.0, but a weight"),
        ("entropy_advantage", "--entropy_advantage.kappa 1", "--entropy_advantage.kappa is 1.0, but has to be"),
        ("edge", "--edge.clip 2 3", "--edge.clip is 2.0 3.0, but needs 0 < LOW <= 1 <= HIGH."),
        ("clip_cov", "--clip_cov.share 0", "--clip_cov.share is 0.0, but a share is above 0 and at most 1."),
        ("clip_cov", "--clip_cov.bounds 5 1", "--clip_cov.bounds is 5.0 1.0, but needs LOW < HIGH."),
        ("kl_cov", "--kl_cov.share 2", "--kl_cov.share is 2.0, but a share is above 0 and at most 1."),
        ("kl_cov", "--kl_cov.coef nan", "--kl_cov.coef is nan, but a weight is a number from 0 up."),
        ("kl_cov", "--shaping.top_entropy_share 0.2", "--shaping.top_entropy_share is 0.2, but KL-Cov itself"),
        ("clip_cov", "--guide.model guide", "--guide.* adds responses of another policy, whose log"),
        *(
            (estimator, "--shaping.weights shuffled", "--shaping.weights is shuffled, but --algo.advantage.estimator ")
            for estimator in ("group_norm", "reinforce_baseline", "flash_reinforce")
        ),
        ("flash_reinforce", "--guide.model guide", "--algo.advantage.estimator flash_reinforce cannot compute advan"),
        (
            "flash_reinforce",
            "--shaping.grop --rollout.n_samples_per_prompt 1",
            "--rollout.n_samples_per_prompt is 1, but --shaping.grop compares the lengths of a group's responses",
        ),
        *(
            (estimator, f"--rollout.top_p 0.9 {CORRECTED}", "--rollout.top_p is 0.9 with --algo.advantage.is_correc")
            for estimator in ("gtpo", "group_norm", "reinforce_baseline")
        ),
        *(
            ("gtpo", f"{KEPT} {flags}", words)
            for flags, words in (
                ("--guide.model guide", "--guide.* has responses that were not sampled from the tokens that --rol"),
                ("--algo.kl.init_coef 0.1 --algo.kl.use_loss", "--algo.kl.init_coef compares the policy with the r"),
                ("--ds.ring_attn_size 2", "--ds.ring_attn_size is 2, which splits the logits that --rollout.top_k r"),
                ("--ds.tensor_parallel_size 2", "--ds.tensor_parallel_size is 2, which splits the logits that --rol"),
            )
        ),
        (
            "gae",
            "--train.colocate_critic_reward --critic.num_nodes 2",
            "--train.colocate_critic_reward puts critic and reward model on the same GPUs, but the critic has 2 "
            "node(s) of 8 and the reward model 1 node(s) of 8: make --reward.num_nodes",
        ),
    ],
)
def test_what_does_not_go_with_an_estimator_is_refused_in_one_sentence(
    parse: Parse, estimator: str, flags: str, words: str
) -> None:
    (sentence,) = faults(parse(flags, estimator))
    assert sentence.startswith(words)


@pytest.mark.parametrize(
    ("flags", "expected"),
    # 128 prompts x 8 responses for 4 engines; an odd share is rounded up; never more than 1,024 unless asked for.
    [
        ("--vllm.num_engines 4", 256),
        ("--vllm.num_engines 3", 342),
        ("--vllm.num_engines 4 --vllm.max_num_seqs 64", 64),
        ("--vllm.num_engines 4 --rollout.vllm_generate_batch_size 256", 512),
        ("--rollout.batch_size 512", 1024),
        ("--vllm.max_num_seqs 2048", 2048),
    ],
)
def test_an_engine_works_on_its_share_of_a_batch_at_once(parse: Parse, flags: str, expected: int) -> None:
    found = parse(f"--rollout.batch_size 128 {flags}")
    assert faults(found) == []
    assert found.rollout("some.Class").max_num_seqs == expected


@pytest.mark.parametrize(
    "flag", ["--shaping.weights", "--shaping.over", "--shaping.scope", "--reward.on_failure", "--device"]
)
def test_an_unknown_choice_is_refused_by_the_parser(parse: Parse, flag: str) -> None:
    with pytest.raises(FlagError, match=f"^argument {flag}: there is no 'sideways': it takes "):
        parse(f"{flag} sideways")


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("grpo", "here that is group_norm."),
        ("GTPO", "did you mean gtpo"),
        ("gpto", "did you mean gtpo"),
        ("nothing", "it takes gae, reinforce, "),
    ],
)
def test_the_message_for_a_mistyped_estimator_names_the_nearest_or_its_name_here(
    parse: Parse, value: str, hint: str
) -> None:
    sentence = f"argument --algo.advantage.estimator: there is no '{value}': {hint}"
    with pytest.raises(FlagError, match=f"^{re.escape(sentence)}"):
        parse(estimator=value)


def test_the_message_for_a_flag_of_an_earlier_version_has_its_new_name(parser: argparse.ArgumentParser) -> None:
    known = {option for action in parser._actions for option in action.option_strings}
    assert not set(RENAMED) & known
    assert set(RENAMED.values()) <= known
    with pytest.raises(FlagError, match=r"^There is no flag --pretrain: it is --actor\.model_name_or_path now\.$"):
        command_line.parse(["--pretrain", "Qwen/Qwen2.5-7B"])


def test_the_built_in_reward_service_needs_reference_answers(settings: Callable[..., Settings]) -> None:
    found = settings("--algo.advantage.estimator", "group_norm", "--vllm.num_engines", "1")
    assert found.rewards_are_embedded
    (sentence,) = faults(found)
    assert sentence.startswith("No --data.label_key")


@pytest.mark.parametrize(
    "flags", ["--reward.remote_url http://127.0.0.1:5000", "--train.agent_func_path agent.py", OF_A_MODEL]
)
def test_whoever_gives_rewards_takes_the_built_in_services_place(parse: Parse, flags: str) -> None:
    assert not parse(flags, "group_norm").rewards_are_embedded


def test_the_reward_client_gets_the_token_of_the_environment_and_nobody_prints_it(
    parse: Parse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MATH_REWARD_TOKEN", "s3cret")
    found = parse("--reward.remote_url http://a:1")
    client = found.rollout("some.Class").reward
    assert client is not None
    assert client.token == "s3cret"
    assert "s3cret" not in repr(client) + repr(found), "OpenRLHF prints its flags, Ray its arguments"


@pytest.mark.parametrize(("choice", "deadline"), [("retry", 300.0), ("stop", 300.0), ("drop_group", 0.0)])
def test_drop_group_means_a_single_attempt(parse: Parse, choice: str, deadline: float) -> None:
    reward = parse(f"--reward.remote_url http://a:1 --reward.on_failure {choice}").rollout("some.Class").reward
    assert reward is not None
    assert reward.deadline == deadline


def test_a_python_reward_function_needs_no_client(parse: Parse) -> None:
    assert parse("--reward.remote_url rewards.py").rollout("some.Class").reward is None


@pytest.mark.parametrize(
    "flag", ["--ds.load_in_4bit", "--ds.use_liger_kernel", "--ds.adam_offload", "--vllm.sync_with_ray"]
)
def test_what_needs_a_gpu_is_refused_on_a_cpu(parse: Parse, flag: str) -> None:
    (sentence,) = platform.faults(parse(flag))
    assert sentence.startswith(flag)
    assert sentence.endswith("leave it out on --device cpu.")


def test_what_a_cpu_does_another_way_is_replaced_and_told(parse: Parse) -> None:
    found, changes = platform.adjusted(parse())
    assert found.flags["ds.attn_implementation"] == "eager"
    assert found.flags["vllm.sync_backend"] == "gloo"
    assert "on the CPU --ds.attn_implementation is eager, not flash_attention_2" in changes
    assert platform.adjusted(found) == (found, [])
    packed, _ = platform.adjusted(parse("--ds.packing_samples"))
    assert packed.flags["ds.attn_implementation"] == "flash_attention_2", "without it OpenRLHF would set it back"


@pytest.mark.parametrize(
    ("flags", "backend", "gpus"),
    [
        ("", "gloo", 2 + 3 * 2),
        ("--train.colocate_all", "nccl", 2),
        ("--train.colocate_all --train.async_enable", "gloo", 2 + 3 * 2),
        ("--algo.kl.init_coef 0.1 --ref.num_gpus_per_node 2", "gloo", 2 + 3 * 2 + 2),
    ],
)
def test_engines_and_policy_share_logical_gpus_only_where_they_take_turns(
    parse: Parse, flags: str, backend: str, gpus: int
) -> None:
    sizes = "--actor.num_gpus_per_node 2 --vllm.num_engines 3 --vllm.tensor_parallel_size 2"
    found, _ = platform.adjusted(parse(f"{sizes} {flags}"))
    assert found.flags["vllm.sync_backend"] == backend
    assert sum(gpus_by_role(found).values()) == gpus
