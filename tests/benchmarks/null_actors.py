"""Ray's actors of a run without a model, for `bench_step.py`: the product's own or OpenRLHF's, as its settings say,
whose engine, model, optimiser and weight sync do nothing. They write down what a step costs."""

import contextlib
import json
import os
import random
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import openrlhf.trainer.ppo_trainer as ppo_trainer
import openrlhf.trainer.ray.ppo_actor as ppo_actor
import openrlhf.trainer.ray.vllm_engine as vllm_engine
import psutil
import ray
import torch
import vllm

from openrlhf_gtpo.cpu.actors import CpuModel, CpuPolicyActor
from openrlhf_gtpo.cpu.engines import CpuRolloutActor
from openrlhf_gtpo.engine.one_message.front_end import ArrayLogprobs
from openrlhf_gtpo.host import plain_class

SETTINGS: dict[str, Any] = json.loads(Path(os.environ["NULL_STEP"]).read_text())
FOLDER = Path(SETTINGS["folder"])
LOGPROB = -0.3
OF_PROCESSES = {"Trainer": "controller", "RolloutActor": "rollout actor", "PolicyActor": "policy"}

BaseTrainer: Any = plain_class(ppo_trainer.PPOTrainer)
BasePolicy: tuple[Any, ...] = (CpuModel, plain_class(ppo_actor.PolicyModelActor))
BaseRollout: Any = plain_class(vllm_engine.RolloutRayActor)
if SETTINGS["ours"]:  # these modules change OpenRLHF's
    from openrlhf_gtpo.controller.trainers import Trainer as BaseTrainer

    BasePolicy, BaseRollout = (CpuPolicyActor,), CpuRolloutActor


def write(**entry: Any) -> None:
    with (FOLDER / f"trace.{os.getpid()}").open("a") as file:
        file.write(json.dumps(entry) + "\n")


# The controller


class Trainer(BaseTrainer):
    """Writes down at the end of each step what all processes have used, and begins to look for its most memory."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if SETTINGS["arm"] == "openrlhf_sent_once":
            from openrlhf_gtpo.sent_once import SentOnce

            self.samples_generator.tokenizer = SentOnce(self.tokenizer)

    def save_logs_and_checkpoints(self, *args: Any, **kwargs: Any) -> Any:
        result = super().save_logs_and_checkpoints(*args, **kwargs)
        write(ended=time.time(), processes=_used(), store=_stored())
        return result


def _used() -> dict[str, tuple[float, float]]:
    """Of each actor: CPU seconds since its start, and the most MB since the last call."""
    found: dict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            title = " ".join(process.cmdline())
            if not title.startswith("ray::") or process.uids() != psutil.Process().uids():
                continue
            role = next((role for name, role in OF_PROCESSES.items() if name in title), "other")
            status = Path(f"/proc/{process.pid}/status").read_text()
            peak = int(status.partition("VmHWM:")[2].split()[0]) / 1000
            Path(f"/proc/{process.pid}/clear_refs").write_text("5")  # the peak begins again
            cpu, memory = found[role]
            found[role] = (cpu + sum(process.cpu_times()[:2]), memory + peak)
    return found


def _stored() -> tuple[float, float]:
    """MB that Ray's object store has taken in and has spilled to the disk since the start."""
    from ray._private.internal_api import node_stats

    node = next(node for node in ray.nodes() if node["Alive"])
    stats = node_stats(node["NodeManagerAddress"], node["NodeManagerPort"]).store_stats
    return stats.cumulative_created_bytes / 1e6, stats.spilled_bytes_total / 1e6


# The engine


class NullEngine:
    """Answers as vLLM's AsyncLLM: a text that ends in a right or a wrong answer, with log-probabilities and entropies
    where the request asks for them."""

    def __init__(self) -> None:
        self._tokens = json.loads((Path(SETTINGS["model"]) / "responses.json").read_text())
        self._draw, values = random.Random(0), np.random.default_rng(0)
        self._entropies = values.gamma(0.5, 0.6, 2 * SETTINGS["longest"]).astype(np.float32)
        self._logprobs = (-values.gamma(0.4, 0.5, 2 * SETTINGS["longest"])).astype(np.float32)
        self._unfinished = 0
        self.output_processor = SimpleNamespace(get_num_unfinished_requests=lambda: self._unfinished)

    async def generate(self, prompt: Any, params: Any, request_id: str | None = None) -> AsyncIterator[Any]:
        write(arrived=time.time())
        end = self._tokens[self._draw.choice(["right", "wrong"])]
        n = max(len(end), self._draw.randint(SETTINGS["shortest"], SETTINGS["longest"]))
        tokens = self._tokens["text"][: n - len(end)] + end
        logprobs = None
        if params.logprobs is not None:
            at = self._draw.randrange(SETTINGS["longest"])
            values = np.stack([self._logprobs[at : at + len(tokens)], self._entropies[at : at + len(tokens)]], axis=1)
            logprobs = ArrayLogprobs(np.stack([tokens, np.add(tokens, 1)], axis=1), values, np.ones(len(tokens), int))
        yield SimpleNamespace(
            outputs=[SimpleNamespace(token_ids=tokens, text="", logprobs=logprobs, finish_reason="stop")]
        )

    async def collective_rpc(self, method: str, *args: Any, **kwargs: Any) -> list[Any]:
        hooked = {"hooked": True, "vllm": vllm.__version__, "sampler": "none"}
        return [hooked if method == "entropy_hook_report" else None]

    async def is_sleeping(self) -> bool:
        return False

    async def reset_prefix_cache(self) -> None:
        pass


class RolloutActor(BaseRollout):
    """The actor around an engine without a model."""

    async def __init__(self, *args: Any, **kwargs: Any) -> None:
        vllm_engine.vllm = SimpleNamespace(
            __version__=vllm.__version__,
            AsyncEngineArgs=lambda *args, **kwargs: None,
            AsyncLLMEngine=SimpleNamespace(from_engine_args=lambda args: NullEngine()),
        )
        await super().__init__(*args, **kwargs)


# The policy


class PolicyActor(*BasePolicy):
    """The actor without a model; replay buffer and loss are real."""

    def init_model_from_pretrained(self, strategy: Any, *args: Any, **kwargs: Any) -> None:
        ppo_actor.ActorPPOTrainer._init_vllm_sync_group = lambda self, backend: None
        ppo_actor.ActorPPOTrainer.broadcast_to_vllm = lambda self: None
        super().init_model_from_pretrained(strategy, *args, **kwargs)
        self.actor.forward = _forward
        self.strategy.backward = lambda *_, **__: None
        self.strategy.optimizer_step = lambda *_, **__: None
        self.strategy.get_grad_norm = lambda *_, **__: 0.0


_weight = torch.zeros(1, requires_grad=True)


def _forward(
    sequences: torch.Tensor, action_mask: torch.Tensor, *_: Any, return_output: bool = False, **__: Any
) -> Any:
    """As ``openrlhf.models.Actor.forward``: the same log-probability for every token."""
    logprobs = torch.full(action_mask.shape, LOGPROB) + _weight
    return (logprobs, SimpleNamespace(entropy=torch.zeros(sequences.shape))) if return_output else logprobs
