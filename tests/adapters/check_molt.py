"""GTPO in Molt: its own controller, trainer and policy processes, experiences, policy model and loss, on a CPU.

A step of Molt needs GPUs: here vLLM samples nothing, and no optimizer runs.
"""

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
import same_rollouts
import torch
from molt.models import Actor, PolicyLoss
from molt.trainer import rl_trainer
from molt.trainer.algorithm.experience import Experience
from molt.trainer.algorithm.kl_controller import FixedKLController
from molt.trainer.workers import policy_actor
from molt.trainer.workers.actor_group import RayActorGroup
from same_rollouts import CLIP, CORRECT, ENTROPY, GROUP, MASK, NEW, OLD, PENALTY
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from openrlhf_gtpo.cpu.platform import start_local_ray
from openrlhf_gtpo.shaping import gtpo
from openrlhf_gtpo.trainers.molt import ExperienceMaker, install

TEMPERATURE = 0.7


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # no process of Ray's can import this file
    with pytest.MonkeyPatch.context() as changed:
        changed.delenv("CUDA_VISIBLE_DEVICES", raising=False)  # Ray counts by it, and here no GPU is real
        start_local_ray(cpus=8, gpus=2, store=2**30)
        yield
        ray.shutdown()


def arguments() -> SimpleNamespace:
    """Molt's flags, as far as its controller, trainer and experience maker read them."""
    return SimpleNamespace(
        actor=SimpleNamespace(freezing_steps=0),
        algo=SimpleNamespace(
            advantage=SimpleNamespace(estimator="grpo", gamma=1.0, lam=1.0, no_whiten=False),
            kl=SimpleNamespace(use_loss=False, init_coef=0.0, estimator="k1", target=None),
        ),
        ckpt=SimpleNamespace(save_steps=-1, best_metric_key=""),
        data=SimpleNamespace(disable_fast_tokenizer=False),
        eval=SimpleNamespace(steps=-1),
        logger=SimpleNamespace(wandb=SimpleNamespace(key=None), tensorboard_dir=None),
        reward=SimpleNamespace(clip_range=(-10, 10)),
        rollout=SimpleNamespace(n_samples_per_prompt=same_rollouts.SIZE),
        train=SimpleNamespace(force_on_policy=False),
        vllm=SimpleNamespace(),
    )


class Policies:
    """In the place of the group of the policy's processes: gives what they calculated for the saved rollouts."""

    duplicate_actors = 1

    def async_run_method_batch(self, method_name: str, experience: list[Experience]) -> list[Any]:
        assert method_name == "forward"
        return [ray.put([one.saved for one in experience])]

    def async_run_method(self, method_name: str) -> list[Any]:
        assert method_name == "empty_cache"
        return []


def experiences(order: list[int]) -> list[Experience]:
    """One for each response, after prompts of different lengths, as Molt's rollout actors give them."""
    found = []
    for i in order:
        n, prompt = sum(MASK[i]), 2 + GROUP[i]
        before = [0.0] * (prompt - 1)  # on Molt's axis of next tokens
        one = Experience(
            sequences=torch.ones(1, prompt + n).long(),
            attention_mask=torch.ones(1, prompt + n).long(),
            action_mask=torch.tensor([before + MASK[i][:n]]).bool(),
            rewards=torch.tensor([CORRECT[i] + PENALTY[i]]),
            scores=torch.tensor([float(CORRECT[i])]),
            group_ids=[f"prompt {GROUP[i]}"],
            rollout_ids=[f"rollout {i}"],
        )
        one.saved = torch.tensor([[before + OLD[i][:n]], [[9.0] * len(before) + ENTROPY[i][:n]]])
        found.append(one)
    return found


def maker(args: SimpleNamespace) -> ExperienceMaker:
    made = ExperienceMaker(Policies(), None, FixedKLController(0.0), SimpleNamespace(args=args), None)
    made.alpha2 = 0.1
    return made


def shuffled() -> list[int]:
    order = list(range(len(MASK)))
    random.Random(1).shuffle(order)  # Molt orders responses by their lengths
    return order


def test_molts_loss_has_the_same_gradient() -> None:
    new, mask = torch.tensor(NEW, requires_grad=True), torch.tensor(MASK).bool()
    loss = PolicyLoss(clip_eps_low=CLIP[0], clip_eps_high=CLIP[1])
    loss(new, torch.tensor(OLD), torch.tensor(same_rollouts.expected("gtpo")), action_mask=mask)[0].backward()
    expected = torch.tensor(same_rollouts.expected_gradient("gtpo"))
    torch.testing.assert_close(new.grad, expected, rtol=0, atol=1e-7)


def policy_model() -> Qwen2ForCausalLM:
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    return Qwen2ForCausalLM(Qwen2Config(vocab_size=50, num_key_value_heads=2, **shape))


def give_model(worker: Any) -> None:
    """In a process of Molt's policy: a model on a CPU, where Molt would shard one over GPUs."""
    torch.cuda.current_device, torch.cuda.synchronize = (lambda: "cpu"), (lambda: None)
    torch.compiler.set_stance("force_eager")  # Molt compiles its entropy
    worker.strategy = SimpleNamespace(is_rank_0=lambda: False)
    worker.actor = Actor(policy_model(), temperature=TEMPERATURE)


def made_by(controller: Any, samples: list[Experience]) -> list[Experience]:
    """In the process of Molt's controller: what its trainer's process makes of samples."""
    ask = controller.trainer_actor.__ray_call__.remote
    return ray.get(ask(lambda trainer, sent: trainer.experience_maker.build_experiences(sent), samples))


@ray.remote
class NoSampling:
    """In the place of the process that samples, which needs vLLM's engines."""

    def __init__(self, **_: Any) -> None: ...


def test_molts_own_processes_shape_with_the_entropies_of_two_policy_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))).save_pretrained(
        tmp_path
    )
    for module, name in ((policy_actor, "PolicyModelActor"), (rl_trainer, "TrainingActor")):
        monkeypatch.setattr(module, name, getattr(module, name))  # put back afterwards
    monkeypatch.setattr(rl_trainer, "GenerateSamplesActor", NoSampling)
    install(alpha2=0.3)
    policies = RayActorGroup(1, 2, policy_actor.PolicyModelActor)
    ray.get([worker.__ray_call__.remote(give_model) for worker in policies._actor_handlers])
    controller = rl_trainer.RLTrainer.remote(
        str(tmp_path), SimpleNamespace(args=arguments()), policies, None, vllm_engines=None
    )
    samples = experiences(shuffled())
    for one in samples:
        one.sequences = torch.randint(50, one.sequences.shape)
    made = ray.get(controller.__ray_call__.remote(made_by, samples))

    model, entropies = policy_model(), torch.zeros(len(MASK), len(MASK[0]))
    for i, given, one in zip(shuffled(), samples, made, strict=True):
        ids, on = given.sequences, given.action_mask
        with torch.no_grad():
            exact = torch.distributions.Categorical(logits=model(ids).logits[:, :-1] / TEMPERATURE)
        entropies[i, : on.sum()] = exact.entropy()[on]
        torch.testing.assert_close(one.action_log_probs[on], exact.log_prob(ids[:, 1:])[on], rtol=0, atol=1e-5)
    mask, correct, group, penalty = map(torch.tensor, (MASK, CORRECT, GROUP, PENALTY))
    own = gtpo(entropies, mask, correct, group, penalty=penalty, alpha2=0.3)
    for i, one in zip(shuffled(), made, strict=True):
        found = one.advantages[one.action_mask]
        torch.testing.assert_close(found, own.advantages[i, : len(found)], rtol=0, atol=1e-5)


def test_a_score_that_is_no_verdict_ends_the_step() -> None:
    two = experiences([0, 1])
    two[1].scores = torch.tensor([0.5])
    with pytest.raises(ValueError, match=r"scores of 0 or 1, not \[0.5, 1.0\]: set Result.score"):
        maker(arguments()).build_experiences(two)


PROGRAM = "openrlhf_gtpo.trainers.molt"


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("--algo.advantage.estimator rloo", "argument --algo.advantage.estimator: invalid choice: 'rloo'"),
        ("--rollout.top_p 0.95", "argument --rollout.top_p: invalid choice: 0.95"),
        ("--shaping.alpha2 0.2 --rollout.n_samples_per_prompt 8", "--actor.model_name_or_path is required"),
    ],
)
def test_the_command_refuses_what_gtpo_cannot_use_and_hands_molt_the_rest(flags: str, sentence: str) -> None:
    run = subprocess.run([sys.executable, "-m", PROGRAM, *flags.split()], text=True, capture_output=True)
    assert run.returncode
    assert sentence in run.stderr.splitlines()[-1]
