"""Our flags on OpenRLHF's real parser: what is accepted, what is refused and with which fix, and what they become."""

import argparse
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

from ...refusals import assert_refusal

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
        ("--train.colocate_all --train.async_enable --train.max_steps 9", "gtpo"),
        ("--ckpt.load_enable --train.max_steps 9", "gtpo"),
        ("--train.colocate_actor_ref --actor.num_gpus_per_node 2", "gtpo"),  # without KL there is no reference
        ("--train.colocate_critic_reward --critic.num_nodes 2", "gtpo"),  # nor a critic
        ("--train.batch_size 96 --train.micro_batch_size 3 --actor.num_gpus_per_node 4", "gtpo"),
        # 8 GPUs in groups of 4 that share a sequence are 2 that share a batch.
        ("--train.batch_size 6 --train.micro_batch_size 3 --ds.ring_attn_size 4", "gtpo"),
        ("--train.batch_size 100 --train.micro_batch_size 3 --train.dynamic_batch_enable", "gtpo"),
        ("--rollout.max_new_tokens 2047", "gtpo"),
        ("--rollout.max_new_tokens 1 --ds.zero_stage 3 --train.max_steps 1 --shaping.alpha2 0", "gtpo"),
        ("--ds.zero_stage 0 --shaping.entropy_clip 0 0.1 --reward.deadline 0.1", "gtpo"),
        ("--actor.entropy_target 0.1 --actor.entropy_coef 1 --actor.entropy_coef_delta 0.1", "gtpo"),
        ("--actor.entropy_target 0.1 --actor.entropy_coef_min 0.1 --actor.entropy_coef 0.1", "gtpo"),
        ("--edge.clip 1 1", "edge"),
        ("--clip_cov.share 1 --clip_cov.bounds 1 1.1", "clip_cov"),
        ("--kl_cov.share 1 --kl_cov.coef 0", "kl_cov"),
        *((OF_A_MODEL, name) for name in ours() if not ESTIMATORS[name].needs_correctness),
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


PLANNED = "--train.updates_from m.jsonl --train.max_steps 9"
ON_FOUR = "--actor.num_gpus_per_node 4"
BONUS = "--actor.entropy_target 1"
WITH_KL = "--algo.kl.init_coef 0.1 --algo.kl.use_loss"
REFUSED: list[tuple[str, ...]] = [
    *((name, flags, flags.split()[0]) for name in ours() for flags in MEANINGLESS),
    *((name, OF_A_MODEL, "--reward.model_name_or_path") for name in ours() if ESTIMATORS[name].needs_correctness),
    ("gtpo", "--shaping.alpha2 -0.1"),
    ("gtpo", "--shaping.alpha1 inf"),
    ("gtpo", "--shaping.entropy_clip 2 1"),
    ("gtpo", "--reward.deadline 0"),
    ("gtpo", "--actor.entropy_coef_max 0.1", "--actor.entropy_coef_max", "0.1", "--actor.entropy_target"),
    ("gtpo", "--actor.entropy_target 0"),
    ("gtpo", f"{BONUS} --actor.entropy_coef_delta 0", "--actor.entropy_coef_delta", "0.0"),
    ("gtpo", f"{BONUS} --actor.entropy_coef_min 2", "--actor.entropy_coef_min", "2.0", "1.0"),
    ("gtpo", f"{BONUS} --actor.entropy_coef_min 1 --actor.entropy_coef 1", "--actor.entropy_coef_min", "1.0"),
    ("gtpo", f"{BONUS} --actor.entropy_coef 3", "--actor.entropy_coef", "3.0", "0.0", "1.0"),
    ("gtpo", "--shaping.entropy_clip 0 1 --shaping.weights uniform", "--shaping.entropy_clip", "--shaping.weights"),
    ("gtpo", "--shaping.top_entropy_share 0"),
    ("gtpo", "--shaping.top_entropy_share 1.5"),
    ("gtpo", "--shaping.save_rollouts -1"),
    ("gtpo", "--train.max_steps 0"),
    ("gtpo", "--ds.zero_stage 4"),
    ("gtpo", "--rollout.max_new_tokens 0", "--rollout.max_new_tokens", "0", "--data.max_len", "2048"),
    ("gtpo", "--rollout.max_new_tokens 2048", "--rollout.max_new_tokens", "2048", "--data.max_len"),
    ("gtpo", f"--train.batch_size 100 --train.micro_batch_size 3 {ON_FOUR}", "--train.batch_size", "100", " 12: "),
    ("gtpo", "--train.updates_from m.jsonl", "--train.updates_from", "--train.max_steps"),
    ("gtpo", f"--train.max_epochs 2 {PLANNED}", "--train.max_epochs", "2", "--train.updates_from"),
    ("gtpo", f"--train.dynamic_batch_enable {PLANNED}", "--train.dynamic_batch_enable", "--train.updates_from"),
    ("gtpo", "--train.max_steps 9 --train.async_enable --ckpt.load_enable", "--train.max_steps"),
    ("gtpo", f"--train.colocate_all {ON_FOUR} --vllm.num_engines 2", "--train.colocate_all", "4", "2", "engines"),
    ("gtpo", f"--train.colocate_actor_ref {WITH_KL} {ON_FOUR}", "--train.colocate_actor_ref", "4", "8", "--ref.num_"),
    ("gtpo", "--reward.remote_url localhost:99", "--reward.remote_url", "http://localhost:99"),
    ("gtpo", "--reward.remote_url ftp://a/b", "--reward.remote_url", "http://"),
    ("gtpo", "--reward.remote_url http://a:1,b:2", "--reward.remote_url", "http://b:2"),
    ("gtpo", "--reward.remote_url http://me:secret@a:1", "--reward.remote_url", "credentials"),
    ("grpo_s", CORRECTED, "--algo.advantage.is_correction_", "GRPO-S"),
    ("grpo_s", "--shaping.top_entropy_share 0.2", "--shaping.top_entropy_share", "0.2", "GRPO-S"),
    ("entropy_advantage", "--entropy_advantage.alpha -1"),
    ("entropy_advantage", "--entropy_advantage.kappa 1"),
    ("edge", "--edge.clip 2 3"),
    ("clip_cov", "--clip_cov.share 0"),
    ("clip_cov", "--clip_cov.bounds 5 1"),
    ("kl_cov", "--kl_cov.share 2"),
    ("kl_cov", "--kl_cov.coef nan"),
    ("kl_cov", "--shaping.top_entropy_share 0.2", "--shaping.top_entropy_share", "0.2", "KL-Cov"),
    ("clip_cov", "--guide.model guide", "--guide."),
    ("flash_reinforce", "--guide.model guide", "--algo.advantage.estimator flash_reinforce", "gtpo"),
    ("flash_reinforce", "--rollout.n_samples_per_prompt 1 --shaping.grop"),
    *(
        (name, "--shaping.weights shuffled", "--shaping.weights", "shuffled", name)
        for name in ("group_norm", "reinforce_baseline", "flash_reinforce")
    ),
    *(
        (name, f"--rollout.top_p 0.9 {CORRECTED}", "--rollout.top_p", "0.9", "--rollout.top_k")
        for name in ("gtpo", "group_norm", "reinforce_baseline")
    ),
    ("gtpo", f"--guide.model guide {KEPT}", "--guide.", "--rollout.top_k"),
    ("gtpo", f"{WITH_KL} {KEPT}", "--algo.kl.init_coef", "--rollout.top_k"),
    ("gtpo", f"--ds.ring_attn_size 2 {KEPT}", "--ds.ring_attn_size", "2", "--rollout.top_k"),
    ("gtpo", f"--ds.tensor_parallel_size 2 {KEPT}", "--ds.tensor_parallel_size", "2", "--rollout.top_k"),
    ("gae", "--train.colocate_critic_reward --critic.num_nodes 2", "--train.colocate_critic_reward", "2", "--reward."),
    *(
        ("gtpo", f"{flag} sideways", flag, "'sideways'")
        for flag in ("--shaping.weights", "--shaping.over", "--shaping.scope", "--reward.on_failure", "--device")
    ),
    ("grpo", "", "--algo.advantage.estimator", "'grpo'", "group_norm"),
    ("GTPO", "", "--algo.advantage.estimator", "'GTPO'", "did you mean gtpo"),
    ("gpto", "", "--algo.advantage.estimator", "'gpto'", "did you mean gtpo"),
    ("nothing", "", "--algo.advantage.estimator", "'nothing'", "gae, reinforce, "),
]
"""Estimator, flags, and what the refusal names: all of the flags' words where nothing is given."""


@pytest.mark.parametrize(("estimator", "flags", "named"), [(name, flags, named) for name, flags, *named in REFUSED])
def test_what_cannot_be_is_refused_and_named(parse: Parse, estimator: str, flags: str, named: list[str]) -> None:
    try:
        (said,) = faults(parse(flags, estimator))
    except FlagError as error:
        said = str(error)
    assert_refusal(said, *(named or flags.split()))


@pytest.mark.parametrize(
    "name", [*COUNTS, "rollout.top_k", "vllm.max_num_seqs", "reward.batch_size", "reward.max_in_flight"]
)
def test_a_count_is_at_least_one(parse: Parse, name: str) -> None:
    for count, refused in ((-2, True), (0, True), (1, False)):
        found = [said for said in faults(parse(f"--{name}={count}")) if f"--{name} is {count}," in said]
        assert any("at least 1" in said for said in found) == refused


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


def test_the_message_for_a_flag_of_an_earlier_version_has_its_new_name(parser: argparse.ArgumentParser) -> None:
    known = {option for action in parser._actions for option in action.option_strings}
    assert not set(RENAMED) & known
    assert set(RENAMED.values()) <= known
    with pytest.raises(FlagError) as refused:
        command_line.parse(["--pretrain", "Qwen/Qwen2.5-7B"])
    assert_refusal(str(refused.value), "--pretrain", "--actor.model_name_or_path")


def test_the_built_in_reward_service_needs_reference_answers(settings: Callable[..., Settings]) -> None:
    found = settings("--algo.advantage.estimator", "group_norm", "--vllm.num_engines", "1")
    assert found.rewards_are_embedded
    (sentence,) = faults(found)
    assert_refusal(sentence, "--data.label_key")


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
    assert_refusal(sentence, flag, "--device cpu")


def test_what_a_cpu_does_another_way_is_replaced_and_told(parse: Parse) -> None:
    found, changes = platform.adjusted(parse())
    assert found.flags["ds.attn_implementation"] == "eager"
    assert found.flags["vllm.sync_backend"] == "gloo"
    assert any("--ds.attn_implementation" in change and "flash_attention_2" in change for change in changes)
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
