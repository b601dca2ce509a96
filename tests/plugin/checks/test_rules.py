"""Rules about flags on OpenRLHF's real parser: what goes together, and what is refused with which fix."""

from collections.abc import Callable

import pytest

from openrlhf_gtpo.checks import of_the_command, rules
from openrlhf_gtpo.cpu import platform
from openrlhf_gtpo.flags import parse as read

from ...refusals import assert_refusal

BASE = "--data.label_key answer --algo.kl.init_coef 0 --rollout.n_samples_per_prompt 8 --vllm.num_engines 1"
OURS = ("gtpo", "grpo_s")
ESTIMATORS = (*OURS, "group_norm", "docs/examples/shaping_function.py:signed_entropy")

Faults = Callable[..., list[str]]


@pytest.fixture(scope="session")
def faults() -> Faults:
    """The sentences about a command line that has no fault but for what is added."""

    def found(flags: str = "", estimator: str = "gtpo", device: str = "gpu") -> list[str]:
        words = f"--device {device} {BASE} --algo.advantage.estimator {estimator}".split()
        given = vars(read([*words, *flags.split()]))
        if device == "cpu":
            platform.prepare(given)
        return [one.sentence for one in rules.check(given) if one.state == "fault"]

    return found


@pytest.mark.parametrize("estimator", [*ESTIMATORS, "reinforce_baseline", "rloo", "dr_grpo"])
@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_every_estimator_is_taken_with_the_papers_settings(faults: Faults, estimator: str, device: str) -> None:
    assert faults("", estimator, device) == []


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
CORRECTED = "--algo.advantage.is_correction_level token"
GUIDE = "--guide.model org/guide"
ON_EIGHT = "--actor.num_gpus_per_node 8"


@pytest.mark.parametrize(
    ("flags", "estimator"),
    [
        ("--algo.kl.init_coef 0.001 --algo.kl.use_loss", "gtpo"),
        (CORRECTED, "gtpo"),
        ("--rollout.top_p 0.9 --shaping.top_entropy_share 0.2", "gtpo"),  # no correction, no ratios
        ("--train.colocate_all --train.async_enable --train.max_steps 9", "gtpo"),
        ("--ckpt.load_enable --train.async_enable --train.max_steps 9 --rollout.max_new_tokens 2047", "gtpo"),
        ("--train.colocate_actor_ref --actor.num_gpus_per_node 2", "gtpo"),  # without KL there is no reference
        (
            "--train.batch_size 96 --train.micro_batch_size 3 --actor.num_gpus_per_node 4 --rollout.batch_size 24",
            "gtpo",
        ),
        # 8 GPUs in groups of 4 that share a sequence are 2 that share a batch.
        ("--train.batch_size 6 --train.micro_batch_size 3 --ds.ring_attn_size 4 --rollout.batch_size 30", "gtpo"),
        # Micro-batches of one process, and dynamic ones, may have any size.
        (
            "--rollout.batch_size 5 --train.batch_size 40 --train.micro_batch_size 40 --actor.num_gpus_per_node 1",
            "gtpo",
        ),
        (f"--train.batch_size 96 --train.dynamic_batch_enable --rollout.batch_size 12 {ON_EIGHT}", "gtpo"),
        (f"--rollout.batch_size 7 {GUIDE}", "gtpo"),  # whose batches are filled
        # No reward model is made beside a service.
        (f"{OF_A_MODEL} --reward.remote_url http://127.0.0.1:1 --reward.num_gpus_per_node 3", "gtpo"),
        ("--rollout.max_new_tokens 1 --shaping.entropy_clip 0 0.1", "gtpo"),
        (OF_A_MODEL, "group_norm"),
        (OF_A_MODEL, ESTIMATORS[-1]),
        (f"{GUIDE} --guide.samples 2 --guide.when all zero_reward --guide.weight 0", "gtpo"),
        (f"{GUIDE} --algo.kl.init_coef 0.01 --algo.kl.use_loss --reward.remote_url http://127.0.0.1:1", "group_norm"),
        (f"{GUIDE} --reward.model_name_or_path judge --reward.remote_url http://127.0.0.1:1", "grpo_s"),
        (f"{GUIDE} --train.colocate_all --vllm.num_engines 8 {ON_EIGHT} --guide.engines 8", "gtpo"),
        ("--rollout.n_samples_per_prompt 1", "flash_reinforce"),
        ("--rollout.n_samples_per_prompt 2 --rollout.batch_size 256 --shaping.grop", "gtpo"),
    ],
)
def test_what_goes_together_is_taken(faults: Faults, flags: str, estimator: str) -> None:
    assert faults(flags, estimator) == []


ON_FOUR = "--actor.num_gpus_per_node 4"
WITH_KL = "--algo.kl.init_coef 0.1 --algo.kl.use_loss"
REFUSED: list[tuple[str, ...]] = [
    *((name, flags, flags.split()[0]) for name in (*OURS, ESTIMATORS[-1]) for flags in MEANINGLESS),
    *((name, OF_A_MODEL, "--reward.model_name_or_path") for name in OURS),
    ("grpo_s", "--shaping.until answer", "--shaping.until", "grpo_s", "choose gtpo."),
    ("rloo", "--shaping.alpha2 0.5", "--shaping.alpha2", "rloo", "choose gtpo or grpo_s."),
    ("group_norm", "--shaping.entropy_clip 0 1 --shaping.over class", "--shaping.entropy_clip", "gtpo or grpo_s."),
    (ESTIMATORS[-1], "--shaping.scope batch", "--shaping.scope", "signed_entropy"),
    ("gtpo", "--shaping.until answer --reward.remote_url http://a/reward", "--shaping.until", "reward service"),
    ("group_norm", "--reward.mode strict --reward.remote_url http://a:1,http://b/reward", "--reward.mode"),
    ("gtpo", "--shaping.entropy_clip 1 1", "--shaping.entropy_clip", "1.0 1.0"),
    ("gtpo", "--rollout.max_new_tokens 0", "--rollout.max_new_tokens", "0", "--data.max_len", "2048"),
    ("gtpo", "--rollout.max_new_tokens 2048", "--rollout.max_new_tokens", "2048", "--data.max_len"),
    ("gtpo", f"--train.batch_size 100 --train.micro_batch_size 3 {ON_FOUR}", "--train.batch_size", "100", " 12: "),
    ("gtpo", "--train.batch_size 100 --train.dynamic_batch_enable", "--train.batch_size", "100", " 8: "),
    ("gtpo", f"--train.dynamic_batch_enable {WITH_KL} --ref.num_gpus_per_node 3", "--ref.num_gpus_per_node", "3", "8"),
    (
        "gae",
        "--train.batch_size 24 --train.micro_batch_size 3 --critic.num_gpus_per_node 5",
        "24",
        " 120: ",
        "40 proc",
    ),
    ("gtpo", "--rollout.vllm_generate_batch_size 8", "--rollout.vllm_generate_batch_size", "8", "1024"),
    ("gtpo", "--ds.ring_attn_size 16", "--ds.ring_attn_size", "16", "8 GPUs"),
    # OpenRLHF's own assertions, of which it tells when its engines run.
    ("gtpo", f"--train.colocate_all {ON_FOUR} --vllm.num_engines 2", "OpenRLHF refuses", "engines", "got 4 and 2."),
    ("gtpo", f"--train.colocate_actor_ref {WITH_KL} {ON_FOUR}", "OpenRLHF refuses", "actor and ref model."),
    (
        "gae",
        f"{OF_A_MODEL} --train.colocate_critic_reward --reward.num_gpus_per_node 4",
        "OpenRLHF refuses",
        "critic and reward model.",
    ),
    ("gtpo", "--reward.remote_url localhost:99", "--reward.remote_url", "like http://", "'localhost:99'"),
    ("gtpo", "--reward.remote_url ftp://a/b", "--reward.remote_url", "http://"),
    ("gtpo", "--reward.remote_url http://a:1,b:2", "--reward.remote_url", "like http://", "'b:2'"),
    ("gtpo", "--reward.remote_url http://me:secret@a:1", "--reward.remote_url", "credentials"),
    ("gtpo", "--reward.ca_file ca.pem", "--reward.ca_file", "https://"),
    ("gtpo", "--reward.ca_file none.pem --reward.remote_url https://a", "--reward.ca_file", "none.pem"),
    ("gtpo", "--logger.wandb.key s3cret", "--logger.wandb.key", "WANDB_API_KEY"),
    ("gtpo", "--ds.param_dtype fp32", "--ds.param_dtype is fp32"),
    ("grpo_s", CORRECTED, "--algo.advantage.is_correction_", "grpo_s"),
    ("grpo_s", "--shaping.top_entropy_share 0.2", "--shaping.top_entropy_share", "0.2", "grpo_s"),
    ("flash_reinforce", "--rollout.n_samples_per_prompt 1 --shaping.grop", "--rollout.n_samples_per_prompt", "grop"),
    ("reinforce", "--train.partial_rollout_enable", "OpenRLHF refuses", "--train.async_enable"),
    ("group_norm", f"--rollout.top_p 0.9 {CORRECTED}", "--rollout.top_p", "0.9"),
    ("rloo", GUIDE, "--algo.advantage.estimator rloo"),  # not over groups of any size
    ("group_norm", f"{GUIDE} --guide.weight 0.5", "--guide.weight", "--guide.when"),
    ("group_norm", f"{GUIDE} --algo.kl.init_coef 0.01", "--algo.kl.init_coef is 0.01", "--algo.kl.use_loss"),
    ("group_norm", f"{GUIDE} --train.async_enable", "--train.async_enable"),
    ("group_norm", f"{GUIDE} --train.dynamic_batch_enable", "--train.dynamic_batch_enable"),
    ("group_norm", f"{GUIDE} --reward.model_name_or_path judge", "--reward.model_name_or_path"),
    (
        "group_norm",
        f"{GUIDE} --train.colocate_all --vllm.num_engines 8 --guide.engines 5 --guide.tensor_parallel_size 2",
        "--guide.engines needs 10 GPUs",
        "--train.colocate_all",
        "8",
    ),
    ("group_norm", "--guide.samples 2 --guide.weight 2", "--guide.samples, --guide.weight ", "--guide.model"),
    ("group_norm", "--guide.when all zero_reward --guide.engines 2", "--guide.when, --guide.engines"),
    ("group_norm", "--guide.tensor_parallel_size 1", "--guide.tensor_parallel_size"),
]
"""Estimator, flags, and what the refusal names."""


@pytest.mark.parametrize(("estimator", "flags", "named"), [(name, flags, named) for name, flags, *named in REFUSED])
def test_what_cannot_be_is_refused_and_named(faults: Faults, estimator: str, flags: str, named: list[str]) -> None:
    (said,) = faults(flags, estimator)
    assert_refusal(said, *named)
    assert "s3cret" not in said


SIZES = [
    # 8 x 5 with updates of 32: 40 graded, 32 trained on.
    ("8 5 32 4 8 1", "updates take 32 at a time", "--rollout.batch_size 32 or --train.batch_size 40."),
    # 12 with updates of 8 on 2 processes.
    ("3 4 8 2 2 2", "8 at a time (--train.batch_size 8 on 2", "--rollout.batch_size 2 or --train.batch_size 4."),
    # Three micro-batches for two processes: one would wait for the other for ever.
    (
        "3 4 4 2 4 2",
        "8 at a time",
        "micro_batch_size 4 on 2",
        "--rollout.batch_size 2 or --rollout.micro_batch_size 3.",
    ),
    ("4 4 64 4 4 1", "64 at a time", "--rollout.batch_size 16 or --train.batch_size 16."),
    # Eight responses are no micro-batch of nine, which OpenRLHF itself would refuse.
    ("5 2 8 8 9 1", "8 at a time", "set --rollout.batch_size 8."),
    # Nor are fewer than 32 a micro-batch of 16 for each of two processes.
    ("1 2 8 8 16 2 --train.dynamic_batch_enable", "8 at a time", "set --rollout.batch_size 16."),
]


@pytest.mark.parametrize(("sizes", "named"), [(sizes, named) for sizes, *named in SIZES])
def test_a_batch_that_is_no_whole_number_of_updates_is_refused_with_the_numbers_that_fit(
    faults: Faults, sizes: str, named: list[str]
) -> None:
    names = ("rollout.batch_size", "rollout.n_samples_per_prompt", "train.batch_size", "train.micro_batch_size")
    names = (*names, "rollout.micro_batch_size", "actor.num_gpus_per_node")
    numbers, _, more = sizes.partition(" --")
    words = [f"--{name} {size}" for name, size in zip(names, numbers.split(), strict=True)]
    (said,) = faults(" ".join([*words, *([f"--{more}"] if more else [])]))
    assert_refusal(said, *named)


OF_A_GPU = "load_in_4bit", "use_liger_kernel", "adam_offload", "param_dtype fp16"


@pytest.mark.parametrize("flags", [*(f"--ds.{flag}" for flag in OF_A_GPU), "--vllm.sync_with_ray"])
def test_what_needs_a_gpu_is_refused_on_a_cpu(faults: Faults, flags: str) -> None:
    (said,) = faults(flags, device="cpu")
    assert_refusal(said, flags.split()[0], "CPU")


def test_the_built_in_reward_service_needs_reference_answers() -> None:
    words = ["--device=gpu", "--algo.advantage.estimator=group_norm", "--vllm.num_engines=1", "--algo.kl.init_coef=0"]
    said, *_ = (one.sentence for one in of_the_command(vars(read(words))))
    assert_refusal(said, "Flags are missing", "--data.label_key")


def test_a_token_file_that_is_not_there_is_refused_before_anything_starts(
    faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MATH_REWARD_TOKEN", raising=False)
    monkeypatch.setenv("MATH_REWARD_TOKEN_FILE", "/no/token")
    (said,) = faults()
    assert_refusal(said, "/no/token", "MATH_REWARD_TOKEN_FILE")


@pytest.mark.parametrize(
    ("flags", "attention", "backend"),
    [
        ("", "sdpa", "gloo"),
        ("--train.colocate_all", "sdpa", "nccl"),
        ("--ds.packing_samples", "flash_attention_2", "gloo"),  # which OpenRLHF would set back else
    ],
)
def test_what_a_cpu_does_another_way_is_replaced(flags: str, attention: str, backend: str) -> None:
    given = vars(read(f"--device cpu --algo.advantage.estimator gtpo {flags}".split()))
    platform.prepare(given)
    assert (given["ds.attn_implementation"], given["vllm.sync_backend"]) == (attention, backend)


@pytest.mark.parametrize(
    ("template", "named"),
    [
        (r"{} Answer in \boxed{}.", "{} once"),
        ("Answer:", "{} once"),
        (r"{} Answer in \boxed{{}}.", None),
        ("Q: {} A:", None),
    ],
)
def test_a_template_holds_each_prompt_once(template: str, named: str | None) -> None:
    words = [*BASE.split(), "--device=gpu", "--algo.advantage.estimator=gtpo", f"--data.input_template={template}"]
    found = [one.sentence for one in rules.check(vars(read(words))) if one.state == "fault"]
    assert len(found) == (named is not None)
    for sentence in found:
        assert_refusal(sentence, "--data.input_template", str(named), r"\boxed{{}}")
