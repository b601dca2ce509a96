"""GTPO and GRPO-S in verl: its own queue, its own advantage step of its own trainer and its own loss, without a model.

verl's rollout and its update need a GPU, so no step of `main_ppo` runs here.
"""

import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
import same_rollouts
import torch
import transfer_queue as tq
from hydra import compose, initialize_config_module
from omegaconf import DictConfig
from same_rollouts import CORRECT, ENTROPY, GROUP, MASK, NEW, OLD, PENALTY
from tensordict import TensorDict
from tensordict.tensorclass import NonTensorData
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.core_algos import get_adv_estimator_fn
from verl.trainer.ppo.v1.trainer_base import get_trainer_cls
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.tensordict_utils import list_of_dict_to_tensordict
from verl.workers.utils.losses import ppo_loss

import openrlhf_gtpo.trainers.verl  # noqa: F401
from openrlhf_gtpo.cpu.platform import start_local_ray

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
GRPO_S = [
    "algorithm.adv_estimator=grpo_s",
    f"{ACTOR}.policy_loss.loss_mode=grpo_s",
    f"{ACTOR}.loss_agg_mode=seq-mean-token-mean",
]
SETTINGS = {"gtpo": ["algorithm.adv_estimator=gtpo"], "grpo_s": GRPO_S}
BOTH = pytest.mark.parametrize("estimator", ["gtpo", "grpo_s"])


def configured(*overrides: str) -> DictConfig:
    """verl's own configuration of `main_ppo` with these settings beside trainer_mode=gtpo."""
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=["trainer.v1.trainer_mode=gtpo", *overrides])


@pytest.fixture(scope="module")
def queue() -> Iterator[None]:
    """verl's TransferQueue, in processes of its own."""
    start_local_ray(cpus=4, gpus=0, store=2**30)
    settings = configured().transfer_queue
    settings.enable = True
    settings.backend.SimpleStorage.num_data_storage_units = 1
    tq.init(settings)
    yield
    tq.close()
    ray.shutdown()


def row(i: int, said: dict[str, Any]) -> dict[str, Any]:
    """A response as verl's agent loop, its reward worker and its pass for old log-probabilities leave it."""
    tokens = sum(MASK[i])
    scores = torch.zeros(tokens)
    scores[-1] = CORRECT[i] + PENALTY[i]
    return {
        "uid": f"prompt{GROUP[i]}",
        "responses": torch.arange(tokens),
        "response_mask": torch.tensor(MASK[i][:tokens]),
        "rm_scores": scores,
        "entropy": torch.tensor(ENTROPY[i][:tokens]),
        "old_log_probs": torch.tensor(OLD[i][:tokens]),
        "rollout_log_probs": torch.tensor(OLD[i][:tokens]),
        "extra_fields": {"reward_extra_info": said},
    }


def verdict(i: int) -> dict[str, Any]:
    return {"score": float(CORRECT[i]), "acc": float(CORRECT[i])}


def put(rows: list[dict[str, Any]], names: list[str]) -> KVBatchMeta:
    tags: list[dict[str, Any]] = [{} for _ in rows]
    tq.kv_batch_put(keys=names, partition_id="train", fields=list_of_dict_to_tensordict(rows), tags=tags)
    return KVBatchMeta(partition_id="train", keys=names, tags=tags)


KEYS = [f"prompt{group}_{i}_0" for i, group in enumerate(GROUP)]


@BOTH
def test_the_queues_rollouts_get_the_same_advantages_as_in_every_trainer(queue: None, estimator: str) -> None:
    order = list(range(len(MASK)))
    random.Random(1).shuffle(order)  # verl's trainer orders responses by their lengths, not by their prompts
    batch = put([row(i, verdict(i)) for i in order], [KEYS[i] for i in order])
    trainer = get_trainer_cls("gtpo")(configured(*SETTINGS[estimator]))
    assert isinstance(trainer, PPOTrainerSync)
    assert type(trainer.replay_buffer).__name__ == "ReplayBuffer", "the synchronous one"
    metrics: dict[str, float] = {}
    trainer._compute_advantage(batch, metrics)
    assert metrics["groups/uninformative_share"] == pytest.approx(2 / 5)  # one group all correct, one all wrong
    found = tq.kv_batch_get(keys=KEYS, partition_id="train", select_fields=["advantages"]).to_padded_tensor()
    expected = torch.tensor(same_rollouts.expected(estimator))
    print(f"{estimator}: largest difference {(found['advantages'] - expected).abs().max():.1e}")
    torch.testing.assert_close(found["advantages"], expected, rtol=0, atol=1e-6)


def test_rows_that_fill_verls_batch_up_change_nothing(queue: None) -> None:
    rows = [row(i, verdict(i)) for i in range(len(MASK))]
    filler = row(1, verdict(1)) | {
        "uid": "pad",
        "responses": torch.tensor([1]),
        "response_mask": torch.tensor([0]),
        "rm_scores": torch.zeros(1),
        "entropy": torch.tensor([-1e-7]),
        "old_log_probs": torch.zeros(1),
        "rollout_log_probs": torch.zeros(1),
    }
    get_trainer_cls("gtpo")(configured("algorithm.adv_estimator=gtpo"))._compute_advantage(
        put([*rows, filler], [*KEYS, "pad_0_0"]), {}
    )
    found = tq.kv_batch_get(keys=KEYS, partition_id="train", select_fields=["advantages"]).to_padded_tensor()
    torch.testing.assert_close(found["advantages"], torch.tensor(same_rollouts.expected("gtpo")), rtol=0, atol=1e-6)


@BOTH
def test_verls_loss_has_the_same_gradient(estimator: str) -> None:
    """verl's `ppo_loss` with verl's configuration of the actor, on the nested tensors that it gets from an engine."""
    overrides = [
        f"{ACTOR}.clip_ratio_low=0.2",
        f"{ACTOR}.clip_ratio_high=0.28",
        f"{ACTOR}.ppo_micro_batch_size_per_gpu=4",
    ]
    actor = configured(*SETTINGS[estimator], *overrides).actor_rollout_ref.actor
    config = omega_conf_to_dataclass(actor)
    lengths = [sum(mask) for mask in MASK]

    def nested(rows: list[list[float]]) -> torch.Tensor:
        cut = [torch.tensor(one[:n]) for one, n in zip(rows, lengths, strict=True)]
        return torch.nested.as_nested_tensor(cut, layout=torch.jagged)

    new = torch.tensor(NEW, requires_grad=True)
    # A model gives a number for each token of prompt and response, shifted by one: here, prompts are one token long.
    whole = [torch.cat([one[:n], one.new_zeros(1)]) for one, n in zip(new, lengths, strict=True)]
    data = TensorDict(
        {
            "prompts": torch.nested.as_nested_tensor([torch.zeros(1).long() for _ in lengths], layout=torch.jagged),
            "responses": nested(MASK),
            "response_mask": nested(MASK),
            "old_log_probs": nested(OLD),
            "advantages": nested(same_rollouts.expected(estimator)),
        },
        batch_size=len(lengths),
    )
    for name, value in {"dp_size": 1, "batch_num_tokens": sum(lengths), "global_batch_size": len(lengths)}.items():
        data[name] = NonTensorData(value)
    loss, metrics = ppo_loss(config, {"log_probs": torch.nested.as_nested_tensor(whole, layout=torch.jagged)}, data)
    loss.backward()
    expected = torch.tensor(same_rollouts.expected_gradient(estimator))
    print(f"{estimator}: largest difference {(new.grad - expected).abs().max():.1e}, {metrics}")
    torch.testing.assert_close(new.grad, expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        ([], "adv_estimator=gtpo"),
        (GRPO_S[:1], "grpo_s, vanilla, token-mean"),
        ([*SETTINGS["gtpo"], "algorithm.rollout_correction.bypass_mode=true"], "bypass_mode"),
        ([*SETTINGS["gtpo"], f"{ROLLOUT}.top_p=0.95"], "top_p=0.95"),
        ([*SETTINGS["gtpo"], f"{ROLLOUT}.top_k=50"], "top_k=50"),
        ([*SETTINGS["gtpo"], "+algorithm.shaping.alpha2=-1"], "alpha2"),
    ],
)
def test_a_setting_that_does_not_work_with_it_is_refused_at_start_up_and_named(
    overrides: list[str], named: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=named):
        get_trainer_cls("gtpo")(configured(*overrides))


def test_a_reward_that_is_no_verdict_ends_the_step(queue: None) -> None:
    rows = [row(i, {}) for i in range(len(MASK))]  # a reward function that says nothing but its number
    with pytest.raises(ValueError, match=r'found \[-1.0, -0.5, .*let the reward function return \{"score": REWARD'):
        get_trainer_cls("gtpo")(configured("algorithm.adv_estimator=gtpo"))._compute_advantage(put(rows, KEYS), {})


def test_without_the_trainer_the_estimator_says_what_to_set() -> None:
    with pytest.raises(ValueError, match=r"adv_estimator=gtpo needs trainer.v1.trainer_mode=gtpo"):
        get_adv_estimator_fn("gtpo")(token_level_rewards=torch.zeros(1, 1), index=["a"], config=None)


PAGE = Path(__file__).parents[2] / "docs" / "adapters.md"
BLOCKS = re.findall(r"```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
EXAMPLES = [re.findall(r"^    (\S+=\S+) ", block, re.M) for block in BLOCKS if "trainer.v1.trainer_mode=gtpo" in block]


@pytest.mark.parametrize("overrides", EXAMPLES)
def test_verl_accepts_the_pages_command_lines(overrides: list[str]) -> None:
    config = configured(*overrides)
    made = get_trainer_cls(config.trainer.v1.trainer_mode)(config)
    assert type(made).__module__ == "openrlhf_gtpo.trainers.verl"


def test_verl_loads_the_module_that_its_variable_names() -> None:
    code = "import verl; from verl.trainer.ppo.v1 import get_trainer_cls; print(get_trainer_cls('gtpo').__module__)"
    environment = os.environ | {"VERL_USE_EXTERNAL_MODULES": "openrlhf_gtpo.trainers.verl"}
    found = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, env=environment)
    assert found.stdout.splitlines()[-1:] == ["openrlhf_gtpo.trainers.verl"], found.stderr
