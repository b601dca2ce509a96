"""GTPO and GRPO-S in real runs of TRL: advantages and gradients are those of a calculation that knows nothing of TRL.

Run by itself it is one process of a distributed run, which the test of two processes starts.
"""

import json
import re
import subprocess
import sys
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import mean
from typing import Any

import pandas
import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from tiny_policy import QUESTIONS, tiny_policy
from transformers import PrinterCallback
from trl import GRPOConfig, GRPOTrainer
from trl.rewards import get_soft_overlong_punishment

from math_reward.adapters.trl import MathReward
from openrlhf_gtpo.errors import SettingsError, UserError
from openrlhf_gtpo.shaping import grpo_s, gtpo
from openrlhf_gtpo.trainers import trl_checks
from openrlhf_gtpo.trainers.trl import GTPOTrainer

sys.path.append(str(Path(__file__).parents[1] / "plugin"))
from naive_shaping import naive_grpo_s, naive_gtpo

SEVEN, FOURTEEN = 7, 8
DEFAULTS = {"alpha1": 1.0, "alpha2": 0.1, "over": "group", "scope": "group", "entropy_clip": None, "eps": 1e-8}


def says_seven(completion_ids: list[list[int]], **_: Any) -> list[float]:
    return [float(SEVEN in ids) for ids in completion_ids]


def says_seven_if_asked(completion_ids: list[list[int]], **_: Any) -> list[float | None]:
    return [None if FOURTEEN in ids else float(SEVEN in ids) for ids in completion_ids]


overlong = get_soft_overlong_punishment(max_completion_len=6, soft_punish_cache=4)


def entropies_and_logprobs(model: Any, batch: dict[str, torch.Tensor], temperature: float) -> tuple[Any, Any]:
    """(B, T) each, from the whole logits, without TRL's fused head."""
    ids, on = (torch.cat([batch[f"prompt_{of}"], batch[f"completion_{of}"]], 1) for of in ("ids", "mask"))
    columns = batch["completion_ids"].size(1)
    scores = (model(input_ids=ids, attention_mask=on).logits[:, -columns - 1 : -1] / temperature).log_softmax(-1)
    exact = scores.double()
    return -(exact.exp() * exact).sum(-1), scores.gather(-1, batch["completion_ids"][..., None]).squeeze(-1)


class Watched(GTPOTrainer):
    """Keeps what each rollout gave, and compares each gradient with Eq. 7's or Eq. 10's."""

    def __init__(self, *args: Any, compare_gradients: bool = False, **kwargs: Any) -> None:
        self.rollouts: list[dict[str, Any]] = []
        self.gradients: list[tuple[float, float]] = []
        self.ratios: list[torch.Tensor] = []
        self.compare_gradients = compare_gradients
        super().__init__(*args, **kwargs)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        batch = super()._generate_and_score_completions(inputs)
        with torch.no_grad():
            entropy, _ = entropies_and_logprobs(self.model, batch, self.temperature)
        mask = batch["completion_mask"] * batch.get("tool_mask", 1)
        self.rollouts.append(
            {
                "entropy": entropy.tolist(),
                "mask": mask.tolist(),
                "completions": self.completions,
                "advantages": batch["advantages"].tolist(),
            }
        )
        return batch

    def _calculate_rewards(
        self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any
    ) -> torch.Tensor:
        self.completions = completion_ids_list
        return super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        loss = super()._compute_loss(model, inputs)
        if self.compare_gradients:
            weights = [weight for weight in self.model.parameters() if weight.requires_grad]
            expected = self._expected_loss(inputs)
            pairs = [torch.autograd.grad(one, weights, retain_graph=True) for one in (loss, expected)]
            ours, theirs = (torch.cat([gradient.flatten() for gradient in one]) for one in pairs)
            self.gradients.append(((ours - theirs).abs().max().item(), theirs.abs().max().item()))
        return loss

    def _expected_loss(self, inputs: dict[str, Any]) -> torch.Tensor:
        _, new = entropies_and_logprobs(self.model, inputs, self.temperature)
        ratio = (new - inputs.get("old_per_token_logps", new.detach())).exp()
        mask = inputs["completion_mask"] * inputs.get("tool_mask", 1)
        advantage, share = inputs["advantages"], 1 / self.args.gradient_accumulation_steps
        if self._is_grpo_s:  # Eq. 10 and 11
            length = mask.sum(1)
            ratio = (ratio * mask).sum(1) / length
            advantage = (advantage * mask).sum(1) / length
            share /= len(ratio)
        else:  # Eq. 7
            ratio, advantage = ratio[mask.bool()], advantage[mask.bool()]
            share *= self.args.steps_per_generation / inputs["num_items_in_batch"]
        self.ratios.append(ratio.detach())
        clipped = ratio.clamp(1 - self.args.epsilon, 1 + (self.args.epsilon_high or self.args.epsilon))
        return -torch.minimum(ratio * advantage, clipped * advantage).sum() * share


def trainer(folder: Path, config: dict[str, Any] | None = None, saved: bool = False, **given: Any) -> Watched:
    """A trainer of a random policy.

    Args:
        folder: to write to.
        config: fields of GRPOConfig.
        saved: whether the policy is loaded from a folder, as its reference has to be.
        given: arguments of the trainer.
    """
    policy, tokenizer = tiny_policy()
    torch.nn.init.normal_(policy.lm_head.weight, std=0.4)  # so that entropies differ
    if saved:
        policy.save_pretrained(folder / "policy")
    settings = {
        "output_dir": str(folder),
        "max_steps": 2,
        "per_device_train_batch_size": 16,
        "num_generations": 4,
        "max_completion_length": 6,
        "learning_rate": 0.005,
        "logging_steps": 1,
        "disable_tqdm": True,
        "save_strategy": "no",
        "report_to": "none",
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "loss_type": "grpo" if getattr(given.get("shape"), "func", given.get("shape")) is grpo_s else "dapo",
        **(config or {}),
    }
    made = Watched(
        str(folder / "policy") if saved else policy,
        **{"reward_funcs": says_seven, **given},
        args=GRPOConfig(**settings),
        train_dataset=Dataset.from_dict({"prompt": QUESTIONS * 4}),
        eval_dataset=Dataset.from_dict({"prompt": QUESTIONS * 4}),
        processing_class=tokenizer,
    )
    made.remove_callback(PrinterCallback)
    return made


def compared(
    rollouts: list[dict[str, Any]], shape: Any, size: int = 4, verdicts: Any = says_seven, weight: float = 0
) -> None:
    """Compares the advantages of rollouts, each of all processes, with naive_shaping's."""
    naive = naive_grpo_s if getattr(shape, "func", shape) is grpo_s else naive_gtpo
    options = {**DEFAULTS, **getattr(shape, "keywords", {})}
    informative = 0
    for rollout in rollouts:
        given = verdicts(rollout["completions"])
        mask = [[on and says is not None for on in row] for row, says in zip(rollout["mask"], given, strict=True)]
        group = [place // size for place in range(len(given))]
        penalty = [weight * min(0, (2 - len(ids)) / 4) for ids in rollout["completions"]]
        _, expected, informs = naive(
            rollout["entropy"], mask, [says == 1 for says in given], group, penalty=penalty, **options
        )
        ours, theirs = (torch.tensor([*chain(*rows)]) for rows in (rollout["advantages"], expected))
        print("largest difference:", (ours - theirs).abs().max().item(), "largest advantage:", ours.abs().max().item())
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)
        informative += sum(informs)
    assert informative > 0


def environment_says_a_word(prompts: list[str], trainer: GRPOTrainer) -> dict[str, Any]:
    """A rollout function: four words, of which an environment said the second."""
    ids = [trainer.processing_class(prompt).input_ids for prompt in prompts]
    said = torch.randint(2, 11, (len(prompts), 4)).tolist()
    return {"prompt_ids": ids, "completion_ids": said, "logprobs": None, "env_mask": [[1, 0, 1, 1]] * len(said)}


LORA = LoraConfig(target_modules=["q_proj", "v_proj"])
HALVES = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "as it comes": ({}, {}),
    "accumulated gradients": (HALVES, {}),
    "two iterations": ({"num_iterations": 2, "max_steps": 4}, {}),
    "a rollout for four steps": ({"per_device_train_batch_size": 4, "steps_per_generation": 4, "max_steps": 5}, {}),
    "a temperature": ({"temperature": 0.7}, {}),
    "padded to a multiple": ({"pad_to_multiple_of": 8}, {}),
    "truncated responses masked": ({"mask_truncated_completions": True, "max_completion_length": 16}, {}),
    "checkpointed gradients": ({"gradient_checkpointing": True}, {}),
    "LoRA": ({}, {"peft_config": LORA}),
    "an environment's tokens": ({}, {"rollout_func": environment_says_a_word}),
}


@pytest.mark.parametrize("shape", [partial(gtpo, alpha2=1.0), partial(grpo_s, alpha2=1.0)], ids=["gtpo", "grpo_s"])
@pytest.mark.parametrize("case", CASES)
def test_the_advantages_are_those_of_the_paper(case: str, shape: Any, tmp_path: Path) -> None:
    config, given = CASES[case]
    run = trainer(tmp_path, config, shape=shape, **given)
    run.train()
    compared(run.rollouts, shape)


@pytest.mark.parametrize("loss", ["bnpo", "cispo", "dr_grpo", "grpo", "sapo"])
def test_gtpos_advantages_reach_other_losses_of_tokens(loss: str, tmp_path: Path) -> None:
    run = trainer(tmp_path, {"loss_type": loss})
    before = run.model.lm_head.weight.clone()
    run.train()
    compared(run.rollouts, gtpo)
    assert not torch.equal(run.model.lm_head.weight, before)


@pytest.mark.parametrize("iterations", [1, 2])
@pytest.mark.parametrize("peft_config", [None, LORA], ids=["all weights", "LoRA"])
def test_the_entropies_are_the_policys_and_not_its_references(
    peft_config: LoraConfig | None, iterations: int, tmp_path: Path
) -> None:
    config = {"beta": 0.1, "num_iterations": iterations, "max_steps": 3 * iterations, "learning_rate": 0.05}
    run = trainer(tmp_path, config, saved=peft_config is None, peft_config=peft_config)
    run.train()
    compared(run.rollouts, gtpo)


@pytest.mark.parametrize("options", [{"scope": "batch"}, {"entropy_clip": (0.5, 1.5)}, {"alpha1": 0.5, "alpha2": 2.0}])
@pytest.mark.parametrize("method", [gtpo, grpo_s])
def test_the_shape_has_its_options(method: Any, options: dict[str, Any], tmp_path: Path) -> None:
    run = trainer(tmp_path, shape=partial(method, **options))
    run.train()
    compared(run.rollouts, partial(method, **options))


@pytest.mark.parametrize("shape", [gtpo, grpo_s])
def test_other_rewards_are_a_penalty_and_no_verdict_leaves_a_response_out(shape: Any, tmp_path: Path) -> None:
    run = trainer(
        tmp_path,
        {"reward_weights": [0.5, 1.0]},
        shape=shape,
        reward_funcs=[overlong, says_seven_if_asked],
        correct="says_seven_if_asked",
    )
    run.train()
    without = [says is None for rollout in run.rollouts for says in says_seven_if_asked(rollout["completions"])]
    assert 0 < sum(without) < len(without)
    compared(run.rollouts, shape, verdicts=says_seven_if_asked, weight=0.5)


@pytest.mark.parametrize("shape", [gtpo, grpo_s])
@pytest.mark.parametrize(
    "config",
    [{"num_iterations": 3, "max_steps": 6}, {**HALVES, "num_iterations": 3, "max_steps": 6}],
    ids=["one micro-batch", "two"],
)
def test_the_gradient_is_that_of_the_papers_objective(config: dict[str, Any], shape: Any, tmp_path: Path) -> None:
    run = trainer(tmp_path, {"learning_rate": 0.02, **config}, shape=shape, compare_gradients=True)
    run.train()
    for difference, largest in run.gradients:
        print("largest difference:", difference, "largest gradient:", largest)
        assert difference <= 1e-6 * max(1, largest)
    ratios = torch.cat(run.ratios)
    assert (ratios > 1.2).any()
    assert (ratios < 0.8).any()
    assert ((ratios != 1) & (ratios > 0.8) & (ratios < 1.2)).any()


def test_the_log_shows_our_advantages_and_the_metrics_of_openrlhfs_side(tmp_path: Path) -> None:
    run = trainer(tmp_path, {"max_steps": 1, "log_completions": True})
    run.train()
    (rollout,) = run.rollouts
    table = pandas.read_parquet(tmp_path / "completions" / "completions_00001.parquet")
    rows = [
        [a for a, on in zip(*pair, strict=True) if on]
        for pair in zip(rollout["advantages"], rollout["mask"], strict=True)
    ]
    assert table["advantage"].tolist() == pytest.approx([mean(row) for row in rows], abs=1e-6)
    (logged,) = [line for line in run.state.log_history if "groups/uninformative_share" in line]
    right = [says == 1 for says in says_seven(rollout["completions"])]
    groups = [set(right[first : first + 4]) for first in range(0, len(right), 4)]
    assert logged["groups/all_correct_share"] == groups.count({True}) / len(groups)
    assert logged["groups/all_wrong_share"] == groups.count({False}) / len(groups)
    assert logged["groups/uninformative_share"] == sum(len(group) == 1 for group in groups) / len(groups)
    tokens = [
        (nats, is_right)
        for is_right, row, mask in zip(right, rollout["entropy"], rollout["mask"], strict=True)
        for nats, on in zip(row, mask, strict=True)
        if on
    ]
    for name, wanted in {"": (True, False), "correct_": (True,), "wrong_": (False,)}.items():
        ours = [nats for nats, is_right in tokens if is_right in wanted]
        assert logged[f"entropy/{name}token_mean"] == pytest.approx(mean(ours), abs=1e-5)
    # The shares of a class are 1 on average, so its rewards are alpha1 + alpha2 (Prop. 2.2).
    assert logged["shaped_reward/correct_mean"] == pytest.approx(1.1, abs=1e-5)
    assert logged["shaped_reward/wrong_mean"] == pytest.approx(-1.1, abs=1e-5)


def test_an_evaluation_of_more_responses_than_a_rollout_has_groups_of_its_own_size(tmp_path: Path) -> None:
    run = trainer(tmp_path, {"per_device_eval_batch_size": 64, "num_generations_eval": 8, "log_completions": True})
    assert "eval_loss" in run.evaluate()
    (rollout,) = run.rollouts
    assert len(rollout["mask"]) == 64
    compared(run.rollouts, gtpo, size=8)


@pytest.mark.parametrize("shape", [gtpo, grpo_s])
@pytest.mark.parametrize("processes", [2])
def test_two_processes_share_groups(processes: int, shape: Any, tmp_path: Path) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    done = subprocess.run(
        [*launcher, __file__, str(tmp_path), shape.__name__], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    parts = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(processes)]
    assert len(parts[0]["rollouts"]) == 2
    widths = [{len(part["rollouts"][step]["mask"][0]) for part in parts} for step in (0, 1)]
    print("columns of the processes:", widths)
    assert any(len(columns) == 2 for columns in widths)
    pairs = zip(*(part["rollouts"] for part in parts), strict=True)
    whole = [{name: one[name] + other[name] for name in one} for one, other in pairs]
    assert [len(rollout["mask"]) for rollout in whole] == [12, 12]
    compared(whole, shape)  # groups of 4 in rollouts of 6 and 6: the second group is in both processes
    assert parts[0]["weights"] == parts[1]["weights"]


@pytest.mark.parametrize(
    ("shape", "config", "sentence"),
    [
        (gtpo, {"scale_rewards": "batch"}, "scale_rewards='batch' has no effect.* set it to 'group'"),
        (gtpo, {"scale_rewards": False}, "scale_rewards='none' has no effect.* set it to 'group'"),
        (
            grpo_s,
            {"multi_objective_aggregation": "normalize_then_sum"},
            "multi_objective_aggregation='normalize_then_sum' has no effect.* set it to 'sum_then_normalize'",
        ),
        (gtpo, {"off_policy_mask_threshold": 0.5}, "off_policy_mask_threshold=0.5 goes by the sign.* set it to None"),
        (grpo_s, {"off_policy_mask_threshold": 0.5}, "off_policy_mask_threshold=0.5 goes by single .* set it to None"),
        (gtpo, {"importance_sampling_level": "sequence"}, "importance_sampling_level='sequence' .* set it to 'token'"),
        (gtpo, {"loss_type": "luspo"}, "loss_type='luspo' weighs whole responses.* set it to 'dapo'"),
        (gtpo, {"loss_type": "vespo"}, "loss_type='vespo' weighs whole responses.* set it to 'dapo'"),
        (grpo_s, {"loss_type": "dapo"}, "loss_type='dapo' is not GRPO-S's loss.* set it to 'grpo'"),
        (grpo_s, {"beta": 0.1}, "beta=0.1 goes by single tokens.* set it to 0.0"),
        (grpo_s, {"top_entropy_quantile": 0.2}, "top_entropy_quantile=0.2 goes by single tokens.* set it to 1.0"),
        (
            grpo_s,
            {"vllm_importance_sampling_mode": "token_mask"},
            "vllm_importance_sampling_mode='token_mask' weighs single tokens: set it to 'sequence_mask'",
        ),
        (gtpo, {"top_p": 0.9}, r"top_p=0.9 makes tokens .*sampler_entropies=True.* set it to 1.0"),
        (gtpo, {"top_k": 20}, "top_k=20 makes tokens come from another distribution .* set it to 0"),
        (gtpo, {"min_p": 0.1}, "min_p=0.1 makes tokens come from another distribution .* set it to None"),
        (gtpo, {"repetition_penalty": 1.1}, "repetition_penalty=1.1 makes tokens .* set it to 1.0"),
        (gtpo, {"generation_kwargs": {"typical_p": 0.9}}, "generation_kwargs={'typical_p': 0.9} makes .* to None"),
    ],
)
def test_settings_that_would_have_no_effect_or_be_wrong_are_refused(
    shape: Any, config: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match=f"^{sentence}.$"):
        trainer(tmp_path, config, shape=shape)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"top_p": 0.9}, "vllm_importance_sampling_correction=True weighs responses with .*: set it to False"),
        ({"vllm_mode": "server"}, "vllm_mode='server' does not sample .*: set it to 'colocate'"),
    ],
)
def test_settings_that_do_not_go_with_the_samplers_entropies_are_refused(
    config: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match=f"^{sentence}.$"):
        trainer(tmp_path, {"use_vllm": True, **config}, sampler_entropies=True)


def test_each_refused_setting_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refused:
        trainer(tmp_path, {"beta": 0.1, "top_p": 0.9, "scale_rewards": False}, shape=grpo_s)
    assert [line.split("=")[0] for line in str(refused.value).splitlines()] == ["scale_rewards", "beta", "top_p"]


@pytest.mark.parametrize("neutral", [{"min_p": 0.0}, {"generation_kwargs": {}}, {"scale_rewards": True}])
def test_settings_that_change_nothing_are_not_refused(neutral: dict[str, Any], tmp_path: Path) -> None:
    trainer(tmp_path, neutral)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"shape": max}, "shape=<built-in function max> has to be gtpo or grpo_s of openrlhf_gtpo.shaping"),
        ({"shape": partial(gtpo, alpha2=-1)}, "alpha2 must be a finite number of at least 0, got -1"),
        ({"correct": "is_right"}, "correct='is_right' names no reward function: name one of says_seven"),
        ({"sampler_entropies": True}, "use_vllm=False leaves out vLLM.*: set it to True"),
    ],
)
def test_arguments_that_fit_nothing_are_refused(given: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=sentence):
        trainer(tmp_path, **given)


def test_a_weight_of_the_verdicts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match=r"reward_weights=\[2.0, 1.0\] weighs says_seven, which says what is correct"
    ):
        trainer(tmp_path, {"reward_weights": [2.0, 1.0]}, reward_funcs=[says_seven, overlong])


def test_rewards_that_are_no_verdicts_end_the_run_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError,
        match=r"The reward function soft_overlong_punishment_reward gave -[0-9.]+, and GTPO and GRPO-S need 0 \(wrong",
    ):
        trainer(tmp_path, reward_funcs=overlong).train()


def test_another_version_of_trl_is_refused_with_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trl_checks, "version", lambda _: "1.17.2")
    with pytest.raises(UserError, match=r"in TRL 1\.16\.x, but found .*GRPOTrainer of TRL 1\.17\.2: `pip install"):
        trainer(tmp_path)


def test_a_trainer_that_was_replaced_is_refused_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GRPOTrainer, "_compute_loss", lambda self, model, batch: None)
    with pytest.raises(UserError, match="import nothing that replaces GRPOTrainer"):
        trainer(tmp_path)


def test_entropies_are_taken_out_of_trls_log_probabilities_wherever_they_stand() -> None:
    entropy, logprobs = trl_checks.taken_apart([[[1.5, -0.2], [-3.0, 0.5]], [[-0.0, 0.0]]])
    assert entropy.tolist() == [[1.5, 0.5], [0.0, 0.0]]
    assert logprobs == [[[-0.2], [-3.0]], [[0.0]]]


@pytest.mark.parametrize("pairs", [[[[-0.2]]], [[[-0.2, -1.0]]], [[[None, 0.5]]]], ids=["alone", "top token", "NaN"])
def test_a_sampler_without_the_hook_is_refused_with_a_sentence(pairs: Any) -> None:
    with pytest.raises(UserError, match="vLLM sampled a token without an entropy"):
        trl_checks.taken_apart(pairs)


@pytest.mark.parametrize("page", ["README.md", "docs/adapters.md"])
def test_the_lines_of_the_documentation_train_with_the_graders_verdicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    text = (Path(__file__).parents[2] / page).read_text()
    (lines,) = re.findall(r"```python\n(from openrlhf_gtpo\.trainers\.trl .*?)```", text, re.S)
    policy, tokenizer = tiny_policy()
    for one in (policy, tokenizer):
        one.save_pretrained(tmp_path / "policy")
    small = "GRPOConfig(max_steps=1, max_completion_length=3, num_generations=4, per_device_train_batch_size=4"
    small += ", use_cpu=True, bf16=False, save_strategy='no', report_to='none')"
    lines = lines.replace('"Qwen/Qwen2.5-0.5B-Instruct", MathReward()', f'"policy", MathReward(), {small}')
    monkeypatch.chdir(tmp_path)
    rows = Dataset.from_dict({"prompt": QUESTIONS, "answer": ["7", "8"]})
    names: dict[str, Any] = {"rows": rows, "MathReward": MathReward, "GRPOConfig": GRPOConfig}
    exec(lines, names)
    assert small in lines
    assert names["trainer"].state.global_step == 1


@pytest.mark.parametrize("method", ["gtpo", "grpo_s"])
def test_the_example_learns(method: str, tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "docs" / "examples" / "gtpo_with_trl.py"
    done = subprocess.run(
        [sys.executable, str(script), method], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    print(done.stdout)
    assert done.returncode == 0, done.stderr[-3000:]
    before, after = re.findall(r"\d\.\d\d", done.stdout.splitlines()[-1])
    assert float(before) < 0.4
    assert float(after) > 0.7


def one_of_two_processes(folder: Path, shape: Any) -> None:
    """Groups of 4 in rollouts of 12, of which each of two processes has 6."""
    run = trainer(
        folder,
        {"per_device_train_batch_size": 3, "gradient_accumulation_steps": 2, "max_completion_length": 40},
        shape=shape,
    )
    run.train()
    weights = [weight.sum().item() for weight in run.model.parameters()]
    found = {"rollouts": run.rollouts, "weights": weights}
    (folder / f"{run.accelerator.process_index}.json").write_text(json.dumps(found))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    one_of_two_processes(Path(sys.argv[1]), {"gtpo": gtpo, "grpo_s": grpo_s}[sys.argv[2]])
