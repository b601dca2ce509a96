"""Flags that OpenRLHF hands to a library: a value is taken or refused as the library does, before anything starts."""

import json
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from openrlhf_gtpo import checks
from openrlhf_gtpo.cpu import platform
from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.flags import parse as read

from ...refusals import assert_refusal

Said = Callable[..., list[tuple[str, str]]]
TWO = "--data.prompt_dataset train.jsonl,train.jsonl --data.prompt_probs"
LORA = "--ds.lora.rank 8 --ds.lora.target_modules"
CORRECTED = "--algo.advantage.is_correction_level"
FILTERED = "--algo.dynamic_filtering_enable --algo.dynamic_filtering_range"
EVALUATED = "--eval.dataset held.jsonl --eval.steps 1 --eval.n_samples_per_prompt 3"


@pytest.fixture
def said(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Said:
    """State and sentence of what a start finds wrong with a command line that has no fault but for what is added."""
    monkeypatch.chdir(tmp_path)
    for name, count in (("train", 32), ("held", 4)):
        rows = [{"input": f"{n} + 1 = \\boxed", "label": str(n + 1), "datasource": "sums"} for n in range(count)]
        Path(f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    base = (
        f"--preset gtpo --actor.model_name_or_path {tiny_model} --data.prompt_dataset train.jsonl --data.label_key "
        "label --data.max_len 128 --rollout.max_new_tokens 40"
    )

    def found(flags: str, device: str = "cpu") -> list[tuple[str, str]]:
        try:
            given = vars(read([*shlex.split(f"--device {device} {base} {flags}")]))
        except SettingsError as error:
            return [("fault", str(error))]
        if device == "cpu":
            platform.prepare(given)
        findings = checks.of_the_command({"vllm.num_engines": 1, **given})
        known = "the tokenizer of"  # which the tiny model has not
        return [(one.state, one.sentence) for one in findings if one.state != "ok" and known not in one.sentence]

    return found


REFUSED: list[tuple[str, ...]] = [
    ("--rollout.temperature 0", "0.0", "above 0"),
    ("--rollout.temperature -1", "must be non-negative, got -1.0."),
    ("--rollout.temperature 0.001", "0.001", "0.01"),
    ("--rollout.temperature 3", "must be in [0, 2], got 3.0."),
    ("--rollout.temperature nan", "nan"),
    ("--rollout.top_p 0", "must be in (0, 1], got 0.0."),
    ("--rollout.top_p 2", "must be in (0, 1], got 2.0."),
    ("--eval.temperature -0.5", "must be non-negative, got -0.5."),
    ("--eval.n_samples_per_prompt 0", "at least 1"),
    ("--vllm.tensor_parallel_size 3", "3", "2 attention heads"),
    ("--ds.tensor_parallel_size 3", "3", "2 attention heads"),
    ("--ds.experts_implementation grouped_mm", "does not support setting experts implementation."),
    ("--ref.num_nodes 0", "at least 1"),
    ("--ds.ring_attn_head_stride 0", "at least 1"),
    ("--vllm.gpu_memory_utilization 1.5", "at most 1"),
    ("--actor.lr_scheduler constnat", "constnat", "did you mean constant?"),
    ("--actor.lr_scheduler reduce_lr_on_plateau", "missing", "'metrics'"),
    ("--actor.lr_scheduler warmup_stable_decay", "missing", "'num_decay_steps'"),
    ("--actor.lr_warmup_ratio 5", "5", "at most 1"),
    ("--actor.min_lr_ratio -1", "-1", "at least 0"),
    ("--actor.adam.lr -1", "Invalid learning rate: -1.0."),
    ("--actor.adam.lr inf", "inf", "finite"),
    ("--actor.adam.betas 0.9 1", "Invalid beta parameter at index 1: 1.0."),
    ("--actor.adam.eps -1", "Invalid epsilon value: -1.0."),
    ("--actor.adam.weight_decay -1", "Invalid weight_decay value: -1.0."),
    ("--actor.muon.lr -1 --actor.optim muon --actor.max_norm 0", "but is: -1.0."),
    ("--actor.dual_clip 0.5", "must be > 1.0, got 0.5."),
    ("--actor.eps_clip_low_high -0.2 0.2", "at least 0"),
    (f"--algo.advantage.is_correction_mode clip {CORRECTED} seq", "level=token"),
    (f"--algo.advantage.is_correction_gating tv {CORRECTED} token", "upper bound only"),
    ("--data.dataloader_num_workers -1", "non-negative"),
    ("--train.seed -1", "between 0 and 2**32 - 1."),
    ("--train.ema_beta 1.5", "at most 1"),
    ("--ds.zero_stage 7", "at most 3"),
    ("--ds.zpg 0", "at least 1"),
    ("--ds.grad_accum_dtype fp8", "'fp8' is not a valid"),
    ("--ds.lora.rank -1", "at least 0"),
    ("--ds.lora.alpha 0 --ds.lora.rank 8", "at least 1"),
    ("--ds.lora.dropout 2 --ds.lora.rank 8", "between 0 and 1, but got 2.0."),
    ("--algo.advantage.gamma 2", "at most 1"),
    ("--algo.kl.target -1", "at least 0"),
    ("--reward.overlong_penalty_factor -1", "at least 0"),
    (f"--eval.temperature 0 {EVALUATED}", "0.0", "--eval.n_samples_per_prompt 3"),
    ("--ds.lora.dropout 1 --ds.lora.rank 8", "1.0", "less than 1."),
    ("--actor.max_norm -1", "-1.0", "0 or more"),
    ("--ckpt.max_mem -1", "-1.0", "0 or more"),
    (f"--algo.advantage.is_correction_threshold 2 0.5 {CORRECTED} token", "2 0.5", "LOW below HIGH"),
    ("--logger.logging_steps 0", "at least 1"),
    ("--ckpt.save_steps 0", "0", "-1 for never"),
    ("--eval.steps 0", "0", "-1 for never"),
    ("--ckpt.max_num 0", "at least 1"),
    ("--reward.overlong_buffer_len 41", "41", "40 tokens"),
    ("--reward.stop_properly_penalty_coef 2", "2.0", "at most 1."),
    ("--ckpt.best_metric_key pass1", "pass1", "--eval.dataset and --eval.steps"),
    (f"--ckpt.best_metric_key eval_default_pass1 {EVALUATED}", "eval_default_pass1", "did you mean eval_sums_pass1?"),
    (f"--ckpt.best_metric_key eval_sums_pass8 {EVALUATED}", "mean eval_sums_pass1 or eval_sums_pass2 or"),
    ("--data.prompt_probs 0.5,0.6 --data.prompt_dataset train.jsonl,train.jsonl", "do not sum to 1"),
    ("--data.prompt_probs 1,0 --data.prompt_dataset train.jsonl,train.jsonl", "indices [1] have probability 0."),
    ("--data.prompt_probs a,b --data.prompt_dataset train.jsonl,train.jsonl", "could not convert", "'a'"),
    ("--ds.lora.target_modules q_projj --ds.lora.rank 8", "no q_projj: did you mean q_proj?"),
    ("--ds.lora.target_modules q_proj v_projj --ds.lora.rank 8", "no v_projj: did you mean v_proj?"),
    ("--ds.lora.target_modules q_proj proj --ds.lora.rank 8", "no proj"),
    ("--ds.lora.target_modules norm --ds.lora.rank 8", "Qwen2RMSNorm", "is not supported."),
    ("--algo.dynamic_filtering_range 1 2 --algo.dynamic_filtering_enable", "1.0 2.0", "from 0 to 1"),
    ("--algo.dynamic_filtering_range 1 0 --algo.dynamic_filtering_enable", "1.0 0.0", "LOW", "HIGH"),
]
"""Flags, the first at fault, and words of the refusal."""


@pytest.mark.parametrize(("flags", "words"), [(flags, words) for flags, *words in REFUSED])
def test_a_value_that_its_library_refuses_or_takes_without_sense_is_refused_and_named(
    said: Said, flags: str, words: list[str]
) -> None:
    found = said(flags)
    assert len(found) == 1, found
    ((state, sentence),) = found
    assert state == "fault"
    assert_refusal(sentence, flags.split()[0], *words)
    assert "(parameter=" not in sentence, "vLLM says it twice"


@pytest.mark.parametrize(
    "flags",
    [
        "",
        "--rollout.temperature 1.5 --rollout.top_p 0.9 --eval.temperature 0",
        "--rollout.temperature 0.01",
        "--actor.lr_scheduler constant --actor.lr_warmup_ratio 0 --actor.adam.lr 0",
        "--actor.lr_scheduler polynomial --actor.lr_warmup_ratio 1 --actor.adam.lr 1e-6",
        "--actor.lr_scheduler cosine_warmup_with_min_lr --actor.min_lr_ratio 1",
        "--actor.adam.betas 0.9 0.999 --actor.adam.eps 1e-6 --actor.adam.weight_decay 0.1 --actor.max_norm inf",
        "--actor.optim muon --actor.muon.lr 0.01 --actor.max_norm 0 --actor.dual_clip 3",
        f"{CORRECTED} token --algo.advantage.is_correction_mode clip --algo.advantage.is_correction_threshold 2",
        f"{CORRECTED} seq --algo.advantage.is_correction_gating tv --algo.advantage.is_correction_threshold 0.1",
        "--critic.adam.lr -1",  # there is none
        f"{TWO} 0.3,0.7 --data.dataloader_num_workers 2 --train.seed 4294967295",
        "--ds.lora.rank 8 --ds.lora.alpha 1 --ds.lora.dropout 0.1",
        f"{LORA} self_attn.q_proj lm_head",
        f"{LORA} all-linear",
        f"--eval.temperature 0 {EVALUATED} --eval.n_samples_per_prompt 1",
        "--algo.kl.init_coef 0.01 --algo.kl.use_loss --algo.kl.estimator k2",
        "--ds.grad_accum_dtype fp32 --ds.zero_stage 3 --train.enable_ema --train.ema_beta 1",
        "--vllm.tensor_parallel_size 2 --vllm.gpu_memory_utilization 1",
        "--algo.dynamic_filtering_range 0 1",  # the default, as a run.json has it
        f"{FILTERED} -1 0.1",
        f"{FILTERED} 2 3 --reward.remote_url http://127.0.0.1:9/of_ones_own",
        f"{EVALUATED} --ckpt.best_metric_key eval_sums_pass3",
        f"{EVALUATED} --ckpt.best_metric_key none --ckpt.save_steps -1",
        "--reward.overlong_buffer_len 40 --reward.stop_properly_penalty_coef -0.5",
    ],
)
def test_unusual_values_are_taken(said: Said, flags: str) -> None:
    assert said(flags) == []


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--eval.dataset held.jsonl", ["--eval.dataset", "--eval.steps"]),
        ("--eval.dataset held.jsonl --eval.steps 9 --train.max_steps 8", ["--eval.steps is 9", "8 steps"]),
        ("--eval.steps 5", ["--eval.steps", "--eval.dataset"]),
        ("--ds.lora.alpha 8 --ds.lora.dropout 0.1", ["--ds.lora.alpha, --ds.lora.dropout", "--ds.lora.rank"]),
        (
            "--algo.dynamic_filtering_range 0.2 0.8",
            ["--algo.dynamic_filtering_range", "--algo.dynamic_filtering_enable"],
        ),
        ("--algo.kl.use_loss", ["--algo.kl.use_loss", "--algo.kl.init_coef"]),
        ("--algo.advantage.is_correction_threshold 2", ["threshold", f"{CORRECTED}"]),
        ("--actor.muon.lr 0.1", ["--actor.muon.lr", "without --actor.optim muon"]),
        ("--actor.muon.ns_steps 6", ["--actor.muon.ns_steps", "DeepSpeed"]),
        ("--actor.muon.no_nesterov", ["--actor.muon.no_nesterov", "DeepSpeed"]),
        ("--actor.optim muon", ["--actor.max_norm 1.0", "Muon", "set it to 0."]),
    ],
)
def test_what_would_do_nothing_is_a_warning(said: Said, flags: str, words: list[str]) -> None:
    found = said(flags)
    assert len(found) == 1, found
    ((state, sentence),) = found
    assert state == "warning"
    assert_refusal(sentence, *words)


def test_a_best_metric_needs_evaluations(said: Said) -> None:
    found = said("--ckpt.best_metric_key eval_sums_pass1 --eval.dataset held.jsonl")
    assert [state for state, _ in found] == ["warning", "fault"]
    assert_refusal(found[1][1], "--ckpt.best_metric_key", "--eval.steps")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--ds.attn_implementation eagr", "did you mean eager?"),
        ("--ds.attn_implementation sdpa", ""),
        ("--vllm.sync_backend ncll", "did you mean nccl?"),
        ("--vllm.sync_backend gloo", ""),
        ("--vllm.sync_backend mpi --vllm.sync_with_ray", "Only NCCL and GLOO are supported."),
    ],
)
def test_what_a_cpu_has_no_choice_of_is_asked_about_for_gpus(said: Said, flags: str, words: str) -> None:
    found = said(f"--vllm.num_engines 8 {flags}", "gpu")
    assert [sentence.endswith(words) for _, sentence in found] == [True] * bool(words)


def test_a_guide_s_heads_divide_among_its_own_gpus(said: Said, tiny_model: Path) -> None:
    guide = f"--guide.model {tiny_model} --guide.tensor_parallel_size"
    ((state, sentence),) = said(f"{guide} 3")
    assert state == "fault"
    assert_refusal(sentence, "--guide.tensor_parallel_size is 3", "2 attention heads")
    assert said(f"{guide} 2") == []


@pytest.mark.parametrize(("device", "attention"), [("gpu", "Flash Attention 2"), ("cpu", "scaled_dot_product")])
def test_a_policy_without_the_attention_that_is_the_default_is_refused(
    said: Said, tmp_path: Path, device: str, attention: str
) -> None:
    from transformers import BloomConfig

    BloomConfig(hidden_size=32, n_layer=1, n_head=2, vocab_size=64).save_pretrained(tmp_path / "bloom")
    ((state, sentence),) = said(f"--vllm.num_engines 8 --actor.model_name_or_path {tmp_path / 'bloom'}", device)
    assert state == "fault"
    assert_refusal(sentence, "--ds.attn_implementation", "BloomForCausalLM does not support", attention)


def test_a_kernel_of_the_hub_is_not_downloaded(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_config", None)  # which would
    assert said("--vllm.num_engines 8 --ds.attn_implementation hub/kernel", "gpu") == []


def test_a_policy_that_sees_is_not_made_on_nothing(said: Said, tmp_path: Path) -> None:
    from transformers import LlavaConfig

    LlavaConfig().save_pretrained(tmp_path / "sees")
    found = said(f"--actor.model_name_or_path {tmp_path / 'sees'} {LORA} nothing")
    assert [sentence for _, sentence in found if "target_modules" in sentence or "attn" in sentence] == []


def test_a_library_that_is_not_here_is_not_asked_and_none_for_defaults(
    said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vllm.sampling_params", None)
    assert said("--rollout.top_p 2 --eval.temperature -1") == []


def test_libraries_do_not_write_into_the_terminal_and_nothing_of_ours_is_lost(
    said: Said, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def loud(seed: int) -> None:
        sys.stdout.flush()
        for stream in (1, 2):
            os.write(stream, b"a greeting")

    monkeypatch.setattr("numpy.random.RandomState", loud)
    with open(1, "w", closefd=False) as buffered:
        monkeypatch.setattr(sys, "stdout", buffered)
        print("ours", end="")
        said("--train.seed 7")
        print(" too", end="")
        monkeypatch.undo()
    told = capfd.readouterr()
    assert (told.out, told.err) == ("ours too", "")
