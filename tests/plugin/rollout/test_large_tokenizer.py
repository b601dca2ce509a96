"""A tokenizer of a real model's size on its way to the rollout actor: real Ray, a real engine, a real HTTP server."""

import itertools
import pickle
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator

from math_reward.client import Settings
from openrlhf_gtpo.controller.trainers import GeneratorMixin
from openrlhf_gtpo.cpu.engines import CpuRolloutActor
from openrlhf_gtpo.cpu.platform import environment
from openrlhf_gtpo.rollout.actor import RolloutSettings

from ...fake_reward_server import FakeRewardServer, finds
from ...small_models import small_qwen2
from ..guide.tables import G, guided
from .test_actor import OPENRLHFS_ENGINE

pytestmark = pytest.mark.engine

PROMPTS = 8
FOLDER = str(Path(__file__).parent)
"""Of `large_tokenizer`."""


class OpenRLHFsHalf:
    """What `GeneratorMixin` finds in OpenRLHF's controller."""

    def __init__(self, args: Any, tokenizer: Any, engines: list[Any]) -> None:
        data = [(None, [f"Problem {i}: 1+1?"], ["2"], [None]) for i in range(PROMPTS)]
        self.args, self.max_steps = args, 1
        self.samples_generator = SamplesGenerator(SimpleNamespace(args=args), data, None, tokenizer, engines)


class Half(GeneratorMixin, OpenRLHFsHalf):
    """Ours over it."""


@pytest.fixture
def tokenizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A large one, of a class that Ray's workers import by the same name."""
    monkeypatch.syspath_prepend(FOLDER)
    from large_tokenizer import large_tokenizer

    found = large_tokenizer()
    found.noted_in = str(tmp_path / "unpickled")
    return found


@pytest.fixture
def model(tokenizer: Any, tmp_path: Path) -> Path:
    """A random model with a row for each token."""
    small = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1}
    small_qwen2(vocab_size=len(tokenizer), **small).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_the_rollout_actor_unpickles_it_once_for_policy_and_guide_and_no_reward_fails(
    tokenizer: Any, model: Path, tmp_path: Path
) -> None:
    assert len(pickle.dumps(tokenizer)) > 2 * 2**20, "the size is the point"
    args = guided(model="guide", guide__samples=2, rollout__batch_size=PROMPTS)
    variables = environment()
    variables["PYTHONPATH"] = ":".join([variables["PYTHONPATH"], FOLDER])
    ray.init(address="local", num_cpus=4, num_gpus=1, include_dashboard=False, runtime_env={"env_vars": variables})
    try:
        with FakeRewardServer(always=finds("2")) as server:
            rewards = Settings((server.url,), deadline=0)  # one attempt, as with drop_group
            engine = (
                ray.remote(CpuRolloutActor)
                .options(num_gpus=1)
                .remote(
                    model=str(model),
                    num_gpus=1,
                    bundle_indices=None,
                    gpu_memory_utilization=0.05,
                    rollout=RolloutSettings(rewards, "openrlhf_gtpo.cpu.vllm_worker.CpuWorkerExtension"),
                    **OPENRLHFS_ENGINE,
                )
            )
            half = Half(args, tokenizer, [engine])
            generator: Any = half.samples_generator
            guide = generator.guide
            guide.engines, guide.tokenizer, guide._turn = [engine], generator.tokenizer, itertools.cycle([engine])
            samples, *_ = generator.generate_samples(max_len=64, max_new_tokens=12)
            assert len(samples) == PROMPTS * (G + 2)
            assert generator.tally.failed_responses == generator.tally.dropped_groups == 0
            stats = ray.get(engine.reward_stats.remote())
            assert stats["items"] == PROMPTS * (G + 2)
            assert stats["retries"] == stats["failures"] == 0
    finally:
        ray.shutdown()
    times = Counter((tmp_path / "unpickled").read_text().split())
    assert list(times.values()) == [1], "in one process, the actor's, and once"
